"""Who prepares and absorbs: a session in this process, or one in another process on the same file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from offprompt.records import Reply
from offprompt.service.session import Session


class Hand(Protocol):
    """One who works on the session."""

    def prepare(self, messages: list[Any], show: list[str]) -> dict[str, Any]: ...

    def absorb(self, reply: dict[str, Any]) -> Reply: ...

    def absorb_stream(self, chunks: Iterable[dict[str, Any]]) -> tuple[Reply, list[dict[str, Any]]]: ...


class OwnHand:
    """In this process."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def prepare(self, messages: list[Any], show: list[str]) -> dict[str, Any]:
        return self.session.prepare(messages, show=show)

    def absorb(self, reply: dict[str, Any]) -> Reply:
        return self.session.absorb(reply)

    def absorb_stream(self, chunks: Iterable[dict[str, Any]]) -> tuple[Reply, list[dict[str, Any]]]:
        stream = self.session.absorb_stream(chunks)
        out = list(stream)
        return stream.reply, out


class OtherHand:
    """In another process, which is asked line by line; see hand.py."""

    def __init__(self, path: Path, user: str, session_id: str, options: dict[str, Any]) -> None:
        command = [
            sys.executable,
            str(Path(__file__).parent / "hand.py"),
            str(path),
            user,
            session_id,
            json.dumps(options),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(30) == 0
        self._process.stdout.close()

    def _ask(self, what: str, *given: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([what, *given]).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the other process ended during {what}"
        return json.loads(line)

    def prepare(self, messages: list[Any], show: list[str]) -> dict[str, Any]:
        return self._ask("prepare", messages, show)

    def absorb(self, reply: dict[str, Any]) -> Reply:
        return msgspec.convert(self._ask("absorb", reply), Reply)

    def absorb_stream(self, chunks: Iterable[dict[str, Any]]) -> tuple[Reply, list[dict[str, Any]]]:
        reply, out = self._ask("absorb_stream", list(chunks))
        return msgspec.convert(reply, Reply), out
