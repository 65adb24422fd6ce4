"""What newcomers do wrong: each is said, with the way out, and nothing is half done."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from offprompt.errors import UnsupportedError, UsageError
from offprompt.service.bound import BoundScope
from tests.service.conftest import NewTalk
from tests.service.provider import taken
from tests.service.talk import MODELS, Say, Talk, Wire, as_reply, call, calls, result, tool

HELLO = [{"role": "user", "content": "My name is Bo"}]
OTHER: dict[Wire, Wire] = {"openai": "anthropic", "anthropic": "openai", "responses": "openai"}


def test_a_reply_of_the_other_wire_is_refused_and_writes_nothing(alice: BoundScope, wire: Wire) -> None:
    session = alice.session("s", model=MODELS[wire], wire=wire)
    taken(session, wire, HELLO)
    other = as_reply(call("mem_write", slot="user_name", value="Bo"), OTHER[wire])
    with pytest.raises(UsageError, match=f"pass wire='{OTHER[wire]}'"):
        session.absorb(other)
    assert alice.slots.get("user_name") is None


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"error": {"message": "rate limit"}}, "rate limit"),
        ({"choices": [{"delta": {"content": "x"}}]}, "absorb_stream"),
        ({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}, "tools="),
        ({"role": "assistant", "content": 5}, "content is a int"),
        ({"role": "assistant", "content": None, "tool_calls": [None]}, "names no function"),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}, "names no function"),
    ],
)
def test_what_is_no_reply_is_named(alice: BoundScope, reply: dict[str, Any], said: str) -> None:
    session = alice.session("s", model="gpt-4o-mini")
    taken(session, "openai", HELLO)
    with pytest.raises(UsageError, match=said):
        session.absorb(reply)


def test_anthropic_errors_and_events_are_named(alice: BoundScope) -> None:
    session = alice.session("s", model="claude-sonnet-5-5")
    taken(session, "anthropic", HELLO)
    with pytest.raises(UsageError, match="overloaded"):
        session.absorb({"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}})
    with pytest.raises(UsageError, match="absorb_stream"):
        session.absorb({"type": "message_start", "message": {}})


def test_a_call_without_arguments_has_empty_ones(alice: BoundScope) -> None:
    session = alice.session("s", model="gpt-4o-mini")
    taken(session, "openai", HELLO)
    called = {"id": "a", "type": "function", "function": {"name": "ping", "arguments": None}}
    reply = session.absorb({"role": "assistant", "content": None, "tool_calls": [called]})
    assert [(each.name, each.arguments) for each in reply.tool_calls] == [("ping", "{}")]


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([{"role": "user"}], r"messages\[0\] .*no content"),
        ([{"role": "user", "content": 5}], "content of type int"),
        ("hello", "not a list"),
        ({"role": "user", "content": "x"}, "not a list"),
        ([], "no message to send"),
    ],
)
def test_messages_that_are_none_are_named(alice: BoundScope, wire: Wire, messages: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        alice.session("s", model=MODELS[wire], wire=wire).prepare(messages)


def test_a_coroutine_and_a_stream_are_named(alice: BoundScope) -> None:
    async def create() -> dict[str, Any]:
        return {}

    session = alice.session("s", model="gpt-4o-mini")
    taken(session, "openai", HELLO)
    waiting = create()
    with pytest.raises(UsageError, match="await"):
        session.absorb(waiting)
    waiting.close()
    with pytest.raises(UnsupportedError, match="absorb_stream"):
        session.absorb(iter([]))


def test_a_session_stays_on_the_wire_that_it_began_on(alice: BoundScope, wire: Wire) -> None:
    """Its head and its messages are of that wire's shape."""
    began = alice.session("s", model=MODELS[wire], wire=wire)
    taken(began, wire, HELLO)
    other = alice.session("s", model=MODELS[OTHER[wire]], wire=OTHER[wire])
    for call_it in (lambda: other.prepare(HELLO), lambda: other.absorb(as_reply("Hi", OTHER[wire]))):
        with pytest.raises(UsageError, match=f"'s' began on the wire {wire}.*pass wire='{wire}'.*another session id"):
            call_it()
    assert began.record == other.record
    began.absorb(as_reply("Hi", wire))


def test_tools_are_checked(alice: BoundScope, wire: Wire) -> None:
    def opened(*tools: Any) -> None:
        alice.session("s", model=MODELS[wire], wire=wire, tools=list(tools))

    opened(tool("weather", wire))
    with pytest.raises(UsageError, match=f"wire='{OTHER[wire]}'"):
        opened(tool("weather", OTHER[wire]))
    with pytest.raises(UsageError, match="a name of Offprompt's own"):
        opened(tool("mem_read", wire))
    with pytest.raises(UsageError, match=r"tools\[0\] is a builtin"):
        opened(print)


def test_show_takes_a_list_and_unknown_names_are_warned_of(talk: NewTalk) -> None:
    one = talk()
    with pytest.raises(UsageError, match=r"show=\['city'\]"):
        one.session.prepare(HELLO, show="city")
    reply = one.turn("Hi", "Hello.", show=["nope"])
    assert any("nope" in warning for warning in reply.warnings)


def test_a_forgotten_reply_is_a_warning(talk: NewTalk) -> None:
    one = talk()
    one.turn("My name is Bo", "Hello Bo.")
    del one.messages[1:]
    one.messages.append({"role": "user", "content": "What now?"})
    one.requests.clear()
    one.prepare()
    assert any("reply.messages" in warning for warning in one.absorb("Hm.").warnings)


def test_a_reply_forgotten_within_the_loop_is_a_warning(talk: NewTalk) -> None:
    one = talk()
    one.messages.append({"role": "user", "content": "My name is Bo"})
    one.prepare()
    assert not one.absorb(call("mem_write", slot="user_name", value="Bo")).done
    one.prepare()
    assert any("reply.messages" in warning for warning in one.absorb("Hm.").warnings)


def test_a_repeated_request_an_edit_and_a_branch_are_no_forgetting(talk: NewTalk) -> None:
    one = talk()
    one.turn("First", "One.")
    one.turn("Second", "Two.")
    del one.messages[3:]
    one.requests.clear()
    assert one.go("Two again.").warnings == ()
    del one.messages[2:]
    one.messages.append({"role": "user", "content": "Second, edited"})
    one.requests.clear()
    assert one.go("Three.").warnings == ()


def test_one_id_for_two_calls_becomes_two(talk: NewTalk, wire: Wire) -> None:
    one = talk(tools=[tool("get", wire)])
    one.messages.append({"role": "user", "content": "Go"})
    one.prepare()
    reply = one.absorb(calls(call("mem_write", "dup", slot="city", value="Rome"), call("get", "dup", text="x")))
    (mine,) = reply.tool_calls
    assert mine.call_id != "dup"
    one.messages += [*reply.messages, *result(wire, (mine.call_id, "42"))]
    one.requests.clear()
    one.prepare()
    assert "saved city v1" in one.sent
    assert "42" in one.sent


def test_an_action_in_text_beside_a_call_of_the_clients_keeps_the_transcript_legal(talk: NewTalk, wire: Wire) -> None:
    one = talk(tools=[tool("get", wire)])
    one.messages.append({"role": "user", "content": "Go"})
    one.prepare()
    said = calls(call("get", "c1", text="x"), text='{"action":"mem_write","slot":"city","value":"Rome"}')
    reply = one.absorb(said)
    assert one.session.absorb(as_reply(said, wire)).messages == reply.messages, "again, the same"
    one.messages += [*reply.messages, *result(wire, ("c1", "42"))]
    one.requests.clear()
    one.prepare()
    assert "42" in one.sent
    assert [receipt.text for receipt in reply.receipts] == ["saved city v1"]
    asked = one.absorb(calls(call("get", "c2", text="x"), text='{"action":"mem_read","slot":"city"}'))
    assert any("no place for its answer" in warning for warning in asked.warnings)
    one.messages += [*asked.messages, *result(wire, ("c2", "43"))]
    one.prepare()


@pytest.mark.parametrize(
    "arguments", ['{"slot":"a","page":1e999}', '{"slot":"a","page":"²"}', '{"page":' + "9" * 5000 + "}"]
)
def test_numbers_that_are_none_are_refused_and_do_not_raise(talk: NewTalk, wire: Wire, arguments: str) -> None:
    if wire == "anthropic":
        return
    one = talk(tools=[tool("get", wire)])
    one.messages.append({"role": "user", "content": "Go"})
    one.prepare()
    reply = one.absorb(Say(calls=(("mem_read", arguments, "c1"),)))
    assert not any(receipt.ok for receipt in reply.receipts)
    one.prepare([*one.messages, *reply.messages])


def test_a_reply_that_comes_back_trimmed_is_known_again(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("motto", "Ça ira, ça ira, les aristocrates à la lanterne", policy="by_handle")
    one = talk()
    one.turn("What is my motto?", "  It is:\n[[mem:motto]].\n\n")
    kept = one.messages[-1]
    text = one.session._model.shape.text(kept)  # pyright: ignore[reportPrivateUsage]
    changed = unicodedata.normalize("NFD", text.replace("\n", "\r\n").strip())
    one.messages[-1] = {"role": "assistant", "content": changed}
    one.turn("Thanks", "Yes.")
    assert "[[mem:motto]]" in one.sent
    assert "aristocrates" not in one.sent


def test_secrets_are_scrubbed_from_every_block_that_is_read(alice: BoundScope) -> None:
    value = "Zx9-hunter2-qwerty"
    alice.write("api_key", value)
    one = Talk(alice.session("s", model=MODELS["anthropic"], tools=[tool("get", "anthropic")]), "anthropic")
    one.turn("Go", call("get", "c1", text="x"))
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": f"a {value}"},
        {"type": "document", "title": value, "source": {"type": "text", "media_type": "text/plain", "data": value}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": value}]}},
        {"type": "search_result", "title": "t", "source": "s", "content": [{"type": "text", "text": f"x {value}"}]},
    ]
    one.messages += result("anthropic", ("c1", blocks))
    one.prepare()
    assert value not in one.sent
    assert one.sent.count("[[mem:api_key]]") == 5


def test_a_whole_reply_that_ends_in_a_call_at_its_token_limit_runs_nothing(alice: BoundScope) -> None:
    session = alice.session("s", model=MODELS["anthropic"])
    taken(session, "anthropic", HELLO)
    said = Say(calls=(("mem_write", {"slot": "city", "value": "Ro"}, "c1"),), finish="max_tokens")
    reply = session.absorb(as_reply(said, "anthropic"))
    assert alice.slots.get("city") is None
    assert [refusal.name for refusal in reply.refused] == ["mem_write"]
