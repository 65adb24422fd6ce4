"""What happens in a long session: turns of real logs, and among them facts that are stated, changed and asked for."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from offprompt.testing.log_turns import LoggedStep, LoggedTurn, log_turns
from offprompt.testing.strict_replies import Said, SaidCall

Language: TypeAlias = Literal["en", "zh"]
Kind: TypeAlias = Literal[
    "log", "state", "ask", "ask_own", "forget", "send", "sign_in", "file", "hint", "find", "set", "secret"
]
LABELS: Final[dict[Language, dict[str, tuple[str, ...]]]] = {
    "en": {
        "app": ("locker number", "train seat", "city", "tone", "standing order"),
        "before": ("badge number",),
        "own": ("gate code", "name", "favourite tea", "parking place", "packing list"),
    },
    "zh": {
        "app": ("储物柜号", "车次座位", "会议地点", "语气", "长期订单"),
        "before": ("工牌号",),
        "own": ("门禁码", "名字", "最爱的茶", "停车位", "行李清单"),
    },
}
"""Facts that the application writes, that an earlier session's model wrote, that the user states; the last of `app` and
of `own` is long."""

NAMES: Final[dict[Language, tuple[str, ...]]] = {
    "en": ("heron", "falcon", "stork", "lapwing", "magpie", "swift", "plover", "osprey", "curlew", "wren", "merlin"),
    "zh": ("苍鹭", "游隼", "白鹳", "麦鸡", "喜鹊", "雨燕", "金鸻", "鱼鹰", "杓鹬", "鹪鹩", "灰背"),
}
"""Each names one file and one note, with a reference that is asked for later."""

EVERY: Final = 3
"""Each third turn is a planted one."""

ROUND: Final[tuple[Kind, ...]] = (
    *("set", "state", "ask", "ask_own", "file", "send", "hint", "ask", "state", "secret", "ask_own", "sign_in"),
    *("set", "find", "ask", "state", "send", "forget", "ask_own", "find"),
)


@dataclass(frozen=True)
class Planned:
    """One turn. steps: what the log's model said; empty: the stand-in answers. label, value: of the fact."""

    kind: Kind
    user: str
    steps: tuple[LoggedStep, ...] = ()
    label: str = ""
    value: str = ""


@dataclass
class _Maker:
    language: Language
    dice: random.Random
    logged: Sequence[LoggedTurn]
    secrets: Sequence[str]
    count: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    turns: dict[str, int] = field(default_factory=dict[str, int])
    told: list[str] = field(default_factory=list[str])

    def planted(self, kind: Kind) -> Planned:
        """A turn of that kind, with a label that comes by turns."""
        zh = self.language == "zh"
        if kind in ("set", "ask"):
            labels = LABELS[self.language]
            label = self._turn(kind, labels["app"] if kind == "set" else (*labels["before"], *labels["app"]))
            text = f"我的{label}是什么？" if zh else f"What is my {label}?"
            # The application writes it; the user speaks of something else.
            return Planned(
                kind, text if kind == "ask" else "好的，继续。" if zh else "All right.", (), label, self._value(label)
            )
        if kind in ("state", "ask_own", "forget", "send"):
            label = self._turn(kind, LABELS[self.language]["own"])
            value = self._value(label)
            texts = {
                "state": (f"My {label} is {value}.", f"我的{label}是{value}。"),
                "ask_own": (f"What is my {label}?", f"我的{label}是什么？"),
                "forget": (f"Forget my {label}.", f"忘掉我的{label}。"),
                "send": (f"Send my {label} to the desk.", f"把我的{label}发给前台。"),
            }
            return Planned(kind, texts[kind][zh], (), label, value)
        if kind == "sign_in":
            return Planned(kind, "用我的desk_token登录。" if zh else "Sign in with my desk token.", (), "desk token")
        if kind == "secret":
            answer = Said("查过了。" if zh else "I have looked.")
            call = Said("", (SaidCall("open_file", {"path": f"env-{next(self.count)}"}),))
            held = self.dice.choice(self.secrets)
            return Planned(
                kind,
                "看一下环境。" if zh else "Look at the environment.",
                (LoggedStep(call, (held,)), LoggedStep(answer)),
            )
        return self._told(kind)

    def _told(self, kind: Kind) -> Planned:
        """References: in a long file, in the user's words, and asked for."""
        zh = self.language == "zh"
        if kind == "find":
            at = self.turns.get(kind, 0)
            self.turns[kind] = at + 1
            label = self.told[at // 2 % len(self.told)] if at % 2 else self.told[-1 - at // 2 % len(self.told)]
            return Planned(
                kind, f"{label}的编号是什么？" if zh else f"What is the reference of the {label}?", (), label
            )
        bird = self._turn(kind, NAMES[self.language])
        what = ("文件" if zh else " file") if kind == "file" else ("笔记" if zh else " note")
        label = f"{bird}{what}"
        self.told.append(label)
        code = f"{'FILE' if kind == 'file' else 'NOTE'}-{1000 + next(self.count)}"
        line = f"{label}的编号是{code}。" if zh else f"The reference of the {label} is {code}."
        if kind == "hint":
            return Planned(kind, f"顺便记着：{line}" if zh else f"For later: {line}", (), label, code)
        pieces = [step.said.text for turn in self.dice.sample(self.logged, 60) for step in turn.steps][:90]
        middle = len(pieces) // 2
        body = "\n".join([*pieces[:middle], line, *pieces[middle:]])
        call = Said("", (SaidCall("open_file", {"path": label}),))
        answer = Said("打开了。" if zh else "It is open.")
        user = f"打开{label}。" if zh else f"Open the {label}."
        return Planned(kind, user, (LoggedStep(call, (body,)), LoggedStep(answer)), label, code)

    def _turn(self, kind: str, labels: Sequence[str]) -> str:
        at = self.turns.get(kind, 0)
        self.turns[kind] = at + 1
        return labels[at % len(labels)]

    def _value(self, label: str) -> str:
        number = 1000 + next(self.count)
        zh = self.language == "zh"
        if label == LABELS[self.language]["app"][-1] or label == LABELS[self.language]["own"][-1]:
            goods = [f"{'物品' if zh else 'item'} {number}-{at}" for at in range(24)]
            return ("，" if zh else ", ").join(goods)
        if label in ("name", "名字"):
            return (
                f"欧阳{'甲乙丙丁戊己庚辛壬癸'[number % 10]}{'春夏秋冬'[number % 4]}{'梅兰竹菊'[number // 4 % 4]}"
                if zh
                else f"Ada Okafor{number}"
            )
        return f"青{'松柏杨柳'[number % 4]}木{number}" if zh else f"Oakland-{number}"


def planned(folder: Path, language: Language, *, turns: int, seed: int, secrets: Sequence[str]) -> list[Planned]:
    """That many turns; the same seed gives the same."""
    logged = list(itertools.islice(log_turns(folder, language), max(turns, 100)))
    dice = random.Random(seed)  # noqa: S311 - a repeatable plan
    maker = _Maker(language, dice, logged, secrets)
    kinds, logs = itertools.cycle(ROUND), itertools.cycle(logged)
    return [maker.planted(next(kinds)) if at % EVERY == 0 else _from_log(next(logs)) for at in range(turns)]


def stated_before(language: Language) -> list[Planned]:
    """What the user states in an earlier session."""
    texts = {"en": "My {0} is Ashford-{1}.", "zh": "我的{0}是白桦林{1}。"}
    values = {"en": "Ashford-{0}", "zh": "白桦林{0}"}
    return [
        Planned("state", texts[language].format(label, 900 + at), (), label, values[language].format(900 + at))
        for at, label in enumerate(LABELS[language]["before"])
    ]


def _from_log(turn: LoggedTurn) -> Planned:
    return Planned("log", turn.user, turn.steps)
