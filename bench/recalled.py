"""How often turns that left come back on ordinary turns of real logs, what that costs, and what questions bring back.

    python bench/recalled.py

Reads the folder that OFFPROMPT_DATA names: airline agents twenty customers at a time, long chats, and Chinese
dialogues, each as one conversation of a session with the window of the default settings.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import offprompt
from offprompt.service.session import Session
from offprompt.testing import MovedClock
from offprompt.testing.log_turns import log_turns

CUSTOMERS = 20
LOGS = 3
SMALL_TALK = (
    *("thanks", "ok", "Yes, please go on.", "Great, that helps a lot!", "What is the capital of Mongolia?"),
    *("Write a haiku about rain.", "What is 17 times 23?", "好的", "谢谢", "今天星期几？", "写一首关于秋天的诗"),
)


@dataclass
class Log:
    """One conversation. questions: asked at its end, each with the answer's words that a request must hold."""

    name: str
    messages: list[dict[str, Any]]
    questions: list[tuple[str, set[str]]] = field(default_factory=list[tuple[str, set[str]]])


@dataclass
class Figures:
    """turns: user turns behind the first cut. recalled: those with something of what left; tokens: of all of them.

    small   how much of the small talk brought something back. found: questions with a message of the answer's part.
    """

    turns: int = 0
    recalled: int = 0
    tokens: int = 0
    small: int = 0
    asked: int = 0
    found: int = 0


def logs(folder: Path) -> Iterator[Log]:
    """The logs of all three sets."""
    runs = json.loads((folder / "tau-bench" / "gpt-4o-airline.json").read_text(encoding="utf-8"))
    for at in range(0, LOGS * CUSTOMERS, CUSTOMERS):
        chained = [each for run in runs[at : at + CUSTOMERS] for each in run["traj"] if each["role"] != "system"]
        yield Log(f"airline {at + 1}-{at + CUSTOMERS}", chained)
    for number, chat in enumerate(json.loads((folder / "longmemeval" / "haystacks.json").read_text(encoding="utf-8"))):
        parts = dict(zip(chat["haystack_session_ids"], chat["haystack_sessions"], strict=True))
        answers = [{each["content"] for name in names for each in parts[name]} for names in chat["answer_session_ids"]]
        messages = [each for part in chat["haystack_sessions"] for each in part]
        yield Log(f"chat {number + 1}", messages, list(zip(chat["questions"], answers, strict=True)))
    told: list[dict[str, Any]] = []
    for turn in log_turns(folder, "zh"):
        told += [{"role": "user", "content": turn.user}, {"role": "assistant", "content": turn.steps[-1].said.text}]
    yield Log("dialogues zh", told)


def measure(log: Log) -> Figures:
    """The figures of one log; nothing that is asked at its end stays in it."""
    session = (
        offprompt.open(":memory:", clock=MovedClock())
        .scope(user="u")
        .session("s", model="gpt-4o-mini", policy="window")
    )
    figures, messages = Figures(), list[dict[str, Any]]()
    for message in log.messages:
        if message["role"] == "assistant" and messages and messages[-1]["role"] in ("user", "tool"):
            session.prepare(messages)
            count(figures, session) if messages[-1]["role"] == "user" else None
        messages.append(message)
    for text in SMALL_TALK:
        figures.small += bool(ask(session, messages, text))
    for question, answers in log.questions:
        names = ask(session, messages, question)
        texts = {f"@{entry.key[:12]}": entry.text for entry in session.journal()}
        figures.asked += 1
        figures.found += any(texts.get(name) in answers for name in names)
    return figures


def count(figures: Figures, session: Session) -> None:
    record = session.record
    if record is not None and record.start:
        recalled = [each.tokens for each in record.shown if each.why == "recall"]
        figures.turns += 1
        figures.recalled += bool(recalled)
        figures.tokens += sum(recalled)


def ask(session: Session, messages: Sequence[dict[str, Any]], text: str) -> list[str]:
    """Names of what comes back for a text at the end of the conversation."""
    session.prepare([*messages, {"role": "user", "content": text}])
    record = session.record
    return [each.name for each in record.shown if each.why == "recall"] if record is not None else []


def main() -> int:
    folder = os.environ.get("OFFPROMPT_DATA")
    if not folder:
        print("set OFFPROMPT_DATA to the folder of the data sets")
        return 2
    heads = ("turns after a cut", "with recall", "tokens a turn", "small talk", "found")
    print(f"{'log':16}", *(f"{head:>17}" for head in heads))
    for log in logs(Path(folder)):
        one = measure(log)
        share, tokens = one.recalled / max(one.turns, 1), one.tokens / max(one.turns, 1)
        small, found = f"{one.small} of {len(SMALL_TALK)}", f"{one.found} of {one.asked}" if one.asked else "-"
        cells = (str(one.turns), f"{share:.3f}", f"{tokens:.1f}", small, found)
        print(f"{log.name:16}", *(f"{cell:>17}" for cell in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
