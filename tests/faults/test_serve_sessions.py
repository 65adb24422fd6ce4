"""Sessions of a server whose workers are killed while conversations run: no acknowledged call is lost or done twice."""

from __future__ import annotations

import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt import BackendError, ConflictError
from tests.rest.process import Process, serving, wait_until
from tests.service.talk import MODELS, Wire, as_reply, call

TURNS = 6


def insist(ask: Any, *given: Any) -> Any:
    """What is asked for until it is answered; a call that is still being done for a dead connection is over soon."""
    for _ in range(200):
        try:
            return ask(*given)
        except (BackendError, ConflictError):
            threading.Event().wait(0.02)
    return ask(*given)


def converse(server: Process, number: int) -> tuple[int, list[str]]:
    """One user's conversation with a model that saves something in each turn; which of it was acknowledged."""
    wire: Wire = "openai" if number % 2 else "anthropic"
    key = server.headers["Authorization"].removeprefix("Bearer ")
    with offprompt.open(server.url, key=key) as memory:
        session = memory.scope(user=f"user{number}").session("s", model=MODELS[wire], wire=wire)
        messages: list[Any] = []
        saved: list[str] = []
        for turn in range(TURNS):
            messages.append({"role": "user", "content": f"第 {turn} 件事 of {number}"})
            insist(session.prepare, messages)
            reply = insist(
                session.absorb, as_reply(call("mem_write", f"m{turn}", slot=f"thing{turn}", value=f"v{turn}"), wire)
            )
            assert [receipt.ok for receipt in reply.receipts] == [True], reply
            saved.append(f"thing{turn}")
            insist(session.prepare, [*messages, *reply.messages])
            reply = insist(session.absorb, as_reply(f"Saved {turn}.", wire))
            messages += reply.messages
        return number, saved


def kill_now_and_then(server: Process, *, seed: int, over: threading.Event) -> int:
    """Kill workers until all is over, each once the one before has been replaced; how many."""
    chance, killed = random.Random(seed), 0  # noqa: S311 - the same each time
    while not over.wait(chance.uniform(0.1, 0.4)):
        wait_until(lambda: len(server.workers) == 2)
        os.kill(chance.choice(server.workers), signal.SIGKILL)
        killed += 1
    return killed


@pytest.mark.long
@pytest.mark.parametrize("users", [2, 6])
def test_conversations_survive_the_workers_that_answer_them(tmp_path: Path, users: int) -> None:
    over = threading.Event()
    with serving(tmp_path, "--workers", "2") as server, ThreadPoolExecutor(users + 1) as threads:
        killing = threads.submit(kill_now_and_then, server, seed=users, over=over)
        try:
            done = [each.result() for each in [threads.submit(converse, server, number) for number in range(users)]]
        finally:
            over.set()
        assert killing.result() > 1
    with offprompt.open(tmp_path / "agent.db") as memory:
        for number, saved in done:
            scope = memory.scope(user=f"user{number}")
            assert {name: len(scope.slots.history(name)) for name in saved} == dict.fromkeys(saved, 1)
            wire: Wire = "openai" if number % 2 else "anthropic"
            session = scope.session("s", model=MODELS[wire], wire=wire)
            assert [entry.kind for entry in session.journal()] == ["user", "assistant", "answer", "assistant"] * TURNS
            answered = [entry for entry in session.ledger() if entry.outcome == "ok"]
            assert len(answered) == 2 * TURNS
