"""mem0's two faces over this memory: its library's `Memory`, and what its hosted API answers."""

from offprompt.compat.mem0.async_library import AsyncMemory
from offprompt.compat.mem0.library import Memory

__all__ = ["AsyncMemory", "Memory"]
