"""What is known of a user is a list that the user can see, correct, pin and forget; asked for it, the model sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from offprompt.errors import NotFoundError, UsageError
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock

SECRET = "s3cret-value-xyz"  # noqa: S105 - what tests look for


@pytest.fixture
def scope(mem: Offprompt, clock: MovedClock) -> BoundScope:
    own = mem.scope(user="alice")
    own.remember([{"role": "user", "content": "I live in Porto and my dog is called Rex. I am vegan."}])
    clock.move(1)
    own.remember("我喜欢喝绿茶。")
    clock.move(1)
    own.write("token", SECRET, policy="never")
    mem.scope(user="bob").remember("Bob plays the cello.")
    return own


def texts(scope: BoundScope) -> dict[str, str]:
    return {one.name if one.kind == "slot" else one.kind: one.text for one in scope.known()}


def test_each_thing_is_told_once_and_no_secret(scope: BoundScope) -> None:
    told = [(one.kind, one.text) for one in scope.known()]
    assert ("slot", "Porto") in told
    assert ("slot", "vegan") in told
    assert ("fact", "我喜欢喝绿茶。") in told
    assert ("fact", "The user's dog is named Rex.") in told
    assert [one.text for one in scope.known() if one.name == "token"] == [""]
    assert not any("Porto" in text for kind, text in told if kind == "fact")
    assert not any("cello" in text or SECRET in text for _, text in told)
    assert [one.at for one in scope.known()] == sorted((one.at for one in scope.known()), reverse=True)
    assert len(scope.known(limit=2)) == 2
    with pytest.raises(UsageError, match="limit=0"):
        scope.known(limit=0)


def test_a_part_of_the_profile_is_corrected_with_its_fact(scope: BoundScope) -> None:
    assert scope.correct("home", "Lisbon").text == "Lisbon"
    assert texts(scope)["home"] == "Lisbon"
    assert scope.correct("diet", "vegetarian").text == "vegetarian"
    assert texts(scope)["diet"] == "vegetarian"
    assert not any("Porto" in one.text or "vegan" in one.text for one in scope.known())
    assert [
        hit.text
        for hit in scope.recall("Where does the user live?")
        if "Porto" in hit.text and hit.memory.kind == "fact"
    ] == []


def test_the_newest_are_listed_however_many_there_are(scope: BoundScope, clock: MovedClock) -> None:
    scope.remember([f"fact number {number} of many" for number in range(1200)], derive="none")
    clock.move(1)
    scope.remember("The very newest one.", derive="none")
    assert scope.known(limit=1)[0].text == "The very newest one."
    assert len(scope.known(limit=5000)) > 1200


def test_a_name_is_one_thing_whoever_says_it(scope: BoundScope, clock: MovedClock) -> None:
    clock.move(1)
    scope.remember([{"role": "user", "content": "My name is Ann. I am 3 years old, and 3 of my cats are called Tom."}])
    clock.move(1)
    for attribute, value in (("name", "Anna"), ("user_name", "Annie")):
        clock.move(1)
        scope.upsert_fact("user", attribute, value)
        assert scope.read("user_name") == value
        assert [one.text for one in scope.known() if "Ann" in one.text] == [value]
    scope.upsert_fact("user", "storage", "3 GB")
    assert "user storage: 3 GB" in [one.text for one in scope.known()]
    clock.move(1)
    assert scope.correct("user_name", "Bea").text == "Bea"
    assert not any("Ann" in one.text for one in scope.known())


def test_a_fact_is_corrected_pinned_and_forgotten_by_its_name(scope: BoundScope) -> None:
    tea = next(one for one in scope.known() if "绿茶" in one.text)
    assert scope.correct(tea.name, "我喜欢喝红茶。").text == "我喜欢喝红茶。"
    assert scope.pin(tea.name).pinned
    assert scope.known()[0].name == tea.name
    assert not scope.pin(tea.name, pinned=False).pinned
    scope.forget(tea.name)
    assert tea.name not in {one.name for one in scope.known()}
    with pytest.raises(NotFoundError, match="no fact 'home'"):
        scope.pin("home")
    with pytest.raises(NotFoundError, match="spelled alike: home"):
        scope.correct("hoem", "Lisbon")
    assert "hoem" not in {one.name for one in scope.known()}
    with pytest.raises(NotFoundError):
        scope.correct("m_01m8qfr953qkm45zyzeb42xaah", "x")


def test_a_business_system_puts_its_facts(scope: BoundScope, clock: MovedClock) -> None:
    scope.upsert_fact("user", "plan", "pro")
    clock.move(1)
    done = scope.upsert_fact("user", "plan", "free", text="The user has the free plan since June.")
    assert len(done.replaced) == 1
    assert [one.text for one in scope.known() if "plan" in one.text] == ["The user has the free plan since June."]
    late = scope.upsert_fact("user", "plan", "trial", event_at=5.0)
    assert late.outcome == "superseded"
    scope.upsert_fact("User", "home", "上海")
    assert scope.read("home") == "上海"
    assert scope.upsert_fact("Acme Ltd", "contact", "Ann").text == "Acme Ltd contact: Ann"
    for wrong in (("", "plan", "x"), ("user", " ", "x"), ("user", "plan", ""), ("user", "plan" * 100, "x")):
        with pytest.raises(UsageError):
            scope.upsert_fact(*wrong)


@pytest.mark.parametrize("asked", ["What do you know about me?", "你记得我什么？"])
def test_who_asks_what_is_known_is_shown_it(scope: BoundScope, asked: str) -> None:
    session = scope.session("s9", model="gpt-4o-mini")
    said = str(session.prepare([{"role": "user", "content": asked}])["messages"])
    for text in ("Porto", "vegan", "Rex", "绿茶"):
        assert text in said
    assert SECRET not in said
    assert "cello" not in said


@pytest.mark.parametrize("asked", ["What do you know about Porto?", "帮我写首诗。", "Thanks!"])
def test_nothing_of_it_is_shown_to_who_asks_for_something_else(scope: BoundScope, asked: str) -> None:
    session = scope.session("s9", model="gpt-4o-mini")
    sent: list[Any] = session.prepare([{"role": "user", "content": asked}])["messages"]
    assert "绿茶" not in str(sent)
    assert "Rex" not in str(sent)


def test_who_forgets_a_part_of_the_profile_forgets_its_fact(scope: BoundScope) -> None:
    """By the library and over the network as by a model: what the slot said is not known by another name."""
    scope.forget("home")
    scope.slots.forget("diet")
    assert not any("Porto" in one.text or "vegan" in one.text for one in scope.known())
    assert [one.text for one in scope.memories.list(kinds=["fact"]) if "Porto" in one.text] == []


@pytest.mark.parametrize(
    ("action", "given"), [("mem_forget", {"slot": "home"}), ("mem_write", {"slot": "home", "value": "Lisbon"})]
)
def test_what_a_model_forgets_or_corrects_is_not_known_by_its_fact(
    scope: BoundScope, action: str, given: dict[str, str]
) -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": action, "arguments": json.dumps(given)}}]
    messages = [{"role": "assistant", "content": None, "tool_calls": calls}, {"role": "assistant", "content": "Done."}]

    def call(**_: Any) -> Any:
        return {"choices": [{"message": messages.pop(0), "finish_reason": "stop", "index": 0}]}

    scope.session("s", model="gpt-4o-mini").complete(call, [{"role": "user", "content": "That is wrong, mend it."}])
    assert not any("Porto" in one.text for one in scope.known())
    assert [one.text for one in scope.known() if one.name == "home"] == [
        value for name, value in given.items() if name == "value"
    ]
