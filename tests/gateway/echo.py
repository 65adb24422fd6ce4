"""An upstream that keeps what it is sent, byte for byte, and answers what a test says, byte for byte."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self


@dataclass
class Heard:
    """A request as it came. head: without the empty line; body: without chunk marks."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for own, value in self.headers if own == name]


@dataclass
class RawUpstream:
    """Answers each request with `answer(heard)`: bytes of a whole HTTP answer, or pieces of one; then it hangs up."""

    answer: Callable[[Heard], list[bytes]]
    heard: list[Heard] = field(default_factory=list[Heard])
    hung_up: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            line = stream.readline().decode("latin-1").strip()
            headers: list[tuple[str, str]] = []
            while head := stream.readline().decode("latin-1").rstrip("\r\n"):
                name, _, value = head.partition(":")
                headers.append((name.lower(), value.strip()))
            given = dict(headers)
            body = b""
            if "chunked" in given.get("transfer-encoding", ""):
                while size := int(stream.readline(), 16):
                    body += stream.read(size)
                    stream.readline()
                stream.readline()
            else:
                body = stream.read(int(given.get("content-length", "0")))
            heard = Heard(line, headers, body)
            self.heard.append(heard)
            try:
                for piece in self.answer(heard):
                    connection.sendall(piece)
            except OSError:
                self.hung_up.set()
                return
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(10)
            try:
                if connection.recv(1) == b"":
                    self.hung_up.set()
            except OSError:
                self.hung_up.set()


def whole(status: str, headers: list[tuple[str, str]], body: bytes) -> list[bytes]:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers), f"Content-Length: {len(body)}"]
    return ["\r\n".join([*lines, "", ""]).encode("latin-1") + body]
