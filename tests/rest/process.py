"""`offprompt serve` as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

WAIT_S = 60.0


@dataclass
class Process:
    """A running server. said: what it printed when it listened. errors: the file of its stderr."""

    popen: subprocess.Popen[str]
    said: Mapping[str, Any]
    errors: Path

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.said["url"]

    @property
    def headers(self) -> dict[str, str]:
        """What shows who asks."""
        return {"Authorization": f"Bearer {Path(self.said['token_file']).read_text()}"}

    @property
    def workers(self) -> list[int]:
        """The processes that it started."""
        pid = self.popen.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def client(self, user: str = "alice") -> httpx.Client:
        """A client of it in the scope of a user."""
        return httpx.Client(base_url=self.url, headers={**self.headers, "Offprompt-User": user}, timeout=WAIT_S)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to stop; its exit code."""
        self.popen.send_signal(number)
        return self.popen.wait(WAIT_S)


def command(*words: str) -> list[str]:
    """The command line of a server on a port that is free."""
    return [sys.executable, "-m", "offprompt", "serve", "--port", "0", "--json", *words]


def failed(*words: str, **environ: str) -> tuple[int, str]:
    """The exit code of a server that does not come to listen, and what it said."""
    done = subprocess.run(
        command(*words), capture_output=True, text=True, env={**os.environ, **environ}, timeout=WAIT_S, check=False
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@contextmanager
def serving(folder: Path, *words: str, **environ: str) -> Generator[Process]:
    """A server over a store in the folder, unless the words name another; it is gone afterwards with its workers."""
    errors = folder / "serve.log"
    given = list(words) if "--url" in words else ["--url", str(folder / "agent.db"), *words]
    with errors.open("w") as log:
        popen = subprocess.Popen(
            command(*given),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **environ},
        )
    assert popen.stdout is not None
    with popen.stdout as out:
        line = out.readline()
        if not line:
            raise AssertionError(f"it ended with {popen.wait(WAIT_S)}: {errors.read_text()}")
        own = Process(popen, json.loads(line), errors)
        try:
            yield own
        finally:
            left = own.workers if popen.poll() is None else []
            for pid in [popen.pid, *left]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            popen.wait(WAIT_S)


def wait_until(holds: Any) -> None:
    """Wait until it holds; AssertionError when it takes too long."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether the process is there and not only waiting to be counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
