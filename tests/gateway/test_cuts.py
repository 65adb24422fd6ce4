"""Streams at the level of bytes: cut anywhere, with any line ends and in any company, they say what the whole reply
says, with handles and calls of both kinds in them.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from offprompt.testing.strict_chunks import Delivery, split_reply
from offprompt.testing.strict_replies import reply_from
from tests.gateway.between import Between
from tests.gateway.client import Client, text_of
from tests.gateway.conftest import Running
from tests.gateway.echo import Heard, whole
from tests.gateway.test_streams import ORDER, turn
from tests.service.talk import WIRES, Wire, tool

DONE = "data: [DONE]"
COMPANY = (": ping", ":", "", ": 上海 👍")
"""What stands between events and means nothing."""


@dataclass(frozen=True)
class Dress:
    """How a stream's bytes look. done: where `[DONE]` stands; piece: bytes of a packet at most."""

    seed: int = 0
    longest: int = 7
    end: str = "\n"
    company: bool = False
    done: str = "last"
    piece: int = 9
    spaced: bool = True

    def packets(self, reply: dict[str, Any], wire: Wire) -> Iterator[bytes]:
        """The reply's bytes, cut anywhere."""
        chance = random.Random(self.seed)  # noqa: S311 - places where tests cut bytes
        raw = "".join(self._lines(reply, wire, chance)).encode()
        at = 0
        while at < len(raw):
            size = chance.randint(1, self.piece)
            yield raw[at : at + size]
            at += size

    def _lines(self, reply: dict[str, Any], wire: Wire, chance: random.Random) -> Iterator[str]:
        colon = ": " if self.spaced else ":"
        events = list(split_reply(reply, wire, Delivery(self.seed, self.longest)))
        texts = [f"data{colon}{json.dumps(event, ensure_ascii=False)}" for event in events]
        if wire == "openai" and self.done != "never":
            # Behind it the counts are still read.
            texts.insert(len(texts) - (self.done == "before_counts"), DONE)
        for text, event in itertools.zip_longest(texts, events):
            if self.company:
                yield chance.choice(COMPANY) + self.end
            name = "" if wire == "openai" else f"event{colon}{event['type']}{self.end}"
            yield name + text + self.end * 2


@dataclass
class Playing:
    """An upstream that says a turn's replies again and again, as the dress wants it; None: whole."""

    wire: Wire
    dress: Dress | None = None
    number: Iterator[int] = field(default_factory=itertools.count)

    def __call__(self, heard: Heard) -> Any:
        del heard
        at = next(self.number) % 3
        reply = reply_from(turn(self.wire)[at], self.wire, at, sign=str)
        reply.setdefault("model", "m")
        if self.dress is None:
            return whole("200 OK", [("Content-Type", "application/json")], json.dumps(reply).encode())
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
        return itertools.chain([head], self.dress.packets(reply, self.wire))


@dataclass
class Cut:
    """A gateway before such an upstream, and what its client has of the whole replies."""

    between: Between
    playing: Playing
    questions: Iterator[int] = field(default_factory=itertools.count)

    def heard(self, dress: Dress | None) -> list[Any]:
        """What the client has of the turn, in a conversation of its own."""
        self.playing.dress = dress
        wire = self.playing.wire
        upstream: Any = self.between.upstream
        options: dict[str, Any] = {"tools": [tool("ship", wire), tool("look", wire)]}
        if wire == "openai" and dress is not None:
            options["stream_options"] = {"include_usage": True}
        running = Running(self.between.url, self.between.memory, upstream)
        with Client(running, wire, streams=dress is not None, **options) as client:
            reply = client.say(f"Ship order {next(self.questions)}")
            answer = reply.model_dump(mode="json", exclude_none=True)
            ends = [answer.get("stop_reason"), answer.get("status"), answer["id"], answer.get("usage")]
            finishes = [choice["finish_reason"] for choice in answer.get("choices", ())]
            return [client.messages[1:], client.calls(reply), text_of(reply, wire), ends, finishes]


@pytest.fixture(scope="module", params=WIRES)
def cut(request: pytest.FixtureRequest) -> Iterator[Cut]:
    playing = Playing(request.param)
    with Between(playing) as between:
        between.memory.scope(user="alice").write("order", ORDER, policy="by_handle")
        yield Cut(between, playing)


@pytest.fixture(scope="module")
def wanted(cut: Cut) -> list[Any]:
    """What the client has of the whole replies."""
    found = cut.heard(None)
    assert [call[0] for call in found[1]] == ["c1", "c2"]
    assert found[1][0][2]["text"] == ORDER
    return found


DRESSES = st.builds(
    Dress,
    seed=st.integers(0, 2**32),
    longest=st.sampled_from([1, 2, 5, 40]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    company=st.booleans(),
    done=st.sampled_from(["last", "never", "before_counts"]),
    piece=st.sampled_from([1, 3, 17, 200, 100_000]),
    spaced=st.booleans(),
)


@given(dress=DRESSES)
@settings(max_examples=12)
@example(Dress(end="\r\n", company=True, done="never", piece=1))
@example(Dress(end="\r", done="before_counts", piece=100_000, spaced=False))
def test_a_stream_says_what_the_whole_reply_says_wherever_its_bytes_are_cut(
    cut: Cut, wanted: list[Any], dress: Dress
) -> None:
    assert cut.heard(dress) == wanted


@pytest.mark.long
@given(dress=DRESSES)
@settings(max_examples=400)
def test_long_round_of_streams_cut_anywhere(cut: Cut, wanted: list[Any], dress: Dress) -> None:
    assert cut.heard(dress) == wanted
