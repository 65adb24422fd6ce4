"""mem0's own clients, unchanged, set on a server of the tests."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx


def mem0_module(folder: Path) -> Any:
    """Their package, told to send nothing home and to keep its files in a folder of the tests."""
    os.environ["MEM0_TELEMETRY"] = "false"
    os.environ["MEM0_DIR"] = str(folder)
    return import_module("mem0")


def client_of(mem0: Any, url: str, http: httpx.Client, key: str = "any") -> Any:
    """Their `MemoryClient`, over an HTTP client of the caller's, who closes it."""
    return mem0.MemoryClient(api_key=key, host=url, client=http)
