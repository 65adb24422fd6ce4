"""What a language model is told and given when it reads turns."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

from offprompt.recall.extract.language import scripts
from offprompt.recall.extract.records import Known, Line, Strictness
from offprompt.records import compact

VERSION: Final = 1
"""Of the instructions; those of each version stay in `prompts/`."""

BEFORE_CHARS: Final = 300
"""Of what the assistant said before a turn so much is given, from its end: that is what the turn answers."""

Language: TypeAlias = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """Instructions in one language. name: with version and language, as it is stored with what was made by them."""

    name: str
    system: str
    again: str

    def messages(self, lines: Sequence[Line], known: Sequence[Known], *, zone: tzinfo) -> list[dict[str, str]]:
        """The request: instructions, then one JSON object a line, so that no turn can look like another."""
        given = [_known_line(one, zone) for one in known] + [_turn_line(one, zone) for one in lines]
        return [
            {"role": "system", "content": self.system},
            {"role": "user", "content": "\n".join(map(compact, given))},
        ]

    def once_more(self, messages: Sequence[Mapping[str, str]], answer: str, why: str) -> list[dict[str, str]]:
        """The request after an answer that could not be used."""
        told = {"role": "user", "content": self.again.format(why=why)}
        said = [{"role": "assistant", "content": answer}] if answer.strip() else []
        return [*map(dict, messages), *said, told]


def prompt_for(
    language: Language, *, strictness: Strictness = "normal", categories: Sequence[str] = (), instructions: str = ""
) -> Prompt:
    """The current instructions with what the application adds."""
    name = f"extract-{VERSION}.{language}"
    parts = _file(name)
    told = [
        str(parts["system"]).strip(),
        str(parts["strictness"][strictness]),
        str(parts["categories"]).format(categories=", ".join(categories)) if categories else "",
        str(parts["instructions"]).replace("{instructions}", instructions) if instructions else "",
    ]
    return Prompt(name, "\n\n".join(part for part in told if part), str(parts["again"]))


def summary_prompt(language: Language, words: int) -> tuple[str, str]:
    """The name of the current instructions for a summary, and the instructions."""
    name = f"summarize-{VERSION}.{language}"
    return name, str(_file(name)["system"]).strip().format(words=words)


def language_of(text: str) -> Language:
    """Chinese where most of a text is."""
    found = scripts(text)
    return "zh" if 2 * found["CJK"] > found.total() else "en"


def _known_line(one: Known, zone: tzinfo) -> dict[str, Any]:
    about = {"about": one.about} if one.about else {}
    return {"known": one.number, **about, "date": _day(one.at, zone), "text": one.text}


def _turn_line(line: Line, zone: tzinfo) -> dict[str, Any]:
    before = {"answers": line.before[-BEFORE_CHARS:]} if line.before else {}
    speaker = {"speaker": line.speaker} if line.speaker else {}
    return {"turn": line.number, **speaker, "date": _day(line.at, zone), **before, "text": line.text}


def _day(at: float, zone: tzinfo) -> str:
    try:
        return datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %a")
    except (ValueError, OverflowError, OSError):  # a time that no calendar has
        return ""


@cache
def _file(name: str) -> dict[str, Any]:
    return tomllib.loads(files("offprompt.recall.extract").joinpath("prompts", f"{name}.toml").read_text("utf-8"))
