"""What the gateway adds: the same requests to the same upstream with it and without it, taking turns.

    python bench/gateway_speed.py [--conversations 12] [--turns 12] [--requests 10000] [--only NAME …]

NAME: added, first, streams, steady. The upstream is a process with constant answers (tests/gateway/constant.py), the
gateway is `offprompt gateway` as users run it, over SQLite with `durability=full`; one client asks over connections
that are kept. A request has 100 KB: the conversation of a coding agent, with a system text, twelve tools, and results
out of this repository's own files. Its user has 300 memories and 12 slots.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import offprompt
from bench.gateway_talk import ROOT, TOPICS, Conversation, files
from bench.serve import cpu_of
from tests.gateway.constant import PIECES, TEXT, said
from tests.http_load import request

PATH = "/v1/chat/completions"
PAUSE_S = 0.02
LEFT_AT = b'"left_at": '


class Link:
    """A connection that is kept."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, body: bytes, **headers: str) -> tuple[float, bytes]:
        """Seconds until the answer was there, and the answer."""
        begun = time.perf_counter()
        self._send(body, headers)
        answer = bytearray()
        for piece in self._pieces():
            answer += piece
            if _is_whole(answer):
                break
        return time.perf_counter() - begun, _checked(bytes(answer))

    def stream(self, body: bytes, **headers: str) -> tuple[float, list[float], bytes]:
        """Seconds until the first piece of text, seconds that each was on its way, and the answer."""
        begun, first, late = time.perf_counter(), 0.0, list[float]()
        self._send(body, headers)
        answer, seen = bytearray(), 0
        for piece in self._pieces():
            now = time.monotonic_ns()
            answer += piece
            while (at := answer.find(LEFT_AT, seen)) >= 0 and (end := answer.find(b"}", at)) >= 0:
                late.append((now - int(answer[at + len(LEFT_AT) : end].partition(b",")[0])) / 1e9)
                first, seen = first or time.perf_counter() - begun, end
            if answer.endswith(b"0\r\n\r\n"):
                break
        return first, late, _checked(bytes(answer))

    def _send(self, body: bytes, headers: dict[str, str]) -> None:
        given = {"host": "localhost", "authorization": "Bearer sk-x", **headers}
        self._socket.sendall(request("POST", PATH, {name.replace("_", "-"): given[name] for name in given}, body))

    def _pieces(self) -> Iterator[bytes]:
        while piece := self._socket.recv(262_144):
            yield piece
        raise ConnectionResetError("the connection ended in the midst of an answer")

    def close(self) -> None:
        self._socket.close()


def _is_whole(answer: bytearray) -> bool:
    head, mark, body = answer.partition(b"\r\n\r\n")
    if not mark:
        return False
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return len(body) >= int(length)


def _checked(answer: bytes) -> bytes:
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"not answered well: {answer[:500]!r}")
    return answer


@dataclass
class Running:
    """The two processes: ports, and the gateway's number."""

    upstream: int
    gateway: int
    pid: int

    @property
    def cpu_s(self) -> float:
        """Seconds of a processor that the gateway has used."""
        return cpu_of(self.pid)

    @property
    def memory_mb(self) -> float:
        """What of the gateway is in memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


@contextlib.contextmanager
def running() -> Generator[Running]:
    """An upstream, and the gateway before it, with something in alice's memory."""
    with tempfile.TemporaryDirectory(prefix="offprompt-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        fill(folder / "agent.db")
        environ = {**os.environ, "XDG_DATA_HOME": name, "XDG_CONFIG_HOME": name}
        upstream = started(stack, [sys.executable, "-m", "tests.gateway.constant"], environ)
        port = int(_line(upstream))
        given = [
            "--upstream",
            f"http://127.0.0.1:{port}",
            "--user",
            "alice",
            "--trust-users",
            "--port",
            "0",
            "--json",
            "--log",
            "off",
        ]
        command = [sys.executable, "-m", "offprompt", "--url", str(folder / "agent.db"), "gateway", *given]
        gateway = started(stack, command, environ)
        said = json.loads(_line(gateway))
        yield Running(port, int(said["url"].rpartition(":")[2]), said["pid"])


def fill(path: Path) -> None:
    """Alice's memories and slots."""
    with offprompt.open(path) as memory:
        alice = memory.scope(user="alice")
        for at in range(12):
            alice.write(f"room_{at}", f"painted blue, {at} chairs, lamp number {at * 31 + 7}")
        for at in range(300):
            alice.remember(
                f"Project {at % 40} keeps note {at} about {TOPICS[at % 8]}: see the page of {TOPICS[at % 7]}."
            )


def started(stack: contextlib.ExitStack, command: Sequence[str], environ: dict[str, str]) -> subprocess.Popen[str]:
    """A process that ends with the stack."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ, cwd=ROOT)  # noqa: S603

    def end() -> None:
        process.terminate()
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()

    stack.callback(end)
    return process


def _line(process: subprocess.Popen[str]) -> str:
    return process.stdout.readline() if process.stdout is not None else ""


def ms(values: Sequence[float]) -> str:
    """Median and 99th in a hundred."""
    ordered = sorted(values)
    return f"p50 {statistics.median(ordered) * 1000:6.2f} ms  p99 {ordered[int(len(ordered) * 0.99)] * 1000:6.2f} ms"


def told(name: str, without: Sequence[float], with_it: Sequence[float], cpu: float = 0.0) -> None:
    """A pair of figures, printed."""
    added = (statistics.median(with_it) - statistics.median(without)) * 1000
    used = f"  {cpu / len(with_it) * 1000:.2f} ms of a processor each" if cpu else ""
    print(f"{name:<24} upstream {ms(without)}   gateway {ms(with_it)}   added {added:6.2f} ms{used}", flush=True)


def added_figures(args: argparse.Namespace) -> None:
    """Whole answers: the first request of a conversation, and its next ones."""
    results = cycle(files())
    with running() as both:
        direct, through = Link(both.upstream), Link(both.gateway)
        new: tuple[list[float], list[float]] = [], []
        next_ones: tuple[list[float], list[float]] = [], []
        spent = [0.0, 0.0]
        for number in range(args.conversations + 1):
            talk = Conversation(number, results)
            for turn in range(args.turns + 1):
                body = talk.body()
                before = both.cpu_s
                seconds = direct.ask(body)[0], through.ask(body)[0]
                if number:  # the first one warms up
                    spent[turn > 0] += both.cpu_s - before
                    for found, second in zip(next_ones if turn else new, seconds, strict=True):
                        found.append(second)
                talk.goes_on(TEXT * 3)
                time.sleep(PAUSE_S)
        told("a new prefix, recall", *new, spent[0])
        told("a prefix seen before", *next_ones, spent[1])
        direct.close()
        through.close()


def first_figures(args: argparse.Namespace) -> None:
    """Streams: how late the first piece of text is, and how late each."""
    results = cycle(files())
    with running() as both:
        direct, through = Link(both.upstream), Link(both.gateway)
        firsts: tuple[list[float], list[float]] = [], []
        totals: tuple[list[float], list[float]] = [], []
        pieces: tuple[list[float], list[float]] = [], []
        for number in range(args.conversations + 1):
            talk = Conversation(number, results)
            for _ in range(args.turns + 1):
                body = talk.body(stream=True)
                for side, link in enumerate((direct, through)):
                    total, late, _ = link.stream(body, x_gap_ms="10")
                    if number:
                        firsts[side].append(late[0])
                        totals[side].append(total)
                        pieces[side].extend(late[1:])
                talk.goes_on(said(PIECES))
                time.sleep(PAUSE_S)
        told("first text: on its way", *firsts)
        told("later text: on its way", *pieces)
        told("first text: from asking", *totals)
        direct.close()
        through.close()


def streams_figures(args: argparse.Namespace) -> None:
    """Many streams at once on one worker: each with all of its events, in order."""
    del args
    results = cycle(files())
    with running() as both:
        for streams in (1, 200):
            bodies = [Conversation(1000 * streams + number, results).body(stream=True) for number in range(streams)]
            begun, cpu = time.perf_counter(), both.cpu_s
            with ThreadPoolExecutor(streams) as pool:
                found = list(pool.map(one_stream, [both.gateway] * streams, range(streams), bodies))
            took = time.perf_counter() - begun
            late, bad = [each for times, _ in found for each in times], sum(not good for _, good in found)
            print(f"{streams} streams of 40 pieces: {took:.1f} s, {bad} with events lost or out of order;")
            print(f"    a piece on its way {ms(late)}; {(both.cpu_s - cpu) / took:.2f} processors", flush=True)


def one_stream(port: int, number: int, body: bytes) -> tuple[list[float], bool]:
    """How long its pieces were on their way, and whether all came, in order."""
    link = Link(port)
    _, late, answer = link.stream(body, x_gap_ms="50", x_events="40", x_number=str(number))
    link.close()
    places = [answer.find(f"piece {at} of {number} ".encode()) for at in range(40)]
    is_whole = answer.count(b"piece ") == 40 and b"[DONE]" in answer
    return late, is_whole and -1 not in places and places == sorted(places)


def steady_figures(args: argparse.Namespace) -> None:
    """Memory over many requests: conversations of ten requests, each of another user; they end and do not come back."""
    results = cycle(files())
    with running() as both:
        through, seen = Link(both.gateway), dict[int, float]()
        talk = Conversation(0, results)
        for at in range(args.requests):
            if at % 10 == 0:
                talk = Conversation(at, results)
            through.ask(talk.body(), offprompt_user=f"user{at // 10}")
            talk.goes_on(TEXT * 3)
            if (at + 1) % (args.requests // 10) == 0:
                seen[at + 1] = both.memory_mb
                print(f"after {at + 1:>6} requests: {both.memory_mb:.0f} MB", flush=True)
        through.close()


FIGURES = {"added": added_figures, "first": first_figures, "streams": streams_figures, "steady": steady_figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=12)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", choices=FIGURES, default=list(FIGURES))
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.2f}, {os.cpu_count()} processors")
    for name in args.only:
        FIGURES[name](args)


if __name__ == "__main__":
    main()
