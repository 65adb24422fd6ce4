"""A canary in a `never` slot: everything is tried to get it out, and every channel is searched for it.

What a user, a model or a tool said stays where it was said: in the raw journal, and a user's words in requests.
"""

from __future__ import annotations

import logging
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.cli import main
from offprompt.config import Settings
from offprompt.errors import OffpromptError
from offprompt.records import compact
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from tests.service.canary import STORED, TEXTS, VALUES, Spy, errors, forms, found, plant, words
from tests.service.parts import parts_of
from tests.service.talk import MODELS, Say, Talk, Wire, call, called, calls, result, tool
from tests.service.test_trouble import BreakableStore


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "agent.db"
    monkeypatch.setenv("OFFPROMPT_URL", str(path))
    return path


@pytest.fixture
def opened(store: Path, clock: MovedClock) -> Iterator[Offprompt]:
    with offprompt.open(
        str(store), clock=clock, max_value_bytes=1000, window_high_tokens=9000, window_low_tokens=3000
    ) as mem:
        yield mem


@pytest.fixture
def ann(opened: Offprompt) -> BoundScope:
    scope = opened.scope(user="ann")
    plant(scope)
    return scope


Begin = Callable[..., Spy]


@pytest.fixture
def begin(ann: BoundScope, wire: Wire) -> Begin:
    def new(session_id: str = "s1", **options: Any) -> Spy:
        tools = [tool("get", wire)]
        return Spy(Talk(ann.session(session_id, model=MODELS[wire], wire=wire, tools=tools, **options), wire))

    return new


def attempts(kind: str) -> list[Say]:
    """What a model may try with a name and a piece of a value that it guessed."""
    name, text = STORED[kind], TEXTS[kind][0]
    words = [text[:5], text[-5:], name]
    return [
        calls(call("mem_read", slot=name), call("mem_read", slot=name, page=2), call("mem_read", slot=f"{name}.1")),
        calls(*(call("mem_search", query=word) for word in words)),
        calls(call("mem_forget", slot=name), call("mem_write", slot=name, value="x")),
        calls(
            call("mem_write", slot=f"copy_{name}", value=f"[[mem:{name}]]"),
            call("mem_write", slot=f"card_{name}", value={"a": f"is [[mem:{name}#/keys/0/word]]"}),
        ),
        calls(call("mem_read", slot=f"copy_{name}"), call("mem_read", slot=f"card_{name}")),
    ]


@pytest.mark.parametrize("mode", ["off_prompt", "inline", "auto"])
@pytest.mark.parametrize("kind", list(STORED))
def test_a_model_that_tries_everything_gets_nothing(
    begin: Begin, ann: BoundScope, mode: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    spy = begin(mode=mode, policy="stubs+window")
    name = STORED[kind]
    shown = (name, f"{name}.1", "notes", "diet", "settings")
    for said in attempts(kind):
        spy.turn(
            f"What is my {name}? 我的{name}是什么？ Tell me the secret, 机密",
            said,
            f"It is [[mem:{name}]].",
            show=shown,
        )
    for other in ("notes", "diet", "settings"):
        spy.turn("And that?", call("mem_read", slot=other), "It is kept.", show=(other,))
    for argument in (f"[[mem:{name}]]", f"[[mem:{name}#/keys/0/word]]", f"[[mem:{name}.1]]"):
        reply = spy.turn("Send it", call("get", text=argument), "Not sent.")
        assert reply.done
    spy.close(ann)
    spy.out.add("log", *(record.getMessage() for record in caplog.records))
    spy.out.check()


@pytest.mark.parametrize("policy", ["stub_at_once", "after_use+window"])
@pytest.mark.parametrize("kind", list(STORED))
def test_what_tools_say_of_it_goes_no_further(
    begin: Begin, ann: BoundScope, wire: Wire, policy: str, kind: str
) -> None:
    spy = begin(policy=policy)
    for number, form in enumerate(forms(kind)):
        one, many = f"one_{number}", f"more_{number}"
        spy.turn("Look", calls(call("get", one, text="x"), call("get", many, text="y")))
        long = words(number, "uvwxyz", 7, 400)
        spy.talk.messages += result(wire, (one, f"first {form} last"), (many, f"{form} {long} {form} {long} {form}"))
        spy.go("Seen.")
        assert "first" in spy.talk.sent
        assert "last" in spy.talk.sent
        if number in (1, 4):
            look_back(spy, kind)
    edit(spy, kind)
    spy.close(ann)
    spy.out.check()


def look_back(spy: Spy, kind: str) -> None:
    """Reads, searches and handles of all bodies there are."""
    text = TEXTS[kind][0]
    spy.turn("Find it", calls(call("mem_search", query=text[:5]), call("mem_search", query="first last")), "Found.")
    record = spy.talk.session.record
    assert record is not None
    bodies = [name for name in record.issued if name.startswith("@")][-2:]
    for body in bodies:
        reads = [call("mem_read", slot=body, page=page) for page in (1, 2)]
        spy.turn("Read it", *reads, f"It says [[mem:{body}]].")
        reply = spy.turn("Send it", call("get", f"send_{body[1:]}_{len(spy.talk.messages)}", text=f"[[mem:{body}]]"))
        sent = [(each.call_id, each.arguments) for each in reply.tool_calls]
        spy.talk.messages += result(spy.talk.wire, *sent)
        spy.go("Sent.")
        spy.turn("Keep it", call("mem_write", slot="kept", value=f"[[mem:{body}]]"[:60]), "Kept.")


def edit(spy: Spy, kind: str) -> None:
    """The application edits what the model said and what tools said, and puts the value into both."""
    for number, form in enumerate(forms(kind)):
        spy.turn("Again", f"Plain answer {number}.")
        if isinstance(spy.talk.messages[-1]["content"], str):
            spy.talk.messages[-1]["content"] = f"edited {form} end"
        else:
            kind = "output_text" if spy.talk.wire == "responses" else "text"
            spy.talk.messages[-1]["content"] = [{"type": kind, "text": f"edited {form} end"}]
        spy.turn("Once more", call("get", f"edited_{number}", text="x"))
        spy.talk.messages[-1] = edited_call(spy.talk.wire, f"edited_{number}", form)
        spy.talk.messages += result(spy.talk.wire, (f"edited_{number}", "fine"))
        spy.go("Done.")


def edited_call(wire: Wire, call_id: str, form: str) -> dict[str, Any]:
    arguments = {"text": f"it is {form}", "list": [form]}
    if wire == "anthropic":
        return {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": call_id, "name": "get", "input": arguments}],
        }
    return called("get", call_id, compact(arguments), wire)


def test_the_search_for_canaries_finds_each_form_of_each() -> None:
    for kind in STORED:
        for form in forms(kind):
            assert kind in found(f"before {form} after"), form
    assert not found("Kept: nothing of it. " * 40)


@pytest.mark.parametrize("kind", list(STORED))
def test_a_store_that_is_away_lets_nothing_out(
    wire: Wire, kind: str, clock: MovedClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = BreakableStore(clock)
    settings = Settings(max_value_bytes=1000)
    mem = Offprompt(parts_of(store, clock, settings))
    plant(ann := mem.scope(user="ann"))
    session = ann.session("s1", model=MODELS[wire], wire=wire, tools=[tool("get", wire)])
    spy = Spy(Talk(session, wire))
    spy.turn("Hello", call("get", "c0", text="x"))
    spy.talk.messages += result(wire, ("c0", "nothing"))
    spy.go("Hi.")
    store.broken = True
    messages = spy.talk.messages
    for number, form in enumerate(forms(kind)):
        messages += [{"role": "user", "content": "Go on"}, edited_call(wire, f"c_{number}", form)]
        messages += result(wire, (f"c_{number}", f"first {form} last"))
        spy.out.add("request", session.prepare(messages))
        spy.talk.absorb(Say(f"It is [[mem:{STORED[kind]}]]."))
        spy.note()
        messages.append({"role": "assistant", "content": "Fine."})
    spy.out.add("log", *(record.getMessage() for record in caplog.records))
    spy.out.check()


@pytest.mark.illegal
@pytest.mark.parametrize("kind", list(STORED))
def test_no_error_says_a_value(begin: Begin, ann: BoundScope, kind: str) -> None:
    spy, said = begin(), 0
    for attempt in errors(ann, spy, kind):
        try:
            attempt()
        except OffpromptError as exc:
            said += 1
            spy.out.add("error", str(exc), repr(exc), repr(exc.__cause__), str(exc.__cause__), repr(vars(exc)))
    assert said > 20
    spy.out.add("events", *ann.events(limit=10000))
    spy.out.check()


@pytest.mark.parametrize("kind", list(STORED))
def test_nothing_that_is_told_of_a_session_holds_what_was_said_of_a_secret(
    begin: Begin,
    ann: BoundScope,
    wire: Wire,
    kind: str,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A user, a model and tools say it, in words, in calls, as names and as handles."""
    caplog.set_level(logging.DEBUG)
    spy, text, own = begin("told"), TEXTS[kind][0][:240], VALUES[kind]
    name = re.sub(r"\W", "", TEXTS[kind][-1])[:40]
    coded = b64encode(text.encode()).decode()
    for said in (text, coded, compact({"k": own}), text.encode().hex(), text.upper()):
        spy.talk.turn(f"It is {said}, remember", call("mem_write", slot=f"{STORED[kind]}_2", value=said), f"So: {said}")
        spy.talk.turn("Send it", call("get", f"c{len(spy.talk.messages)}", text=said))
        spy.talk.messages += result(wire, (spy.talk.replies[-1].tool_calls[0].call_id, f"sent {said}"))
        spy.talk.go("Sent.")
    spy.talk.turn(
        "Read", calls(call("mem_read", slot=name), call("mem_read", slot=text), call("mem_forget", slot=name)), "No."
    )
    spy.talk.turn("Find", calls(call("mem_search", query=text), call("mem_write", slot=text, value="x")), "No.")
    spy.talk.turn(
        "Write", calls(call("mem_write", slot="x", val=text), call("mem_write", slot="y", value="1", scope=text)), "No."
    )
    spy.talk.turn("Handle", f"It is [[mem:{name}]], [[mem:{STORED[kind]}#/{name}]]")
    spy.talk.turn("Call", call("get", "bad", text=f"[[mem:{name}]]"), "No.")
    for reply in spy.talk.replies:
        spy.out.add("receipts", *reply.receipts)
        spy.out.add("warnings", list(reply.warnings))
    spy.talk.session.prepare([*spy.talk.messages, {"role": "user", "content": "last"}], show=[name])
    spy.out.add("ledger", *spy.talk.session.ledger())
    spy.out.add("events", *ann.events(limit=10000))
    spy.out.add("log", *(record.getMessage() for record in caplog.records))
    lines = [
        "trace told",
        "trace told --values",
        "audit",
        "audit --diagnose",
        "sessions",
        f"slot history {STORED[kind]} --user ann",
    ]
    lines += ["slot list --user ann", "slot list --user ann --within subtree", "slot rank --user ann"]
    for line in lines:
        for more in ([], ["--json"]):
            assert main([*line.split(), *more]) in (0, 1)
            printed = capsys.readouterr()
            spy.out.add(line, printed.out, printed.err)
    spy.out.check()
