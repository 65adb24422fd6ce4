"""Dialogues in which the user refers to what left the prompt, played on a session whose window is small."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import offprompt
from offprompt.service.session import Session
from offprompt.testing import MovedClock
from tests.service.talk import MODELS, Say, Wire, as_reply, flat, messages_of, result

Language = Literal["en", "zh"]
FOLDER = Path(__file__).parent.parent / "data" / "dialogues"
UNKNOWN = "no record"

SMALL_TALK: dict[Language, tuple[tuple[str, str], ...]] = {
    "en": (
        (
            "How long should bread dough rise in a cool room?",
            "In a cool room give it eight to ten hours; it is ready "
            "when it has nearly doubled and keeps a dent from your finger. " * 2,
        ),
        (
            "Explain tides to a child.",
            "The moon pulls at the sea a little, and the sea leans towards it. As the world "
            "turns under that lean, the water comes and goes along every beach. " * 2,
        ),
        (
            "Why are leaves red in autumn?",
            "The tree takes its green back into the branches before winter, and what stays "
            "behind is red and yellow; some trees make the red anew as a sunshade. " * 2,
        ),
        (
            "Give me a rule for good photographs of people.",
            "Let the light come from the side, stand a little farther "
            "away than you think, and wait until they have forgotten the lens. " * 2,
        ),
        ("thanks", "You are welcome."),
        (
            "How does a sailor sleep alone at sea?",
            "In short naps with an alarm, far from the shipping lanes, with the "
            "radar watching; no sleep is longer than twenty minutes near land. " * 2,
        ),
    ),
    "zh": (
        ("面团在凉的房间里要发多久？", "凉的房间里要发八到十个小时，体积接近翻倍、手指按下去不回弹就可以了。" * 3),
        ("给小孩解释一下潮汐。", "月亮轻轻拉着海水，海水就朝它鼓起来一点；地球在下面转，岸边的水就一涨一落。" * 3),
        ("秋天树叶为什么会变红？", "入冬前树木把叶绿素收回枝干，剩下黄和红；有些树还会新造红色来遮阳。" * 3),
        ("拍人像有什么窍门？", "让光从侧面来，站得比习惯的远一点，等对方忘了镜头再按快门。" * 3),
        ("好的", "不客气。"),
        ("独自航海的人怎么睡觉？", "离开航道以后定闹钟小睡，雷达开着；靠近陆地时每次不超过二十分钟。" * 3),
    ),
}


@dataclass(frozen=True)
class Dialogue:
    """One dialogue; the data's fields.

    told     what is said first, and leaves the prompt: user, assistant, tool calls with results. slots: of a former
             session. recent: what is said just before the question.
    needs    what the request must hold at the question; lacks: what it must not.
    """

    id: str
    kind: str
    told: list[dict[str, Any]]
    ask: str
    needs: list[str]
    lacks: list[str]
    slots: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    recent: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


def dialogues(language: Language) -> list[Dialogue]:
    """All of a language."""
    lines = (FOLDER / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Dialogue(**json.loads(line)) for line in lines]


@dataclass
class Outcome:
    """What the model saw in the question's request, in the one before and at the end of the one after; its answer."""

    before: str
    asked: str
    after: str
    answer: str
    shown: list[tuple[str, str]]
    departed: bool


def unframed_text(text: str) -> str:
    """A request's text without what it shows."""
    return re.sub(r"<memory (\S+)>.*?</memory \1>", "", text, flags=re.DOTALL)


class Player:
    """Plays one dialogue on one wire."""

    def __init__(self, wire: Wire, language: Language, **settings: Any) -> None:
        small: dict[str, Any] = {"window_high_tokens": 420, "window_low_tokens": 220, **settings}
        memory = offprompt.open(":memory:", clock=MovedClock(), **small)
        self.wire: Wire = wire
        self.language: Language = language
        self.scope = memory.scope(user="ada")
        self.session: Session = self.scope.session("s1", model=MODELS[wire], policy="window", wire=wire)
        self.messages: list[Any] = []
        self.calls = 0

    def play(self, dialogue: Dialogue) -> Outcome:
        """The dialogue to its question, and a turn of thanks behind it."""
        for slot in dialogue.slots:
            self.scope.write(slot["name"], slot["value"], policy=slot.get("policy"))
        self._say(dialogue.told)
        for user, answer in SMALL_TALK[self.language]:
            self._say([{"user": user}, {"assistant": answer.strip()}])
        self._say(dialogue.recent)
        last = self.session.prepare(self.messages)
        asked = self._ask(dialogue.ask)
        seen = flat(asked)
        known = all(need in seen for need in dialogue.needs)
        reply = self._absorb(f"It is {' / '.join(dialogue.needs)}." if known else UNKNOWN)
        shown = [(each.name, each.why) for each in self.session.ledger()[-1].shown]
        after = self._ask("thanks" if self.language == "en" else "好的")
        record = self.session.record
        assert record is not None
        return Outcome(
            unframed_text(flat(last)),
            flat(asked),
            flat(messages_of(after)[-2:]),
            reply,
            shown,
            bool(record.left),
        )

    def _ask(self, text: str) -> dict[str, Any]:
        self.messages.append({"role": "user", "content": text})
        return self.session.prepare(self.messages)

    def _say(self, told: list[dict[str, Any]]) -> None:
        for each in told:
            if "user" in each:
                self._ask(each["user"])
            elif "assistant" in each:
                self._absorb(each["assistant"])
            else:
                self._call(each["tool"], each["arguments"], each["result"])

    def _absorb(self, said: str | Say) -> str:
        reply = self.session.absorb(as_reply(said, self.wire))
        self.messages += reply.messages
        return reply.text

    def _call(self, name: str, arguments: dict[str, Any], answer: str) -> None:
        self.calls += 1
        call_id = f"call_{self.calls}"
        self._absorb(Say(calls=((name, arguments, call_id),)))
        self.messages += result(self.wire, (call_id, answer))
        self.session.prepare(self.messages)
