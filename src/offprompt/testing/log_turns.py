"""Turns of real logs, to be played again by an application and a stand-in model; read from a data folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Final, Literal

from offprompt.records import as_dict, as_list, compact
from offprompt.service.replay.logged import Conversation, LoggedCall, LoggedMessage
from offprompt.service.replay.readers import read_conversations
from offprompt.testing.strict_replies import Said, SaidCall

SYSTEM: Final = {
    "en": "You are a helpful agent. Use the tools, and answer in a sentence or two.",
    "zh": "你是一个乐于助人的助手。需要时使用工具，回答一两句话即可。",
}
COMMAND: Final = "run_command"
"""The tool of a logged command line."""

_LINE: Final = re.compile(r"<(?P<who>[^<>]+)>:\"(?P<text>.*)\"\s*", re.DOTALL)
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """One reply of the log's model, and what its calls were answered with, in their order."""

    said: Said
    results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoggedTurn:
    """A user's words and the replies to them; only the last makes no calls."""

    user: str
    steps: tuple[LoggedStep, ...]

    @property
    def tools(self) -> set[str]:
        """The tools that it calls."""
        return {call.name for step in self.steps for call in step.said.calls}


def log_turns(folder: Path, language: Literal["en", "zh"]) -> Iterator[LoggedTurn]:
    """All turns of the logs of a data folder in one language.

    en   tau-bench's airline agents, LongMemEval's chats and SWE-agent's runs, conversations of each by turns.
    zh   MADial's dialogues.
    """
    if language == "zh":
        yield from _dialogues(folder / "madial" / "MADial-Bench-zh-dialogue.json")
        return
    kinds = ("tau-bench/gpt-4o-airline.json", "longmemeval/haystacks.json", "swe-agent/*.traj")
    streams = [_conversations(sorted(folder.glob(pattern))) for pattern in kinds]
    for together in zip_longest(*streams):
        for conversation in together:
            if conversation is not None:
                yield from turns_of(conversation)


def _conversations(paths: Iterable[Path]) -> Iterator[Conversation]:
    for path in paths:
        yield from read_conversations(path, lambda _: None)


def turns_of(conversation: Conversation) -> Iterator[LoggedTurn]:
    """The turns of one logged conversation; calls that nothing answers are left out."""
    own: list[LoggedMessage] = []
    for message in conversation.messages:
        if message.kind == "user":
            yield from _turn(own)
            own = []
        own.append(message)
    yield from _turn(own)


def _turn(messages: list[LoggedMessage]) -> Iterator[LoggedTurn]:
    if not messages or messages[0].kind != "user" or not messages[0].text.strip():
        return
    steps: list[LoggedStep] = []
    texts: list[str] = []
    for at, message in enumerate(messages):
        if message.kind != "assistant":
            continue
        results = [each.text for each in _until_reply(messages[at + 1 :])]
        calls = message.calls[: len(results)]
        if not calls:
            texts.append(message.text)
            continue
        said = Said("" if calls[0].inline else message.text, tuple(map(_call, calls)))
        steps.append(LoggedStep(said, tuple(results[: len(calls)])))
    last = "\n".join(text for text in texts if text.strip())
    if last:
        yield LoggedTurn(messages[0].text, (*steps, LoggedStep(Said(last))))


def _until_reply(messages: Iterable[LoggedMessage]) -> Iterator[LoggedMessage]:
    for message in messages:
        if message.kind not in ("tool", "observation"):
            return
        yield message


def _call(call: LoggedCall) -> SaidCall:
    try:
        given = as_dict(json.loads(call.arguments))
    except ValueError:
        given = None
    if given is None:
        return SaidCall(COMMAND, compact({"command": call.arguments}))
    return SaidCall(_NO_NAME.sub("_", call.name)[:64], compact(given))


def _dialogues(path: Path) -> Iterator[LoggedTurn]:
    for line in path.read_text(encoding="utf-8").splitlines():
        lines = [
            _LINE.fullmatch(str(each)) for each in as_list((as_dict(json.loads(line)) or {}).get("dialogue")) or []
        ]
        said = [(match["who"] == "Assistant", match["text"]) for match in lines if match is not None]
        for (one, user), (other, answer) in pairwise(said):
            if not one and other:
                yield LoggedTurn(user, (LoggedStep(Said(answer)),))
