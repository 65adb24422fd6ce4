"""`offprompt demo`: save a name, change the subject, ask the name; then a replay of a log made on the spot."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import typer

from offprompt.bootstrap import open as open_memory
from offprompt.cli.call import Call, command
from offprompt.cli.render import table
from offprompt.models.tokenizers import tokenizer_for
from offprompt.service.demo import (
    HIGH_TOKENS,
    LOW_TOKENS,
    TURNS_A_SESSION,
    Played,
    PlayedTurn,
    Script,
    play,
    play_traditional,
    script,
)
from offprompt.service.replay.log import Rules
from offprompt.service.replay.readers import read_conversations
from offprompt.service.replay.report import advice, document, head_line, summary, table_cells
from offprompt.service.replay.simulate import Replayed, simulate
from offprompt.testing.agent_log import agent_log
from offprompt.testing.scripted import ScriptedModel
from offprompt.wire.prices import builtin_sheets, named_sheet

MARKS: Final = {"none": "·", "said": "s", "shown": "!"}
LOG_TASKS: Final = 30


def demo(call: Call) -> None:
    """Play a conversation of 50 turns and two sessions, with a scripted model, beside the traditional way."""
    told, tokenizer = script(call.lang), tokenizer_for("gpt-4o-mini")
    with open_memory(":memory:", window_high_tokens=HIGH_TOKENS, window_low_tokens=LOW_TOKENS) as memory:
        ours = play(memory.scope(user="demo"), ScriptedModel().create, told, tokenizer)
    pasted = play_traditional(ScriptedModel().create, told, tokenizer)
    replayed = replayed_log(call)
    text = [
        call.say("SCRIPTED: a script stands in for the language model. It reads nothing but the request it is given."),
        "",
        *story(call, ours),
        "",
        *strip(call, ours),
        "",
        comparison(call, ours, pasted, told),
        call.say("A memory as small as this one may as well stand in the prompt once: mode='inline' does that."),
        "",
        call.say("A replay of an agent's log that was made up just now, without any model:"),
        table(*table_cells(replayed, call.lang)),
        summary(replayed, call.lang),
        head_line(replayed, call.lang),
        advice(replayed, call.lang),
    ]
    call.put(as_document(call, ours, pasted, replayed), "\n".join(text))


def story(call: Call, played: Played) -> list[str]:
    """The turns at which something happens, told line by line."""
    subjects = f"           {call.say('… other subjects …')}"
    lines: list[str] = []
    for session, last in ((1, TURNS_A_SESSION), (2, 2 * TURNS_A_SESSION)):
        lines.append(f"{call.say('session')} {session}")
        lines += scene(call, played.turns[0]) if session == 1 else []
        lines += [subjects, *scene(call, played.turns[last - 1])]
    return lines


def scene(call: Call, turn: PlayedTurn) -> list[str]:
    """One turn: the user's words, what the memory did, the answer."""
    done = [f"           {call.say('memory')}: {action}" for action in turn.actions]
    user = f"  {call.say('turn')} {turn.number:>2}  {call.say('user')}: {turn.user}"
    return [user, *done, f"           {call.say('model')}: {turn.answer}"]


def strip(call: Call, played: Played) -> list[str]:
    """A mark for each request: where the name stood in it."""
    legend = "s: in the user's or model's own words   !: shown, because asked for   ·: not a word of it"
    lines = [call.say("Where the name stood, request by request"), "  " + call.say(legend)]
    for number in (1, 2):
        marks = [MARKS[sent.name] for turn in played.turns if turn.session == number for sent in turn.requests]
        lines.append(f"  {call.say('session')} {number}  {''.join(marks)}")
    return lines


def comparison(call: Call, ours: Played, pasted: Played, told: Script) -> str:
    """The two ways beside each other."""
    ways = (pasted, ours)
    heads = ["", call.say("values pasted each turn"), call.say("off the prompt")]
    rows: list[list[object]] = [
        [call.say("requests"), *(len(way.requests) for way in ways)],
        [call.say("input tokens"), *(f"{way.tokens:,}" for way in ways)],
        ["  " + call.say("of them memory"), *(f"{way.memory:,}" for way in ways)],
        ["  " + call.say("of them conversation"), *(f"{way.tokens - way.memory:,}" for way in ways)],
        [call.say("tokens of a request, mean"), *(f"{way.tokens / len(way.requests):,.0f}" for way in ways)],
        [call.say("requests into which a memory put the name"), *(put_in(way) for way in ways)],
        [call.say("right answers of 2"), *(right(way, told) for way in ways)],
    ]
    return table(heads, rows)


def put_in(played: Played) -> int:
    """How many requests hold the name because a memory put it there."""
    return sum(sent.name == "shown" for sent in played.requests)


def right(played: Played, told: Script) -> int:
    """How many of the questions for the name were answered with it."""
    return sum(told.name in turn.answer for turn in played.turns if turn.number % TURNS_A_SESSION == 0)


def replayed_log(call: Call) -> Replayed:
    """The replay of a made-up log, on the common price sheet."""
    rules = Rules(sheet=named_sheet("default", builtin_sheets()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.json"
        log = agent_log(tasks=LOG_TASKS, language=call.lang)
        path.write_text(json.dumps({"messages": log}, ensure_ascii=False), encoding="utf-8")
        return simulate(read_conversations(path, lambda _: None), tokenizer_for("gpt-4o-mini"), rules)


def as_document(call: Call, ours: Played, pasted: Played, replayed: Replayed) -> dict[str, Any]:
    """All of it as JSON."""
    told = script(call.lang)
    ways = {
        name: {
            "requests": len(way.requests),
            "tokens": way.tokens,
            "memory_tokens": way.memory,
            "put_in": put_in(way),
            "right_answers": right(way, told),
            "turns": [asdict(turn) for turn in way.turns],
        }
        for name, way in (("pasted", pasted), ("off_prompt", ours))
    }
    return {"model": "scripted", **ways, "replay": document(replayed, ["made up"], [], call.lang)}


def mount(app: typer.Typer) -> None:
    """Put the command into the program."""
    command(app, "demo")(demo)
