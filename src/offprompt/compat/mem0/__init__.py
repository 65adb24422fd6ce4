"""mem0's two faces over this memory: its library's `Memory`, and what its hosted API answers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offprompt.compat.mem0.async_library import AsyncMemory
    from offprompt.compat.mem0.library import Memory

__all__ = ["AsyncMemory", "Memory"]


def __getattr__(name: str) -> Any:
    """The library's face is loaded when it is asked for, with NumPy and the rules: a server may never need it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    where = "library" if name == "Memory" else "async_library"
    return getattr(import_module(f"{__name__}.{where}"), name)
