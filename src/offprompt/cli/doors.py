"""Doors: what a server of ours listens with, in this process or in several, until it is told to stop."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from offprompt.cli.call import Call
from offprompt.cli.errors import report
from offprompt.errors import OffpromptError, UsageError
from offprompt.service.offprompt import Offprompt

if TYPE_CHECKING:
    from offprompt.rest.serving import Application

STOP_S = 30.0

Log: TypeAlias = Literal["json", "text", "off"]


class Door(Protocol):
    """A socket, and the application behind it."""

    @property
    def bound(self) -> socket.socket:
        """Where it listens."""
        ...

    def watching(self, log: Log) -> Callable[[Any], Any]:
        """What is put around the application: its log, its numbers, its traces."""
        ...

    def app(self, memory: Offprompt) -> Application:
        """The application over an opened memory."""
        ...


@dataclass(frozen=True, slots=True)
class Server:
    """What is served, and how. All doors are of one process and one memory, and stop together."""

    call: Call
    doors: Sequence[Door]
    workers: int
    stop_s: float
    log: Log

    def run(self, on_ready: Callable[[], None]) -> int:
        """Serve in this process, or in several; the exit code."""
        if self.workers == 1:
            self.work(None, on_ready)
            return 0
        from offprompt.rest.logs import log_to  # noqa: PLC0415 - an extra
        from offprompt.rest.shared_numbers import shared_numbers  # noqa: PLC0415
        from offprompt.rest.workers import Workers  # noqa: PLC0415

        log_to(self.log)
        with shared_numbers():
            from offprompt.rest.metrics import forget_worker  # noqa: PLC0415

            every = Workers(
                self.work_as_one_of_several, self.workers, stop_s=self.stop_s, on_ready=on_ready, on_end=forget_worker
            )
            return every.run()

    def work(self, parent: int | None, started: Callable[[], None]) -> None:
        """Open the memory, answer until told to stop, and close it."""
        from offprompt.rest import serving  # noqa: PLC0415 - an extra
        from offprompt.rest.doors import Doors  # noqa: PLC0415

        around = [door.watching(self.log) for door in self.doors]
        with self.call.memory(create=True) as memory:
            check_shared(memory, self.workers)
            # It takes a third of a second once; the first request need not wait for it.
            threading.Thread(target=memory.parts.tokenizer.count, args=("",), daemon=True).start()
            apps = {door.bound.getsockname()[1]: door.app(memory) for door in self.doors}
            watched = {port: put(apps[port]) for port, put in zip(apps, around, strict=True)}
            bound = [door.bound for door in self.doors]
            serving.run(Doors(apps, watched), *bound, stop_s=self.stop_s, parent=parent, on_started=started)

    def work_as_one_of_several(self, parent: int, started: Callable[[], None]) -> int:
        """`work` in a process of its own; its exit code."""
        try:
            self.work(parent, started)
        except OffpromptError as exc:
            return report(exc, self.call.argv)
        return 0


def check_shared(memory: Offprompt, workers: int) -> None:
    """Nothing, if several processes can work on the store.

    Raises   UsageError for several workers on one that ends with its process.
    """
    if workers > 1 and ":memory:" in memory.parts.url:
        raise UsageError(
            f"--workers {workers} on ':memory:': each process would have a memory of its own; "
            "give a file or a server with --url, or leave --workers out"
        )
