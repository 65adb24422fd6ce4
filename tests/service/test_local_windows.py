"""Local models: small windows that a server cuts from the front without a word; long talks must stay inside."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import offprompt
from offprompt import Agent
from offprompt.models.tokenizers import tokenizer_for
from offprompt.service.offprompt import Offprompt
from offprompt.testing.chat_stand_in import StandInModel
from offprompt.testing.cutting import CuttingModel
from offprompt.testing.scripted import read_request
from offprompt.testing.stand_ins import Caller, slot_of
from offprompt.testing.strict import Said, SaidCall

TURNS = 300
COUNT = tokenizer_for("llama-3.1-8b").count
WORDS = {
    "en": ["harbour", "ferry", "tide", "berth", "captain", "lantern", "rope", "cargo", "morning", "bridge", "deck"],
    "zh": list("港口渡船潮水泊位船长灯笼绳索货物早晨桥信号锚甲板风暴海图"),
}
SLOTS = 64


@pytest.fixture
def memory() -> Iterator[Offprompt]:
    with offprompt.open(":memory:") as opened:
        yield opened


def text_of(chance: random.Random, language: str, words: int) -> str:
    return (" " if language == "en" else "").join(chance.choices(WORDS[language], k=words))


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - words of a made-up talk


def label_of(at: int, language: str) -> str:
    return f"gate code {chr(97 + at // 26)}{chr(97 + at % 26)}" if language == "en" else f"门禁码{at}"


class Logging(Caller):
    """Calls the tool `log` where the user asks for a page of it."""

    def __call__(self, **request: Any) -> Said:
        seen = read_request(request, self._shape)
        if seen.user.startswith("log:") and "log" not in seen.called:
            return Said(calls=(SaidCall("log", {"part": seen.user[:20]}),))
        return super().__call__(**request)


def filled(memory: Offprompt, language: str, user: str) -> None:
    """64 slots: short values that are shown when asked for, long ones that are names."""
    chance, scope = seeded(7), memory.scope(user=user)
    for at in range(SLOTS):
        value = f"K-{1000 + at}" if at % 2 else text_of(chance, language, 300)
        scope.write(slot_of(label_of(at, language)), value)


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("context", "language"),
    [(4096, "en"), (8192, "zh"), pytest.param(4096, "zh", marks=LONG), pytest.param(8192, "en", marks=LONG)],
)
def test_300_turns_with_64_slots_stay_within_the_window(memory: Offprompt, context: int, language: str) -> None:
    reserve, chance = min(4096, context // 4), seeded(3)
    filled(memory, language, "ann")
    local = CuttingModel(Logging(), context, reserve, COUNT)
    model = StandInModel(local, name="llama-3.1-8b", context_tokens=context)

    def log(part: str) -> str:
        """A page of a log."""
        return f"{part}: {text_of(chance, language, 500)}"

    agent = Agent(memory, model, tools=[log], derive="none", capture="off")
    right = asked = 0
    for turn in range(TURNS):
        at = 2 * (turn % 32) + 1
        label = label_of(at, language)
        if turn % 10 == 9:
            text = f"What is my {label}?" if language == "en" else f"我的{label}是什么？"
            reply, asked = agent.run(text, user="ann"), asked + 1
            right += f"K-{1000 + at}" in reply.text
        elif turn % 10 == 4:
            reply = agent.run(f"log: {turn}", user="ann")
            assert [each.ok for each in reply.tools] == [True]
        else:
            reply = agent.run(text_of(chance, language, chance.randint(5, 250)), user="ann")
        assert not [each for each in reply.warnings if "cut the front" in each]
        assert reply.currency == "s"
    assert local.sent == local.read, "the server cut what was sent"
    assert max(local.sent) <= context - reserve
    assert len(local.sent) > TURNS
    assert right == asked == 30
    session = agent.session(user="ann")
    assert sum(entry.kind == "user" for entry in session.journal()) == TURNS, "a turn was lost"
    print(f"{context} {language}: {len(local.sent)} requests, largest {max(local.sent)}")


@pytest.mark.parametrize("context", [4096, 8192])
def test_an_overflow_that_is_forced_is_a_warning_with_both_numbers(memory: Offprompt, context: int) -> None:
    reserve, chance = min(4096, context // 4), seeded(3)
    local = CuttingModel(Caller(), context, reserve, COUNT)
    # The application says that the window is larger than the server's.
    model = StandInModel(local, name="llama-3.1-8b", context_tokens=128_000)
    agent = Agent(memory, model, policy="off", derive="none", capture="off")
    for _ in range(60):
        reply = agent.run(text_of(chance, "en", 600), user="ann")
        warned = [each for each in reply.warnings if "cut the front" in each]
        if warned:
            break
    else:
        pytest.fail("no warning came")
    assert f"counted {local.read[-1]:,} tokens of the {reply.entries[-1].sent.tokens:,} sent" in warned[0]
    assert reply.entries[-1].usage.input == local.read[-1] <= context - reserve
    assert warned[0] in reply.entries[-1].warnings


def test_prefill_is_told_where_tokens_are_free(memory: Offprompt) -> None:
    def timed(**request: object) -> dict[str, object]:
        message = {"role": "assistant", "content": "Yes."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        assert request
        return {"choices": [choice], "timings": {"prompt_ms": 250.0, "prompt_n": 100}}

    agent = Agent(memory, StandInModel(timed, name="llama-3.1-8b"))
    reply = agent.run("Is it open?", user="ann")
    assert reply.prefill_s == 0.25
    assert reply.currency == "s"
    stream = agent.stream("Is it open now?", user="ann")
    assert list(stream) != []
    assert stream.reply.prefill_s is not None
