"""How often memories of other sessions come back on ordinary turns of real chats, and what questions bring back.

    python bench/remembered.py

Reads the folder that OFFPROMPT_DATA names: the three long histories, each a user whose chats are sessions of their own,
played turn by turn. No model is asked; the default embedder is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import offprompt
from offprompt.service.bound import BoundScope
from offprompt.service.session import Session
from offprompt.testing import MovedClock
from offprompt.wire.referring import asks_of_oneself

CHATS = 24
SMALL_TALK = (
    *("thanks", "ok", "Yes, please go on.", "What is the capital of Mongolia?", "Write a haiku about rain."),
    *(
        "What is your name?",
        "How can I sleep better?",
        "好的",
        "谢谢",
        "今天星期几？",
        "你叫什么？",
        "写一首关于秋天的诗",
    ),
)


def shown(session: Session) -> list[tuple[str, int]]:
    """The memories that the newest request shows, with their tokens."""
    last = session.ledger()[-1].shown
    return [(each.name, each.tokens) for each in last if each.why == "recall" and each.name.startswith("m_")]


def play(session: Session, messages: Sequence[dict[str, Any]]) -> list[int]:
    """The tokens that came back on each of a chat's user turns."""
    tokens: list[int] = []
    for at, message in enumerate(messages):
        if message["role"] != "user" or at + 1 == len(messages) or messages[at + 1]["role"] != "assistant":
            continue
        session.prepare(messages[: at + 1])
        session.absorb({"role": "assistant", "content": messages[at + 1]["content"]})
        tokens.append(sum(each for _, each in shown(session)))
    return tokens


def ask(scope: BoundScope, number: int, text: str) -> list[str]:
    """The memories that a question brings back in a session of its own."""
    session = scope.session(f"question {number}", model="gpt-4o-mini", capture="off")
    session.prepare([{"role": "user", "content": text}])
    session.absorb({"role": "assistant", "content": "-"})
    return [name for name, _ in shown(session)]


def main() -> int:
    """Print a line for each history."""
    folder = os.environ.get("OFFPROMPT_DATA")
    if not folder:
        sys.stderr.write("OFFPROMPT_DATA names no folder\n")
        return 2
    histories = json.loads((Path(folder) / "longmemeval" / "haystacks.json").read_text(encoding="utf-8"))
    print(f"{'history':10}{'turns':>8}{'with recall':>13}{'tokens a turn':>15}{'small talk':>13}{'found':>9}")
    for number, history in enumerate(histories, 1):
        clock = MovedClock()
        with offprompt.open(":memory:", clock=clock) as mem:
            scope = mem.scope(user="user")
            tokens: list[int] = []
            for at, chat in enumerate(history["haystack_sessions"][:CHATS]):
                clock.move(86400)
                said = [{"role": each["role"], "content": each["content"]} for each in chat if each["content"].strip()]
                tokens += play(scope.session(f"chat {at}", model="gpt-4o-mini"), said)
            small = sum(bool(ask(scope, at, text)) for at, text in enumerate(SMALL_TALK))
            found, asked = questions(scope, history)
        some = sum(each > 0 for each in tokens) / len(tokens)
        line = f"chat {number:<5}{len(tokens):8}{some:13.3f}{sum(tokens) / len(tokens):15.1f}"
        print(line + f"{f'{small} of {len(SMALL_TALK)}':>13}{f'{found} of {asked}':>9}")
    return 0


def questions(scope: BoundScope, history: dict[str, Any]) -> tuple[int, int]:
    """How many of the questions that concern the user, and whose answer was told, bring back a part of that chat."""
    found = asked = 0
    places = {name: f"chat {at}" for at, name in enumerate(history["haystack_session_ids"][:CHATS])}
    for at, (question, answers) in enumerate(zip(history["questions"], history["answer_session_ids"], strict=True)):
        ids = [answers] if isinstance(answers, str) else answers
        chats = {places[each] for each in ids if each in places}
        if chats and asks_of_oneself(question):
            asked += 1
            memories = scope.memories.get_many(ask(scope, 100 + at, question))
            found += any(memory.session in chats for memory in memories)
    return found, asked


if __name__ == "__main__":
    sys.exit(main())
