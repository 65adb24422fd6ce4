"""A name, three days and a restart later: recall answers, and so does a session whose model only reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.service.bound import BoundScope
from offprompt.testing import MovedClock
from offprompt.testing.stand_ins import Reader

NOW = 1_800_000_000.0
THREE_DAYS = 3 * 86400.0

SAID = [
    ("My name is Lin", "What is my name?", "Lin"),
    ("我叫林晓梅", "我的名字是什么？", "林晓梅"),
]


def told(alice: BoundScope, how: str, said: str) -> None:
    """The name given to memory: as a text, as a turn, or in a session whose model saves nothing."""
    if how == "text":
        alice.remember(said)
    elif how == "turn":
        alice.remember({"role": "user", "content": said})
    else:
        session = alice.session("monday", model="gpt-4o-mini")
        session.prepare([{"role": "user", "content": said}])
        session.absorb({"role": "assistant", "content": "OK."})


@pytest.mark.parametrize("how", ["text", "turn", "session"])
@pytest.mark.parametrize(("said", "question", "name"), SAID)
def test_the_name_is_known_three_days_and_a_restart_later(
    tmp_path: Path, how: str, said: str, question: str, name: str
) -> None:
    path = tmp_path / "agent.db"
    with offprompt.open(path, clock=MovedClock(NOW)) as mem:
        told(mem.scope(user="alice"), how, said)
    with offprompt.open(path, clock=MovedClock(NOW + THREE_DAYS)) as mem:
        alice = mem.scope(user="alice")
        assert name in alice.recall(question)[0].text
        session = alice.session("thursday", model="gpt-4o-mini")
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Hello" if name == "Lin" else "你好"}]
        request = session.prepare(messages)
        assert name not in str(request)
        reply = session.absorb(answered(request))
        messages += [*reply.messages, {"role": "user", "content": question}]
        request = session.prepare(messages)
        assert name in Reader()(**request).text
        session.absorb(answered(request))
        assert "identity" in [shown.why for shown in session.ledger()[-1].shown]


def answered(request: dict[str, Any]) -> dict[str, Any]:
    """What a model that only reads says, as its message."""
    return {"role": "assistant", "content": Reader()(**request).text}
