"""Trace: from the store alone, on both wires and both engines, without a value that is not to be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offprompt.records import canonical
from offprompt.service.stored_session import read_session
from offprompt.service.trace import Trace, Tracer
from tests.service.played import Played, Say, Start, Use, Wire, opened


@pytest.fixture(params=["openai", "anthropic"])
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


@pytest.fixture(params=[":memory:", "agent.db"])
def start(request: pytest.FixtureRequest, tmp_path: Path, wire: Wire) -> Iterator[Start]:
    memory, clock = opened(":memory:" if request.param == ":memory:" else tmp_path / request.param)

    def begin(**options: Any) -> Played:
        return Played(memory, clock, wire, options=options)

    yield begin
    memory.close()


def traced(talk: Played, *, values: bool = False, turn: int | None = None) -> Trace:
    return Tracer(talk.memory.parts.slots, talk.stored(), values=values).trace(turn)


def everything(found: Trace) -> str:
    return repr(found) + canonical(str(found))


def flags(found: Trace, turn: int = -1) -> list[tuple[str, str]]:
    return [(flag.slot, flag.fault) for flag in found.turns[turn].flags]


def test_a_turn_tells_words_request_reply_actions_receipts_and_events(start: Start) -> None:
    talk = start(capture="off")
    talk.ask(
        "Please note that I moved to Rotterdam",
        Use("mem_write", {"slot": "home_city", "value": "Rotterdam, south bank"}, "Saving."),
        Say("Saved."),
    )
    talk.clock.move(3600)
    talk.ask("Tell me a joke", Say("No."))
    first, second = traced(talk).turns
    assert first.user == "Please note that I moved to Rotterdam"
    assert [one.seq for one in first.rounds] == [1, 2]
    assert [one.seq for one in second.rounds] == [3]
    write, done = first.rounds
    assert write.raw == "Saving."
    assert [(one.name, one.arguments) for one in write.actions] == [
        ("mem_write", {"slot": "home_city", "value": "[[mem:home_city]]"})
    ]
    assert len(write.receipts) == 1
    assert "home_city v1" in write.receipts[0]
    assert done.raw == "Saved."
    assert done.receipts == ()
    assert ("slot.write", "home_city", 1, "model") in [(e.op, e.name, e.version, e.actor) for e in first.events]
    assert second.events == ()
    assert write.prefix == 0 < done.prefix
    assert done.sent.tokens == sum(size.tokens for size in done.parts.values()) > write.sent.tokens
    assert write.out.tokens > 0


def test_a_shown_value_stands_with_its_reason_in_the_turn_that_asked(start: Start) -> None:
    talk = start()
    talk.scope.write("city", "Rotterdam")
    talk.ask("Tell me a joke", Say("No."))
    talk.ask("Where do I live?", Say("You live in [[mem:city]]."))
    plain, asked = traced(talk).turns
    assert plain.rounds[0].shown == ()
    assert [(one.name, one.why) for one in asked.rounds[0].shown] == [("city", "alias place")]
    assert "shown" in asked.rounds[0].parts
    assert asked.flags == ()


def test_the_application_gone_and_another_process_reading(tmp_path: Path, wire: Wire) -> None:
    memory, clock = opened(tmp_path / "agent.db")
    talk = Played(memory, clock, wire)
    talk.ask("My name is Ming", Use("mem_write", {"slot": "user_name", "value": "Ming"}), Say("Noted."))
    memory.close()
    again, _ = opened(tmp_path / "agent.db")
    (record,) = again.parts.sessions.sessions(None)
    found = Tracer(again.parts.slots, read_session(again.parts.sessions, record)).trace()
    assert [one.name for one in found.turns[0].rounds[0].actions] == ["mem_write"]
    assert found.wire == wire
    again.close()


def test_what_is_refused_says_why_and_what_was_not_stored_is_not_told(start: Start) -> None:
    talk = start(actions="text")
    talk.ask("Save it", Say('{"action":"mem_write","slot":"pin_code","value":"four-five-six'), Say("ok"))
    one = traced(talk, values=True).turns[0].rounds[0]
    assert [refused.name for refused in one.refused] == ["mem_write"]
    assert one.refused[0].why
    assert any("not" in receipt for receipt in one.receipts)
    assert "four-five-six" not in everything(traced(talk, values=True))


def test_secrets_are_never_printed_other_values_on_request(start: Start) -> None:
    talk = start()
    talk.scope.write("door_code", "Blue-Falcon-7781", policy="never")
    talk.scope.write("login", {"user": "alice9", "word": "grüner Tee"}, policy="never")
    talk.scope.write("motto", "slow is smooth")
    talk.ask(
        'blue-falcon-7781 and Blue-Falcon-7781, then "grüner Tee" or alice9; slow is smooth, 慢就是稳',
        Use("mem_write", {"slot": "password", "value": "correct horse battery"}, "Blue-Falcon-7781 it is"),
        Use("lookup", {"code": "Blue-Falcon-7781", "word": "gr\\u00fcner Tee", "motto": "slow is smooth"}),
        Say("Blue-Falcon-7781, correct horse battery, slow is smooth."),
    )
    told, hidden = everything(traced(talk, values=True)), everything(traced(talk))
    for secret in ("alcon-7781", "grüner Tee", "alice9", "horse battery"):
        assert secret not in told
        assert secret not in hidden
    assert "slow is smooth" in told
    assert "slow is smooth" not in hidden
    assert "[[mem:motto]]" in hidden
    assert "[[mem:door_code]]" in told


def test_an_old_version_and_a_forgotten_secret_of_the_models_are_hidden_too(start: Start) -> None:
    talk = start()
    for value in ("first-old-value", "second-new-value"):
        talk.ask(f"keep {value}", Use("mem_write", {"slot": "api_key", "value": value}), Say(f"kept {value}"))
    talk.scope.forget("api_key")
    told = everything(traced(talk, values=True))
    assert "old-value" not in told
    assert "new-value" not in told


def test_old_versions_of_the_applications_values_are_hidden_too(start: Start) -> None:
    talk = start()
    for value, motto in (("Herring-Gull-41", "gulls fly high"), ("Black-Tern-52", "terns fly high")):
        talk.scope.write("door_code", value, policy="never")
        talk.scope.write("motto", motto, policy="by_handle")
    talk.ask("Herring-Gull-41: gulls fly high", Say("Black-Tern-52, gulls fly high, terns fly high"))
    told = everything(traced(talk, values=True))
    assert "ull-41" not in told
    assert "ern-52" not in told
    assert "fly high" in told
    assert "fly high" not in everything(traced(talk))


def test_a_secret_behind_another_slot_of_its_name_is_hidden_too(start: Start) -> None:
    talk = start()
    talk.scope.write("door_code", "Herring-Gull-41", policy="never")
    talk.scope.narrow(session="s1").write("door_code", "open to all", policy="when_asked")
    talk.ask("Herring-Gull-41, open to all", Say("Herring-Gull-41, open to all"))
    told = everything(traced(talk, values=True))
    assert "ull-41" not in told
    assert "open to all" in told


def test_a_key_by_its_form_is_masked_wherever_it_stands(start: Start) -> None:
    talk = start()
    talk.ask("my key is sk-proj-abcdefghijklmnop1234", Say("I do not keep that."))
    assert "abcdefghijklmnop" not in everything(traced(talk, values=True))


@pytest.mark.parametrize(
    ("slot", "value", "question", "answer", "fault"),
    [
        ("user_name", "Ming Zhao", "What is my name?", "I don't know your name.", "says_unknown"),
        ("user_name", "Ming Zhao", "What is my name?", "Your name is Robert.", "states_other"),
        ("user_name", "Ming Zhao", "What is my name?", "Nice weather today.", "not_used"),
        ("user_name", "赵明", "我叫什么名字？", "没有记录。", "says_unknown"),
        ("user_name", "赵明", "我叫什么名字？", "你的名字是李雷。", "states_other"),
        ("user_name", "赵明", "我叫什么名字？", "今天天气不错。", "not_used"),
        ("city", "苏州", "我住在哪里？", "你住在北京。", "states_other"),
        ("city", "Rotterdam", "Which city do I live in?", "You live in Utrecht.", "states_other"),
    ],
)
def test_an_answer_that_contradicts_what_was_shown_is_flagged(
    start: Start, slot: str, value: str, question: str, answer: str, fault: str
) -> None:
    talk = start()
    talk.scope.write(slot, value)
    talk.ask(question, Say(answer))
    assert flags(traced(talk)) == [(slot, fault)]


@pytest.mark.parametrize(
    ("slot", "value", "question", "answer"),
    [
        ("user_name", "Ming Zhao", "What is my name?", "You told me: Ming Zhao."),
        ("user_name", "Ming Zhao", "What is my name?", "It is [[mem:user_name]]."),
        ("user_name", "Ming Zhao", "What is my name?", "Ming!"),
        ("user_name", "赵明", "我叫什么名字？", "你叫赵明。"),
        ("user_name", "赵明", "我叫什么名字？", "[[mem:user_name]]，你好。"),
        ("user_name", "Ming Zhao", "Tell me a joke", "I don't know any."),
        ("user_name", "Ming Zhao", "讲个笑话", "不知道。"),
    ],
)
def test_an_answer_that_fits_is_not_flagged(start: Start, slot: str, value: str, question: str, answer: str) -> None:
    talk = start()
    talk.scope.write(slot, value)
    talk.ask(question, Say(answer))
    assert flags(traced(talk)) == []


def test_a_value_that_was_read_and_denied_is_flagged_even_if_it_changed_since(start: Start) -> None:
    talk = start()
    talk.scope.write("budget", "40000 yuan", policy="by_handle")
    talk.ask("Go on", Use("mem_read", {"slot": "budget"}), Say("The budget is 90000 yuan."))
    talk.clock.move(60)
    talk.scope.write("budget", "90000 yuan")
    assert flags(traced(talk)) == [("budget", "states_other")]


def test_a_value_that_the_turn_replaced_is_no_contradiction(start: Start) -> None:
    talk = start()
    talk.scope.write("home_city", "Rotterdam", tags=["city"])
    talk.ask(
        "My city is Utrecht now, which city do you have?",
        Use("mem_write", {"slot": "home_city", "value": "Utrecht"}),
        Say("Your home city is Utrecht."),
    )
    assert flags(traced(talk)) == []


def test_a_turn_that_replaces_a_value_need_not_say_it(start: Start) -> None:
    talk = start()
    talk.scope.write("city", "Rotterdam")
    talk.ask("My city is Utrecht now", Use("mem_write", {"slot": "city", "value": "Utrecht"}), Say("Noted."))
    assert [shown.name for shown in traced(talk).turns[0].rounds[0].shown] == ["city"]
    assert flags(traced(talk)) == []


def test_a_value_that_the_application_replaced_meanwhile_fits_either_way(start: Start) -> None:
    talk = start()
    talk.scope.write("city", "Rotterdam")
    talk.clock.move(1)
    for written, answer in (("Utrecht", "You live in Utrecht."), ("Delft", "You live in Utrecht.")):
        talk.messages.append({"role": "user", "content": "Where do I live?"})
        talk.session.prepare(talk.messages)
        talk.clock.move(1)
        talk.scope.write("city", written)
        talk.clock.move(1)
        talk.messages += talk.session.absorb(talk.reply(Say(answer))).messages
        assert flags(traced(talk)) == []
        talk.clock.move(1)


def test_a_value_handed_to_a_tool_was_used(start: Start) -> None:
    talk = start(tools=[])
    talk.scope.write("home_city", "Rotterdam", tags=["city"])
    talk.ask("Weather in my city?", Use("weather", {"place": "[[mem:home_city]]"}), Say("Sunny, 20 degrees."))
    found = traced(talk)
    assert [(call.name, "[[mem:home_city]]" in call.arguments) for call in found.turns[0].rounds[0].calls] == [
        ("weather", True)
    ]
    assert flags(found) == []


def test_a_request_without_a_reply_is_said_to_wait_and_then_to_have_none(start: Start) -> None:
    talk = start()
    talk.session.prepare([{"role": "user", "content": "Hello"}])
    assert [one.outcome for one in traced(talk).turns[0].rounds] == ["waiting"]
    talk.clock.move(5)
    talk.ask("Hello", Say("Hi."))
    found = [(one.outcome, one.raw) for turn in traced(talk).turns for one in turn.rounds]
    assert found == [("no reply", ""), ("ok", "Hi.")]


def test_regenerating_and_editing_keep_each_reply_with_its_request(start: Start) -> None:
    talk = start()
    talk.ask("One", Say("first"))
    talk.messages = []
    talk.ask("One", Say("second"))
    talk.messages = []
    talk.ask("One, edited", Say("third"))
    raws = [(turn.number, turn.user, one.raw) for turn in traced(talk).turns for one in turn.rounds]
    assert raws == [(1, "One", "first"), (1, "One", "second"), (2, "One, edited", "third")]


def test_events_of_the_users_other_sessions_are_not_this_ones(start: Start) -> None:
    talk = start()
    other = Played(talk.memory, talk.clock, talk.wire, name="s2")
    talk.ask("Hello", Say("Hi."))
    other.ask("Note it", Use("mem_write", {"slot": "other_thing", "value": "of the other session"}), Say("ok"))
    talk.scope.write("from_app", "written by the application")
    talk.clock.move(1)
    talk.ask("Bye", Say("Bye."))
    names = [event.name for turn in traced(talk).turns for event in turn.events]
    assert "from_app" in names
    assert "other_thing" not in names


def test_one_turn_only_and_long_words_are_cut_after_they_were_hidden(start: Start) -> None:
    talk = start()
    talk.scope.write("secret_word", "abracadabra-hocus-pocus", policy="never")
    talk.ask("x" * 90 + " abracadabra-hocus-pocus " + "y" * 90, Say("ok"))
    talk.ask("second", Say("ok"))
    assert [turn.number for turn in traced(talk, turn=2).turns] == [2]
    words = traced(talk, turn=1).turns[0].user
    assert len(words) <= 100
    assert "abra" not in words
