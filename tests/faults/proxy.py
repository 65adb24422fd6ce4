"""What stands between a client and its server and fails on purpose."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import Literal

Side = Literal["up", "down"]
"""`up`: what the client says. `down`: what the server answers."""

SIDES: tuple[Side, ...] = ("up", "down")

CHUNK = 4096
RESET = struct.pack("ii", 1, 0)


class Proxy:
    """A port of the loopback that leads to another one, on as many connections as come.

    passed   bytes that went through, by side. cuts: how often `cut_after` came to pass. taken: connections that came.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self.passed: dict[Side, int] = {"up": 0, "down": 0}
        self.cuts = self.taken = 0
        self.mend()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def mend(self) -> None:
        """Let everything through at once, from now on."""
        self._delay_s, self._swallows, self._refuses = 0.0, False, False
        self._left: dict[Side, int | None] = {"up": None, "down": None}

    def cut(self) -> None:
        """Break all connections that there are; the server still gets what went through."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for client, server in pairs:
            _reset(client)
            _close(server)

    def cut_after(self, count: int, side: Side) -> None:
        """Break all connections, once, when so many more bytes of one side went through; the rest is lost."""
        self._left[side] = count

    def delay(self, seconds: float) -> None:
        """Hold each piece of an answer back for so long."""
        self._delay_s = seconds

    def swallow(self) -> None:
        """Take what the client says and answer nothing; connections are still taken."""
        self._swallows = True

    def refuse(self) -> None:
        """Break all connections, and each new one at once."""
        self._refuses = True
        self.cut()

    def close(self) -> None:
        """Let go of the port."""
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.taken += 1
            if self._refuses:
                _reset(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target), 5)
            except OSError:
                _reset(client)
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                end.settimeout(None)
            pair = (client, server)
            with self._lock:
                self._pairs.add(pair)
            threading.Thread(target=self._pump, args=(client, server, pair, "up"), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, pair, "down"), daemon=True).start()

    def _pump(
        self, source: socket.socket, sink: socket.socket, pair: tuple[socket.socket, socket.socket], side: Side
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                if self._swallows:
                    continue
                if side == "down" and self._delay_s:
                    time.sleep(self._delay_s)
                kept, is_cut = self._allowed(data, side)
                sink.sendall(kept)
                if is_cut:
                    self.cuts += 1
                    self.cut()
                    return
        with self._lock:
            there = pair in self._pairs
            self._pairs.discard(pair)
        if there:
            for end in pair:
                _close(end)

    def _allowed(self, data: bytes, side: Side) -> tuple[bytes, bool]:
        with self._lock:
            left = self._left[side]
            kept = data if left is None else data[:left]
            self.passed[side] += len(kept)
            if left is None:
                return kept, False
            self._left[side] = left - len(kept) if left > len(data) else None
            return kept, left <= len(data)


def _reset(end: socket.socket) -> None:
    """Close a connection as a broken one closes: what is on its way is lost."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    _close(end)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
