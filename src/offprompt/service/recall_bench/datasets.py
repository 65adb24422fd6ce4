"""Data sets of questions over memories: LoCoMo, MADial-Bench, BFCL memory, as their makers publish them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.recall.docs import EPISODE

LOCOMO_CATEGORIES: Final = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop"}
"""Category 5 has no answer in the conversation, so nothing that recall could find."""

_EVIDENCE: Final = re.compile(r"D:?(\d+):(\d+)")
_SPOKEN: Final = re.compile(r'\s*<([^>]*)>:\s*"?(.*?)"?\s*', re.DOTALL)
_ELISION: Final = re.compile(r"\.\.\.|…|\n")
_LEAST_QUOTE: Final = 12
_GRAM: Final = 2


@dataclass(frozen=True, slots=True)
class Note:
    """A memory of a data set. session and order as in Doc."""

    note_id: str
    text: str
    kind: str = "fact"
    speaker: str = ""
    session: str = ""
    order: int = 0
    event_at: float | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """relevant: the ids of the notes that hold the answer; asked_at: seconds since 1970, where the set says so."""

    text: str
    relevant: frozenset[str]
    category: str
    asked_at: float | None = None


@dataclass(frozen=True, slots=True)
class Corpus:
    """What one search goes over: a conversation, or the memories of one user."""

    name: str
    notes: tuple[Note, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class DataSet:
    """Corpora under one name. without_evidence: questions left out because no note could be matched to them."""

    name: str
    corpora: tuple[Corpus, ...]
    without_evidence: int = 0


def read(folder: Path) -> list[DataSet]:
    """The data sets in a folder, known by their files; MADial gives one for each language.

    Raises   UsageError if the folder holds none of them, or its files are not as their makers publish them.
    """
    try:
        found = [
            *(_locomo(path) for path in sorted(folder.glob("locomo*.json"))),
            *(_madial(folder, path) for path in sorted(folder.glob("MADial-Bench-*-dialogue.json"))),
            *([_bfcl(folder)] if (folder / "questions.jsonl").exists() else []),
        ]
    except (LookupError, TypeError, ValueError, OSError) as exc:
        raise UsageError(
            f"the data set in {str(folder)!r} is not as its makers publish it ({type(exc).__name__}: {exc}); "
            "fetch its files again"
        ) from exc
    if not found:
        raise UsageError(
            f"{str(folder)!r} holds no data set that is known: locomo*.json, MADial-Bench-*-dialogue.json with its "
            "memory, or questions.jsonl with answers.jsonl and memory_*.json; name the folder that has the files"
        )
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _locomo(path: Path) -> DataSet:
    corpora: list[Corpus] = []
    lacking = 0
    for each in json.loads(path.read_text(encoding="utf-8")):
        notes = tuple(_turns(each["conversation"]))
        there = {note.note_id for note in notes}
        last = max(note.event_at or 0.0 for note in notes)
        asked: list[Question] = []
        for one in each["qa"]:
            if one["category"] not in LOCOMO_CATEGORIES:
                continue
            # Nine evidence strings are malformed: several ids in one, "D:11:26", "D" alone.
            named = {f"D{int(a)}:{int(b)}" for text in one["evidence"] for a, b in _EVIDENCE.findall(text)} & there
            lacking += not named
            if named:
                category = LOCOMO_CATEGORIES[one["category"]]
                asked.append(Question(one["question"], frozenset(named), category, last))
        corpora.append(Corpus(each["sample_id"], notes, tuple(asked)))
    return DataSet(path.stem, tuple(corpora), lacking)


def _turns(conversation: dict[str, Any]) -> Iterator[Note]:
    """All turns. An image is its caption; the search words that it was found by are not part of what was said."""
    numbers = sorted(int(key[8:]) for key in conversation if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        said = datetime.strptime(f"{conversation[f'session_{number}_date_time']} +0000", "%I:%M %p on %d %B, %Y %z")
        for order, turn in enumerate(conversation[f"session_{number}"]):
            caption = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
            yield Note(
                turn["dia_id"],
                turn["text"] + caption,
                EPISODE,
                turn["speaker"],
                f"session_{number}",
                order,
                said.timestamp(),
            )


def _madial(folder: Path, path: Path) -> DataSet:
    language = path.name.split("-")[2]
    # Only the Chinese memories say whose they are; the ids are the same in both languages.
    owners = {
        key: one["user-id"] for each in _lines(folder / "MADial-Bench-zh-memory.json") for key, one in each.items()
    }
    notes: dict[int, list[Note]] = {}
    for each in _lines(folder / f"MADial-Bench-{language}-memory.json"):
        for key, one in each.items():
            day = datetime.fromisoformat(one["time"]).replace(tzinfo=UTC).timestamp()
            notes.setdefault(owners[key], []).append(Note(key, one["event"], event_at=day))
    asked: dict[int, list[Question]] = {}
    for each in _lines(path):
        spoken = (_SPOKEN.fullmatch(turn) for turn in each["dialogue"][1 : each["test-turn"][0]])
        text = "\n".join(f"{turn[1]}: {turn[2]}" for turn in spoken if turn)
        relevant = frozenset(str(number) for number in each["relevant-id"])
        asked.setdefault(each["user-id"], []).append(Question(text, relevant, language))
    users = sorted(notes)
    corpora = tuple(Corpus(f"user {user}", tuple(notes[user]), tuple(asked.get(user, ()))) for user in users)
    return DataSet(f"madial-{language}", corpora)


def _bfcl(folder: Path) -> DataSet:
    sources = {one["id"]: one["source"] for one in _lines(folder / "answers.jsonl")}
    questions = _lines(folder / "questions.jsonl")
    corpora: list[Corpus] = []
    lacking = 0
    for path in sorted(folder.glob("memory_*.json")):
        scenario = path.stem.removeprefix("memory_")
        notes = tuple(
            Note(f"{one['id']}/{at}", message["content"])
            for one in _lines(path)
            for at, turn in enumerate(one["question"])
            for message in turn
        )
        plain = {note.note_id: _plain(note.text) for note in notes}
        asked: list[Question] = []
        for one in questions:
            if one["scenario"] == scenario:
                relevant = _quoted(sources[one["id"]], plain)
                lacking += not relevant
                if relevant:
                    asked.append(Question(one["question"][0][0]["content"], relevant, scenario))
        corpora.append(Corpus(scenario, notes, tuple(asked)))
    return DataSet("bfcl-memory", tuple(corpora), lacking)


def _plain(text: str) -> str:
    return re.sub(r"\W+", " ", text).casefold().strip()


def _quoted(source: str, plain: dict[str, str]) -> frozenset[str]:
    """The notes that hold a part of the quotation; where none does, those that share the most runs of words."""
    parts = [part for piece in _ELISION.split(source) if len(part := _plain(piece)) >= _LEAST_QUOTE]
    found = {note_id for note_id, text in plain.items() if any(part in text for part in parts)}
    if found:
        return frozenset(found)
    words = _plain(source).split()
    grams = [" ".join(words[at : at + _GRAM]) for at in range(len(words) - _GRAM + 1)]
    shared = {note_id: sum(gram in text for gram in grams) for note_id, text in plain.items()}
    most = max(shared.values(), default=0)
    return frozenset(note_id for note_id, number in shared.items() if number == most > 0)
