"""Load on an HTTP server, from one thread with many connections that are kept; it costs little, and says how much."""

from __future__ import annotations

import re
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

LENGTH: Final = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
GIVE_UP_S: Final = 60.0

Request = tuple[bytes, object]
"""What is sent, and what `on_answer` is told it was."""


@dataclass
class Load:
    """What came of it.

    seconds    from the first request to the last answer. statuses: answers by status. broken: connections that ended.
    latencies  seconds of each answer, in order of arrival. share: of a processor, used by this side.
    """

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter[int])
    broken: int = 0
    latencies: list[float] = field(default_factory=list[float])
    share: float = 0.0

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    def at(self, part: float) -> float:
        """The latency, in seconds, that this part of the answers keeps."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


@dataclass
class _Connection:
    socket: socket.socket
    about: object = None
    sent_at: float = 0.0
    answer: bytes = b""
    wanted: int = 0


def request(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", *(f"{name}: {value}" for name, value in headers.items())]
    if body:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def load(
    port: int,
    make: Callable[[], Request],
    *,
    connections: int,
    seconds: float,
    on_answer: Callable[[object, int, bytes], None] | None = None,
) -> Load:
    """Ask on so many connections at once, each again as soon as it is answered, for so many seconds.

    make       the next request. on_answer: told of each answer with its status and body.
    A connection that ends is counted and opened anew.
    """
    driver = _Driver(port, make, on_answer)
    try:
        driver.drive(connections, seconds)
    finally:
        driver.close()
    return driver.found


class _Driver:
    def __init__(
        self, port: int, make: Callable[[], Request], on_answer: Callable[[object, int, bytes], None] | None
    ) -> None:
        self.found = Load()
        self._port, self._make, self._on_answer = port, make, on_answer
        self._poll = select.epoll()
        self._open: dict[int, _Connection] = {}

    def drive(self, connections: int, seconds: float) -> None:
        for _ in range(connections):
            self._connect()
        begun, cpu = time.perf_counter(), time.process_time()
        for connection in list(self._open.values()):
            self._ask(connection)
        until = begun + seconds
        while self._open and time.perf_counter() < until + GIVE_UP_S:
            for number, _ in self._poll.poll(1.0):
                self._go_on(number, is_on=time.perf_counter() < until)
        self.found.seconds = time.perf_counter() - begun
        self.found.share = (time.process_time() - cpu) / self.found.seconds
        self.found.broken += len(self._open)

    def close(self) -> None:
        for number in list(self._open):
            self._drop(number)
        self._poll.close()

    def _go_on(self, number: int, *, is_on: bool) -> None:
        """Hear what a connection has to say, and ask again; at the end let go of it."""
        connection = self._open[number]
        try:
            told = _heard(connection)
            if told is None:
                return
            self.found.statuses[told[0]] += 1
            self.found.latencies.append(time.perf_counter() - connection.sent_at)
            if self._on_answer is not None:
                self._on_answer(connection.about, *told)
            if is_on:
                self._ask(connection)
            else:
                self._drop(number)
        except OSError:
            self.found.broken += 1
            self._drop(number)
            if is_on:
                self._ask(self._connect())

    def _connect(self) -> _Connection:
        link = socket.create_connection(("127.0.0.1", self._port), timeout=GIVE_UP_S)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open[link.fileno()] = made = _Connection(link)
        self._poll.register(link.fileno(), select.EPOLLIN)
        return made

    def _ask(self, connection: _Connection) -> None:
        data, connection.about = self._make()
        connection.answer, connection.wanted = b"", 0
        connection.sent_at = time.perf_counter()
        connection.socket.sendall(data)

    def _drop(self, number: int) -> None:
        self._poll.unregister(number)
        self._open.pop(number).socket.close()


def _heard(connection: _Connection) -> tuple[int, bytes] | None:
    """Status and body, once the whole answer is there.

    Raises   OSError if the connection ended before.
    """
    data = connection.socket.recv(262_144)
    if not data:
        raise ConnectionResetError
    connection.answer += data
    if not connection.wanted:
        head = connection.answer.find(b"\r\n\r\n")
        if head < 0:
            return None
        length = LENGTH.search(connection.answer, 0, head)
        connection.wanted = head + 4 + (int(length[1]) if length is not None else 0)
    if len(connection.answer) < connection.wanted:
        return None
    head = connection.answer.find(b"\r\n\r\n")
    return int(connection.answer[9:12]), connection.answer[head + 4 :]
