"""64 slots of 4 KB, 250 requests on each wire: not a byte of them in a request that was not shown on purpose."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

import offprompt
from offprompt.service.bound import BoundScope
from tests.service.conftest import NewTalk
from tests.service.talk import Say, Wire, call, flat, messages_of, result, tool

RUN = 32
WORDS = re.findall(
    r"\w+",
    "harbour invoice lantern quarter meadow shipment violin cabinet orchard thunder ribbon sandal glacier pepper wagon "
    "tunnel copper ladder mirror planet saddle velvet walnut zipper anchor basket candle dragon engine falcon",
)
HAN = "春夏秋冬山水云雨风雪花鸟鱼虫琴棋书画诗酒茶米油盐酱醋柴门窗桥路船车马牛羊金银铜铁锡石木竹纸笔墨砚"
SUBJECTS = ("Tell me a joke", "讲个笑话", "How do magnets work?", "磁铁是怎么工作的？", "Write a haiku", "写一首诗")


def text(rng: random.Random, size: int, *, chinese: bool) -> str:
    """Realistic text of that many bytes: sentences with numbers, never twice the same."""
    pieces: list[str] = []
    length = 0
    while length < size:
        if chinese:
            piece = "".join(rng.choices(HAN, k=rng.randint(6, 14))) + f"{rng.randint(10, 9999)}，"
        else:
            piece = " ".join(rng.choices(WORDS, k=rng.randint(4, 9))) + f" {rng.randint(10, 9999)}. "
        pieces.append(piece)
        length += len(piece.encode())
    return "".join(pieces).encode()[:size].decode(errors="ignore")


def shingles(value: str) -> set[str]:
    return {value[at : at + RUN] for at in range(len(value) - RUN + 1)}


def script(rng: random.Random, number: int, written: list[str]) -> list[str | Say]:
    """What the model does in a turn; values that it writes out itself are fresh and go into `written`."""
    match number % 6:
        case 0:
            value = text(rng, 900, chinese=number % 4 == 0)
            written.append(value)
            return [call("mem_write", slot=f"slot{rng.randrange(64)}", value=value), "Saved."]
        case 1:
            return [f"It is in [[mem:slot{rng.randrange(64)}]]."]
        case 2:
            return [call("send", text=f"[[mem:slot{rng.randrange(64)}]]")]
        case 3:
            return [call("mem_forget", slot=f"slot{rng.randrange(64)}"), "Forgotten."]
        case 4:
            return [call("mem_search", query=rng.choice(("slot7", "joke", "笑话"))), "Found."]
        case _:
            return ["I do not know, but here is a thought."]


@pytest.fixture
def small() -> Iterator[BoundScope]:
    """A window so small that many cuts fall into the test; room for short values and writes beside 64 long ones."""
    with offprompt.open(":memory:", max_slots=80, window_high_tokens=1500, window_low_tokens=700) as opened:
        yield opened.scope(user="alice")


@pytest.mark.parametrize("seed", [1])
def test_no_run_of_a_value_in_any_request(talk: NewTalk, small: BoundScope, wire: Wire, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a script, not a secret
    values = [text(rng, 4096, chinese=number % 2 == 1) for number in range(64)]
    values += [text(rng, size, chinese=False) for size in (8, 11, 23, 40)]
    for number, value in enumerate(values):
        small.write(f"slot{number}", value)
    one = talk(scope=small, tools=[tool("send", wire)], policy="window")
    runs = set[str]().union(*map(shingles, values))
    whole = [value for value in values if len(value) < RUN]
    spoken: list[str] = []
    seen: dict[int, int] = {}
    turn = 0
    while len(one.requests) < 250:
        turn += 1
        before, written = len(one.requests), list[str]()
        reply = one.turn(rng.choice(SUBJECTS), *script(rng, turn, written))
        if reply.tool_calls:
            # Tools say long values again, which are scrubbed; short ones that a tool says are counted, not scrubbed.
            said = [(each.call_id, each.arguments if len(each.arguments) > 60 else "sent") for each in reply.tool_calls]
            one.messages += result(wire, *said)
            one.go("Sent.")
        spoken += written
        runs |= set[str]().union(*map(shingles, written)) if written else set()
        for request in one.requests[before:]:
            check(request, runs, whole, seen)
    assert sum(entry.cut for entry in one.session.ledger()) > 5
    assert all(not entry.leaked for entry in one.session.ledger())
    assert spoken


def check(request: dict[str, Any], runs: set[str], whole: list[str], seen: dict[int, int]) -> None:
    """Each message is looked at once; the same text again cannot hold anything else."""
    parts: list[Any] = [*messages_of(request), *request.get("system", []), *request.get("tools", [])]
    for message in parts:
        sent = flat(message)
        if seen.setdefault(hash(sent), 1) > 1:
            continue
        seen[hash(sent)] = 2
        found = shingles(sent) & runs
        assert not found, found
        assert not [value for value in whole if value in sent]


def test_short_values_are_listed_as_not_provable(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("size", "XL")
    alice.write("year", 1987)
    alice.write("city", "Reykjavik")
    alice.write("nothing", "")
    one = talk()
    one.turn("Hello", "Hello.")
    entry = one.session.ledger()[0]
    assert set(entry.unproven) == {"size", "year"}
    assert entry.leaked == ()


def test_the_check_finds_a_leak() -> None:
    value = text(random.Random(2), 400, chinese=False)  # noqa: S311
    with pytest.raises(AssertionError):
        check({"messages": [{"role": "tool", "content": f"x {value[50:90]} y"}]}, shingles(value), [], {})
