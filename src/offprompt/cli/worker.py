"""`offprompt worker`: the work that nobody waits for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from types import FrameType
from typing import Annotated

import typer

from offprompt.cli.call import Call, command
from offprompt.errors import BackendError
from offprompt.service.worker import Ran, Worker

EVERY_S = 60.0


def worker(
    call: Call,
    *,
    once: Annotated[bool, typer.Option("--once", help="One round, then end: for cron.")] = False,
    every: Annotated[float, typer.Option("--every", help="Seconds between rounds.", min=0.1)] = EVERY_S,
) -> None:
    """Sweep, archive, embed what waits, tell other engines what changed: round after round, until SIGTERM.

    Any number may run. A line for each job that did something or failed; with --json a line of JSON for each.
    """
    failed = ""
    with _stopping() as stop, call.memory() as memory:
        while not stop.is_set():
            failed = ""
            for ran in Worker(memory.parts, stop=stop).run():
                failed = failed or ran.error
                if once or ran.done or ran.error:
                    call.put(asdict(ran), _line(call, ran))
            if once or stop.wait(every):
                break
    if once and failed:
        raise BackendError(f"a job was stopped: {failed}")


def _line(call: Call, ran: Ran) -> str:
    at = datetime.fromtimestamp(ran.at, UTC).isoformat(timespec="seconds")
    said = f"{ran.done:,} {call.say('done')}" if not ran.skipped else call.say("another worker is at it")
    return f"{at} {ran.job}: {said}" + (f", {call.say('stopped by')}: {ran.error}" if ran.error else "")


@contextmanager
def _stopping() -> Generator[threading.Event]:
    """An event that SIGTERM and SIGINT set, as long as the block lasts."""
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "worker")(worker)
