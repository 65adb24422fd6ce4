"""The tests of another module, to be run with the fixtures of one's own."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def borrowed(module: ModuleType, *without: str) -> dict[str, Any]:
    """Its tests and fixtures by name, for `globals().update(…)`; without: tests that make no sense elsewhere."""
    own = {name: each for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__}
    fixtures = {name: each for name, each in vars(module).items() if type(each).__name__ == "FixtureFunctionDefinition"}
    tests = {name: each for name, each in own.items() if name.startswith("test_")}
    unknown = set(without) - tests.keys()
    assert not unknown, f"{module.__name__} has no {unknown}"
    return fixtures | {name: each for name, each in tests.items() if name not in without}
