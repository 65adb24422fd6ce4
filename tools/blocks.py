"""Runs the code of a page: `python` blocks in one namespace, the commands of `console` blocks in one folder.

What a block printed is compared with the `text` block behind it, a command's output with the lines below it. `…` at
the end of a shown line stands for its rest. Commands that set up a machine are not run.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from offprompt.testing.scripted import ScriptedModel

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = ("make ", "pip ", "python3 -m venv", ". .venv", "git ", "cd ")


@dataclass(frozen=True)
class Ran:
    """One block or command. start, end: where its output is shown in the page's text; line: where its code stands."""

    code: str
    line: int
    start: int
    end: int
    shown: str
    printed: str

    @property
    def fits(self) -> bool:
        """Whether the output is what the page shows."""
        lines, wanted = self.printed.rstrip().splitlines(), self.shown.rstrip().splitlines()
        return len(lines) == len(wanted) and all(map(fitting, lines, wanted))


def fitting(line: str, shown: str) -> bool:
    """Whether a printed line is what is shown."""
    return line.startswith(shown.removesuffix("…")) if shown.endswith("…") else line.rstrip() == shown.rstrip()


def run_page(text: str, name: str, folder: Path) -> list[Ran]:
    """All code of a page in a folder: its `python` blocks in order, then its commands in order.

    What other programs left in the user's folders, such as tokens of servers, is not there for it.
    """
    with tempfile.TemporaryDirectory() as home, contextlib.chdir(folder), closed_loops():
        before = dict(os.environ)
        os.environ |= {"XDG_DATA_HOME": f"{home}/data", "XDG_CONFIG_HOME": f"{home}/config"}
        try:
            return [*run_python(text, name), *run_console(text, folder)]
        finally:
            os.environ.clear()
            os.environ |= before


@contextlib.contextmanager
def closed_loops() -> Generator[None]:
    """Closes, as the end of a program would, what event loops the block makes, stops and leaves to others."""
    loops: list[asyncio.AbstractEventLoop] = []
    make = asyncio.new_event_loop

    def made() -> asyncio.AbstractEventLoop:
        loops.append(make())
        return loops[-1]

    asyncio.new_event_loop = made
    try:
        yield
    finally:
        asyncio.new_event_loop = make
        left = [loop for loop in loops if not loop.is_running() and not loop.is_closed()]
        for loop in left:
            loop.close()
        if left:
            asyncio.set_event_loop(None)


def run_python(text: str, name: str) -> Iterator[Ran]:
    """Run a page's `python` blocks, in the current folder; what each printed where a `text` block follows."""
    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=ScriptedModel().create)))
    names: dict[str, Any] = {"__name__": "__main__", "client": client}
    found = list(BLOCK.finditer(text))
    for block, following in zip(found, [*found[1:], None], strict=False):
        if block[1] != "python":
            continue
        line = text.count("\n", 0, block.start(2)) + 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (line - 1) + block[2], name, "exec"), names)  # noqa: S102 - our own pages
        if following is not None and following[1] == "text":
            yield Ran(block[2], line, following.start(2), following.end(2), following[2], printed.getvalue())


def run_console(text: str, folder: Path) -> Iterator[Ran]:
    """Run the commands of a page's `console` blocks in a folder, with a store of their own."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OFFPROMPT_")}
    environ |= {"PATH": f"{Path(sys.executable).parent}:{environ['PATH']}", "OFFPROMPT_URL": str(folder / "own.db")}
    for block in BLOCK.finditer(text):
        if block[1] != "console":
            continue
        exported: list[str] = []
        for command, start, end in commands(block[2]):
            if command.startswith("export "):
                exported.append(command)
            elif not command.startswith(NOT_RUN):
                ran = subprocess.run(
                    ["bash", "-c", "; ".join([*exported, command])],  # noqa: S607 - whatever bash the machine has
                    cwd=folder,
                    env=environ,
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
                at = block.start(2)
                line = text.count("\n", 0, at + start)
                yield Ran(command, line, at + start, at + end, block[2][start:end], ran.stdout)


def commands(code: str) -> Iterator[tuple[str, int, int]]:
    """The commands of a console block, each with where the output below it begins and ends."""
    starts = [match.start() for match in re.finditer(r"^\$ ", code, re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], len(code)], strict=True):
        line_end = code.index("\n", start) + 1
        yield code[start + 2 : line_end - 1], line_end, end
