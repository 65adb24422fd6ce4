"""Questions at the end of long chats: whether the turn that answers one can still be had, behind the gateway or cut."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gateway_run import Passage, Step, Way, words
from offprompt.models.tokenizers import tokenizer_for
from offprompt.recall.telling import coverage, searchable_terms, telling_terms
from offprompt.records import Message
from offprompt.service.replay.columns import Truncation
from offprompt.service.replay.evidence import Use
from offprompt.service.replay.log import Log, Rules
from offprompt.service.replay.logged import LoggedMessage

ANSWER: Message = {"role": "assistant", "content": "Noted."}
NEVER_THERE = "\x00"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked at the end of a chat, and the text of the message that answers it."""

    text: str
    evidence: str


@dataclass(slots=True)
class Kept:
    """Of how many questions the answering message can be had.

    cut       it stands in the request that truncation sends. window: in the one that came through the gateway.
    recalled  it stands there, or came back by itself; found: that, or a search with the question's words found it.
    tokens    of the final requests together: everything, and as they came.
    """

    asked: int = 0
    cut: int = 0
    window: int = 0
    recalled: int = 0
    found: int = 0
    whole_tokens: int = 0
    tokens: int = 0


def questions(chat: Mapping[str, Any]) -> list[Question]:
    """A haystack's questions. The answering message is the newest that the set marks, else the one of the answer's
    sessions that holds most of the answer's words."""
    parts = dict(zip(chat["haystack_session_ids"], chat["haystack_sessions"], strict=True))
    found: list[Question] = []
    for text, answer, names in zip(chat["questions"], chat["answers"], chat["answer_session_ids"], strict=True):
        messages = [each for name in chat["haystack_session_ids"] if name in names for each in parts[name]]
        marked = [each["content"] for each in messages if each.get("has_answer")]
        weights = dict.fromkeys(telling_terms(str(answer)), 1.0)
        best = max(messages, key=lambda each: coverage(weights, searchable_terms(each["content"])))
        found.append(Question(text, marked[-1] if marked else best["content"]))
    return found


def chat_steps(chat: Mapping[str, Any]) -> list[Step]:
    """All sessions of a haystack as one conversation."""
    messages = [each for session in chat["haystack_sessions"] for each in session]
    return [
        Step(LoggedMessage(each["role"], each["content"]), {"role": each["role"], "content": each["content"]})
        for each in messages
    ]


async def asked(folder: Path, number: int, way: Way) -> Kept:
    """One haystack through the gateway, and each question at its end, each before a memory of its own."""
    chat = json.loads((folder / "longmemeval" / "haystacks.json").read_text(encoding="utf-8"))[number]
    kept, log, messages = Kept(), chat_steps(chat), list[Message]()
    with tempfile.TemporaryDirectory() as place:
        store = Path(place) / "chat"
        store.mkdir()
        async with Passage(way, str(store / "memory.db")) as passage:
            for step in log:
                if step.logged.kind == "assistant" and messages:
                    passage.model.expect(step.wire, ())
                    await passage.ask(messages)
                messages.append(step.wire)
            names = {text: name for name, text in passage.holders().items()}
        for question in questions(chat):
            kept.asked += 1
            kept.cut += question.evidence in words(_truncated(log, messages, question.text, way))
            await _ask(kept, store, way, messages, question, names)
    return kept


async def _ask(
    kept: Kept, store: Path, way: Way, messages: Sequence[Message], question: Question, names: Mapping[str, str]
) -> None:
    """One question, first as it comes, then with a search where that did not bring the message."""
    given = [*messages, {"role": "user", "content": question.text}]
    name = names.get(question.evidence, NEVER_THERE)
    for uses in ((), (Use(NEVER_THERE, [], question.text),)):
        with tempfile.TemporaryDirectory() as place:
            shutil.copytree(store, place, dirs_exist_ok=True)
            async with Passage(way, str(Path(place) / "memory.db")) as passage:
                passage.model.expect(ANSWER, uses)
                _, bodies, _ = await passage.ask(given)
        said = words(bodies[0]["messages"])
        if not uses:
            tokenizer = tokenizer_for(way.model)
            kept.whole_tokens += tokenizer.count(words(given))
            kept.tokens += tokenizer.count(said)
            kept.window += question.evidence in said
            kept.recalled += question.evidence in said or name in said
        if question.evidence in said or name in said or name in passage.model.found:
            kept.found += 1
            return


def _truncated(log: Sequence[Step], messages: Sequence[Message], question: str, way: Way) -> list[Message]:
    """What truncation sends for a question."""
    counted = Log("", tokenizer_for(way.model), Rules(way.sheet, high_tokens=way.high, low_tokens=way.low))
    for step in [*log, Step(LoggedMessage("user", question), {"role": "user", "content": question})]:
        counted.append(step.logged)
    return [*messages[Truncation().request(counted).start :], {"role": "user", "content": question}]
