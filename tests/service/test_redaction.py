"""What is stored has marks in place of numbers and keys; what is sent has the words as they are given."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.records import canonical
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from tests.service.talk import MODELS, Say, Talk, Wire, call, result, tool

CARD = "4111 1111 1111 1111"
ID = "11010519491231002X"
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"
SECRETS = (CARD, CARD.replace(" ", ""), ID, KEY)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def holds(file: Path) -> list[str]:
    """The secrets that stand in the store's files, its log included."""
    raw = b"".join(path.read_bytes() for path in file.parent.glob("agent.db*"))
    return [secret for secret in SECRETS if secret.encode() in raw]


def opened(file: Path, **settings: Any) -> Offprompt:
    return offprompt.open(file, clock=MovedClock(), **settings)


def talked(mem: Offprompt, wire: Wire, *, again: bool = False) -> Talk:
    """A talk full of numbers: said, repeated by the model, given to tools, in text with handles."""

    def new(messages: list[Any]) -> Talk:
        options: dict[str, Any] = {"model": MODELS[wire], "wire": wire, "tools": [tool("pay", wire)]}
        talk = Talk(mem.scope(user="ann").session("s1", **options), wire)
        talk.messages = messages
        return talk

    one = new([])
    turns: list[tuple[str, tuple[str | Say, ...]]] = [
        (f"Pay with {CARD}, my key is {KEY}", (f"I shall use {CARD}.",)),
        (f"我的身份证号是{ID}", (f"记下了：{ID}",)),
        (f"Save that {CARD} is old", (call("mem_write", "w1", slot="plan", value="go on"), f"Saved, {CARD}.")),
        ("Where is my plan?", (f"[[mem:plan]] with {CARD}",)),
        ("Thanks", ("Gladly.",)),
    ]
    for user, said in turns:
        one = new(one.messages) if again else one
        one.turn(user, *said)
    asked = one.turn("Pay now", call("pay", "p1", text=f"with {CARD}", number=int(CARD.replace(" ", ""))))
    assert json.loads(asked.tool_calls[0].arguments)["text"] == f"with {CARD}"
    one.messages += result(wire, ("p1", "Paid."))
    one.go("It is paid.")
    return one


def test_the_file_holds_no_number_that_was_said(file: Path, wire: Wire) -> None:
    with opened(file) as mem:
        one = talked(mem, wire)
        assert CARD in one.sent
        assert not holds(file)
        said = [memory.text for memory in mem.scope(user="ann").memories.list()]
        assert "Pay with [card number given], my key is [API key given]" in said
        assert not any(secret in str(event) for event in mem.scope(user="ann").events() for secret in SECRETS)
        assert not any(secret in str(entry) for entry in one.session.ledger() for secret in SECRETS)
    assert not holds(file)


def test_without_redaction_it_does(file: Path) -> None:
    with opened(file, redact="off") as mem:
        talked(mem, "openai")
        assert set(holds(file)) >= {CARD, ID, KEY}


@pytest.mark.parametrize("again", [False, True], ids=["one process", "a process each turn"])
def test_requests_are_the_same_with_and_without(tmp_path: Path, wire: Wire, *, again: bool) -> None:
    requests: list[list[str]] = []
    for redact in ("words", "off"):
        with opened(tmp_path / f"{redact}.db", redact=redact) as mem:
            one = talked(mem, wire, again=again)
            requests.append([canonical(request) for request in one.requests])
    # The frames' nonces differ by the store's keys; the marks stand only beside a resolved handle.
    mark = "[card number given]"
    for words, off in zip(*requests, strict=True):
        assert words.count(mark) == words.count(f"[[mem:plan]] with {mark}")
        assert _plain(words).replace(mark, CARD) == _plain(off)


def _plain(request: str) -> str:
    return re.sub(r"memory [0-9a-f]{8}", "memory NONCE", request)


@pytest.fixture(params=["words", "all"])
def kinds(request: pytest.FixtureRequest, file: Path) -> Iterator[tuple[str, Offprompt]]:
    with opened(file, redact=request.param) as mem:
        yield request.param, mem


def test_tool_results_stay_unless_all_is_redacted(kinds: tuple[str, Offprompt], file: Path, wire: Wire) -> None:
    redact, mem = kinds
    one = Talk(mem.scope(user="ann").session("s1", model=MODELS[wire], wire=wire, tools=[tool("pay", wire)]), wire)
    one.turn("Pay", call("pay", "p1", text="now"))
    one.messages += result(wire, ("p1", f"Paid with {CARD}. " + "A long receipt. " * 900))
    one.go("It is paid.")
    one.turn("Thanks", "Gladly.")
    assert holds(file) == ([] if redact == "all" else [CARD])


def test_a_value_that_is_shown_stands_as_it_is(file: Path, wire: Wire) -> None:
    with opened(file) as mem:
        ann = mem.scope(user="ann")
        ann.write("card_no", CARD, policy="when_asked")
        one = Talk(ann.session("s1", model=MODELS[wire], wire=wire, tools=[tool("pay", wire)]), wire)
        one.turn("Pay", call("pay", "p1", text="now"), show=["card_no"])
        assert CARD in one.sent
        one.messages += result(wire, ("p1", "Paid."))
        one.go("It is paid.")
        assert CARD in one.sent
