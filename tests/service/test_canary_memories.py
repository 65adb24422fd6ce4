"""Memories quote the canaries of `never` slots: what sessions, events, logs, errors and exports tell of them does not.

The application's own `recall`, `get` and `list` give texts as they were said; so does an export that is asked to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.cli import main
from offprompt.errors import OffpromptError
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from tests.service.canary import STORED, TEXTS, VALUES, Channels, Spy, forms, found, plant
from tests.service.talk import MODELS, Say, Talk, Wire, call, calls, result, tool

ASKED = ("Where did I say that my violet umbrella stand is?", "我把紫色的雨伞架放在哪里了？")


@pytest.fixture
def opened(tmp_path: Path, clock: MovedClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offprompt]:
    path = tmp_path / "agent.db"
    monkeypatch.setenv("OFFPROMPT_URL", str(path))
    with offprompt.open(path, clock=clock, max_value_bytes=1000, recall_tokens=2000, embedder="none") as mem:
        yield mem


@pytest.fixture
def ann(opened: Offprompt) -> BoundScope:
    """Canaries, and memories that quote them: what the application stored, and what a session captured."""
    scope = opened.scope(user="ann")
    plant(scope)
    return scope


def quoted(kind: str) -> list[str]:
    """Two short ones that are asked for, then some forms; each in one line, since parts may be too short to count."""
    short = TEXTS[kind][0][: 16 if kind == "zh" else 60]
    told = [f"My violet umbrella stand is behind the door: {short}", f"我把紫色的雨伞架放在后门旁边的走廊里：{short}"]
    return [" ".join(text.split()) for text in (*told, *(f"umbrella 雨伞架 {form}" for form in forms(kind)[::3]))]


def remember(scope: BoundScope, kind: str, wire: Wire) -> list[str]:
    """Ids of memories with every form of a canary in text, tags, names and metadata."""
    before = Talk(scope.session("before", model=MODELS[wire], wire=wire), wire)
    ids: list[str] = []
    texts = quoted(kind)
    for text in texts[:2]:
        ids += [each.name for each in before.turn(f"Remember: {text}", f"So: {text}").remembered]
    said = [{"role": "user", "content": f"my {text}", "name": text} for text in texts]
    stored = scope.remember([*texts, *said], tags=texts[:1], metadata={"source": texts})
    ids += [each.name for each in stored if each.name.startswith("m_")]
    held = scope.memories.get_many(ids)
    assert any(kind in found(memory.text) for memory in held), "nothing was there to be let out"
    return list(dict.fromkeys(ids))


@pytest.mark.parametrize("kind", list(STORED))
def test_a_session_that_recalls_searches_and_reads_them_tells_nothing(
    ann: BoundScope, wire: Wire, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ids = remember(ann, kind, wire)
    tools = [tool("get", wire)]
    spy = Spy(Talk(ann.session("after", model=MODELS[wire], wire=wire, tools=tools), wire))
    for asked in ASKED:
        spy.turn(asked, "I see.")
        assert [shown for shown in spy.talk.session.ledger()[-1].shown if shown.why == "recall"], asked
    for said in attempts(kind, ids):
        spy.turn("And now?", said, f"It is [[mem:{ids[0]}]], [[mem:{ids[-1]}]].")
    for number, name in enumerate(ids[:3]):
        reply = spy.turn("Send it", call("get", f"sent_{number}", text=f"[[mem:{name}]]"))
        sent = [(each.call_id, each.arguments) for each in reply.tool_calls]
        spy.talk.messages += result(wire, *sent)
        spy.go("Done.")
    spy.close(ann)
    spy.out.add("log", *(record.getMessage() for record in caplog.records))
    spy.out.check()


def attempts(kind: str, ids: list[str]) -> list[Say]:
    """What a model may try with the ids of memories and a piece of a value that it guessed."""
    text = TEXTS[kind][0]
    return [
        calls(
            *(
                call("mem_search", query=query)
                for query in ("violet umbrella stand", "紫色的雨伞架", text[:5], text[-5:])
            )
        ),
        *(calls(call("mem_read", slot=name), call("mem_read", slot=name, page=2)) for name in ids[:5]),
        calls(*(call("mem_write", slot=f"copy_{at}", value=f"[[mem:{name}]]") for at, name in enumerate(ids[:4]))),
        calls(*(call("mem_read", slot=f"copy_{at}") for at in range(4))),
        calls(call("mem_forget", slot=ids[-1]), call("mem_read", slot=ids[-1])),
    ]


@pytest.mark.parametrize("kind", list(STORED))
def test_neither_events_nor_logs_nor_errors_nor_exports_hold_them(
    ann: BoundScope,
    kind: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    ids, out = remember(ann, kind, "openai"), Channels()
    ann.recall(quoted(kind)[0])
    for number, attempt in enumerate(errors(ann, kind, ids[0])):
        with pytest.raises(OffpromptError) as raised:
            pytest.fail(f"{number} went well: {attempt()!r:.200}")
        exc = raised.value
        out.add("error", str(exc), repr(exc), str(exc.__cause__), repr(vars(exc)))
    ann.memories.forget(ids[1])
    ann.memories.undo(ids[1])
    ann.memories.update(ids[2], text=quoted(kind)[-1])
    ann.memories.export(tmp_path / "m.jsonl")
    out.add("export", *(tmp_path / "m.jsonl").read_text(encoding="utf-8").splitlines())
    assert main(["memory", "export", str(tmp_path / "cli.jsonl"), "--user", "ann"]) == 0
    out.add("export", *(tmp_path / "cli.jsonl").read_text(encoding="utf-8").splitlines())
    lines = ["trace before", "trace before --values", "audit --diagnose", "sessions", "users", "doctor"]
    lines += ["memory sessions --user ann", "slot list --user ann"]
    for line in lines:
        assert main([*line.split(), "--json"]) in (0, 1), line
    printed = capsys.readouterr()
    out.add("printed", printed.out, printed.err)
    out.add("reprs", ann, ann.memories)
    out.add("events", *ann.events(limit=10000))
    out.add("log", *(record.getMessage() for record in caplog.records))
    out.check()
    assert main(["memory", "export", str(tmp_path / "all.jsonl"), "--secrets", "--user", "ann"]) == 0
    assert kind in found((tmp_path / "all.jsonl").read_text(encoding="utf-8"))


def errors(scope: BoundScope, kind: str, name: str) -> Iterator[Callable[[], object]]:
    """What goes wrong with a value in hand."""
    text = TEXTS[kind][0]
    memories: Any = scope.memories
    yield lambda: memories.remember(text * (40_000 // len(text)))
    yield lambda: memories.remember([VALUES[kind], 5])
    yield lambda: memories.remember("x", metadata={text: {text}})
    yield lambda: memories.remember("x", metadata=[text])
    yield lambda: memories.update(name, text=text * (40_000 // len(text)))
    yield lambda: memories.update(name, metadata=[text])
    yield lambda: memories.recall([{"role": "user", "content": {text: 1}}])
    yield lambda: memories.get_many(memories.list())
    yield lambda: memories.forget(*memories.list())
