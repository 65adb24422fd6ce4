"""A language model reads turns for facts: what holds is stored with the mark of its turns, what does not is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from offprompt import BackendError, BudgetError
from offprompt.protocols import EmbedKind, apply
from offprompt.records import PENDING, Completion, Memory, Unindexed
from offprompt.service.bound import BoundScope
from offprompt.service.extract_reading import Rules
from offprompt.service.extracting import Extracted, Extractor
from offprompt.service.memory_kit import MemoryKit
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from tests.service.conftest import NewTalk
from tests.service.read import Answer, FakeReader, Request, answer, decision, nothing, trouble
from tests.service.talk import call

TEA = "I only drink oolong in the afternoon."
DOG = "Our dog Rex is afraid of thunder."
ZH = "我下个月要搬到杭州。"


def kit_of(scope: BoundScope) -> MemoryKit:
    return scope._parts.memories.kit  # pyright: ignore[reportPrivateUsage]


def extractor(scope: BoundScope, reader: FakeReader, rules: Rules | None = None) -> Extractor:
    return Extractor(kit_of(scope), scope.scope, reader, rules)


def extract(scope: BoundScope, *answers: Answer, **options: Any) -> tuple[Extracted, FakeReader]:
    reader = FakeReader(list(answers))
    return extractor(scope, reader, options.pop("rules", None)).run(**options), reader


def said(scope: BoundScope, *texts: str, session: str = "s1") -> None:
    """Turns of the user, without rules."""
    messages = [{"role": "user", "content": text} for text in texts]
    scope.narrow(session=session).remember(messages, derive="none")


def facts(scope: BoundScope, **options: Any) -> list[Memory]:
    return list(scope.memories.list(kinds=["fact"], **options))


def texts(scope: BoundScope) -> list[str]:
    return [fact.text for fact in facts(scope)]


def marks(scope: BoundScope) -> dict[str, str]:
    return {one.text: one.extracted for one in scope.memories.list(kinds=["episode"])}


def events(scope: BoundScope) -> list[tuple[str, str]]:
    return [(event.op.removeprefix("extract."), event.outcome) for event in scope.events(op="extract.")]


@pytest.fixture
def bob(mem: Offprompt) -> BoundScope:
    return mem.scope(user="bob")


def tea(request: Request) -> dict[str, Any]:
    add = decision(
        "ADD", request.turn("oolong"), "drink oolong in the afternoon", "The user drinks oolong in the afternoon."
    )
    others = [line["turn"] for line in request.turns if "oolong" not in line["text"]]
    return answer(add, *([decision("NONE", turns=others)] if others else []))


def test_a_fact_is_stored_with_its_words_and_its_turn(bob: BoundScope) -> None:
    said(bob, TEA, "Hello again.")
    found, reader = extract(bob, tea)
    assert (found.read, found.added, found.calls, found.waiting, found.stopped) == (2, 1, 1, 0, "")
    assert (found.input_tokens, found.output_tokens) == (100, 10)
    (fact,) = facts(bob)
    turn = next(one for one in bob.memories.list(kinds=["episode"]) if one.text == TEA)
    assert (fact.text, fact.quote) == ("The user drinks oolong in the afternoon.", "drink oolong in the afternoon")
    assert (fact.source, fact.actor, fact.trust, fact.source_id) == ("model", "extract", "user", turn.memory_id)
    assert (fact.rule, fact.metadata["model"], fact.session) == ("extract-1.en", "fake-1", "s1")
    assert marks(bob) == {TEA: "extract-1.en", "Hello again.": "extract-1.en"}
    assert extract(bob, nothing)[0].calls == 0
    assert len(reader.requests) == 1
    assert "oolong" in bob.recall("what do I drink in the afternoon?")[0].text


def test_in_chinese(bob: BoundScope) -> None:
    said(bob, ZH)

    def move(request: Request) -> dict[str, Any]:
        turn = request.turn("杭州")
        return answer(decision("ADD", turn, "搬到杭州", "用户计划搬到杭州。", speaker="用户", about="用户"))

    found, reader = extract(bob, move)
    assert (found.added, texts(bob)) == (1, ["用户计划搬到杭州。"])
    assert facts(bob)[0].rule == "extract-1.zh"
    assert "长期记忆" in reader.requests[0].messages[0]["content"]


def test_half_of_the_facts_are_invented(bob: BoundScope) -> None:
    said(bob, TEA, DOG)

    def half(request: Request) -> dict[str, Any]:
        rex, oolong = request.turn("Rex"), request.turn("oolong")
        return answer(
            decision("ADD", rex, "afraid of thunder", "The user's dog Rex is afraid of thunder."),
            decision("ADD", rex, "afraid of thunder", "The user's cat Minka is afraid of thunder."),
            decision("ADD", oolong, "drink oolong in the afternoon", "The user drinks oolong in the afternoon."),
            decision("ADD", oolong, "I hate coffee", "The user hates coffee."),
            decision("ADD", oolong, "drink oolong", "The user drinks espresso."),
            decision("ADD", oolong, "drink oolong", "用户喝乌龙茶。"),
            decision("UPDATE", oolong, "drink oolong", "The user drinks oolong.", memory=17),
            decision("ADD", 99, "drink oolong", "The user drinks oolong."),
        )

    found, _ = extract(bob, half)
    assert (found.added, found.read) == (2, 2)
    assert found.dropped == {"invented": 2, "span": 1, "language": 1, "number": 1, "turn": 1}
    assert len(texts(bob)) == 2
    assert not any("Minka" in text or "coffee" in text or "espresso" in text for text in texts(bob))
    assert sorted(outcome for op, outcome in events(bob) if op == "drop") == sorted(
        ["invented", "invented", "span", "language", "number", "turn"]
    )


@pytest.mark.parametrize(
    "bad", ["I remember nothing.", '{"decisions": [', '{"decisions": []}', "[]", "", '{"facts": ["x"]}']
)
def test_a_bad_answer_is_asked_for_once_more_with_the_error(bob: BoundScope, bad: str) -> None:
    said(bob, TEA)
    found, reader = extract(bob, bad, tea)
    assert (found.added, found.calls, found.pending) == (1, 2, 0)
    first, again = reader.requests
    assert list(again.messages[: len(first.messages)]) == list(first.messages)
    assert "could not be used" in again.messages[-1]["content"]


def test_near_json_is_repaired_without_a_second_call(bob: BoundScope) -> None:
    said(bob, TEA)
    near = (
        "Sure! Here it is:\n```json\n{'decisions': [{'action': 'ADD', 'memory': 0, 'turns': [1], 'speaker': 'user', "
        "'quote': 'drink oolong', 'about': 'user', 'text': 'The user drinks oolong.',},]}\n```\nAnything else?"
    )
    found, _ = extract(bob, near)
    assert (found.added, found.calls) == (1, 1)


def test_one_turn_that_spoils_the_answer_is_set_aside_and_the_others_are_read(bob: BoundScope) -> None:
    said(bob, "one", TEA, "POISON", DOG, "five")

    def poisoned(request: Request) -> Any:
        if any("POISON" in line["text"] for line in request.turns):
            return "no"
        return tea(request) if any("oolong" in line["text"] for line in request.turns) else nothing(request)

    found, _ = extract(bob, poisoned)
    assert (found.read, found.pending, found.added, found.waiting, found.stopped) == (4, 1, 1, 0, "")
    assert marks(bob)["POISON"] == PENDING
    assert ("pending", "pending") in events(bob)
    assert extract(bob, nothing)[0].calls == 0
    later, _ = extract(bob, nothing, pending=True)
    assert (later.read, marks(bob)["POISON"]) == (1, "extract-1.en")


def test_an_answer_that_was_cut_is_asked_for_in_halves(bob: BoundScope) -> None:
    said(bob, TEA, DOG)

    def cut(request: Request) -> Any:
        return Completion('{"decisions": [{"act', finish="length") if len(request.turns) > 1 else nothing(request)

    found, reader = extract(bob, cut)
    assert (found.read, found.pending, [len(one.turns) for one in reader.requests]) == (2, 0, [2, 1, 1])


def test_a_model_that_does_not_do_the_work_is_stopped(bob: BoundScope) -> None:
    said(bob, *(f"This is turn number {number}." for number in range(40)))
    found, reader = extract(bob, "I cannot do that.")
    assert "choose another model" in found.stopped
    assert len(reader.requests) == 16
    assert found.read == 0
    assert found.pending + found.waiting == 40
    assert list(marks(bob).values()).count("") == found.waiting


def test_an_answer_of_which_nothing_holds_leaves_its_turns_pending(bob: BoundScope) -> None:
    said(bob, TEA, DOG)
    found, reader = extract(bob, answer(decision("ADD", 1, "I love opera", "The user loves opera.")))
    assert (found.pending, found.calls, texts(bob)) == (2, 2, [])
    assert "span" in reader.requests[1].messages[-1]["content"]
    assert set(marks(bob).values()) == {PENDING}


@pytest.mark.parametrize(
    "error",
    [
        trouble(),
        trouble("timeout"),
        BudgetError("tokens of the day", used=11, limit=10, unit="tokens", way_out="raise it", retry_after_s=60),
    ],
    ids=["429", "timeout", "budget"],
)
def test_trouble_stops_the_run_and_the_turns_wait(bob: BoundScope, error: Exception) -> None:
    said(bob, TEA, DOG)
    found, _ = extract(bob, error)
    assert (found.read, found.pending, found.waiting, found.stopped) == (0, 0, 2, str(error))
    assert set(marks(bob).values()) == {""}
    (event,) = bob.events(op="extract.")
    assert (event.op, event.scope.session) == ("extract.wait", "s1")
    assert event.outcome == found.cause == ("budget" if isinstance(error, BudgetError) else "trouble")
    later, _ = extract(bob, tea)
    assert (later.read, texts(bob)) == (2, ["The user drinks oolong in the afternoon."])


def test_what_was_read_before_the_trouble_stays(bob: BoundScope) -> None:
    said(bob, *(f"turn {number}" for number in range(25)))
    found, _ = extract(bob, nothing, trouble())
    assert (found.read, found.waiting) == (20, 5)
    later, reader = extract(bob, nothing)
    assert (later.read, len(reader.requests[0].turns)) == (5, 5)


def test_turns_that_the_answer_passes_over_are_read_once_more(bob: BoundScope) -> None:
    said(bob, TEA, DOG, "three")
    lazy = [answer(decision("NONE", 1)), answer(decision("NONE", 1))]
    found, reader = extract(bob, *lazy)
    assert [len(one.turns) for one in reader.requests] == [3, 2]
    assert (found.read, found.passed_over) == (3, 1)
    assert set(marks(bob).values()) == {"extract-1.en"}


def test_a_fact_is_changed_replaced_and_taken_back(bob: BoundScope, clock: MovedClock) -> None:
    bob.remember(
        ["Works at the bakery in Main Street.", "Cycles to work.", "Wants a reminder each Monday."], derive="none"
    )
    work, cycles, reminder = facts(bob)
    clock.move(10)
    said(
        bob,
        "I quit the bakery and work at the harbour office now.",
        "I cycle to work even in winter.",
        "Forget the reminder on Mondays.",
    )

    def change(request: Request) -> dict[str, Any]:
        return answer(
            decision(
                "SUPERSEDE",
                request.turn("harbour"),
                "work at the harbour office now",
                "The user works at the harbour office.",
                memory=request.fact("bakery"),
            ),
            decision(
                "UPDATE",
                request.turn("winter"),
                "cycle to work even in winter",
                "Cycles to work even in winter.",
                memory=request.fact("Cycles"),
            ),
            decision("FORGET", request.turn("Forget"), "Forget the reminder", memory=request.fact("reminder")),
        )

    found, _ = extract(bob, change)
    assert (found.superseded, found.updated, found.forgotten, found.dropped) == (1, 1, 1, {})
    assert texts(bob) == ["Cycles to work even in winter.", "The user works at the harbour office."]
    (old,) = facts(bob, states=["superseded"])
    assert (old.memory_id, old.superseded_by) == (work.memory_id, facts(bob)[1].memory_id)
    assert [one.text for one in bob.memories.history(cycles.memory_id)] == [
        "Cycles to work.",
        "Cycles to work even in winter.",
    ]
    assert bob.memories.undo(reminder.memory_id) == 1


def test_what_rules_knew_gives_way_by_the_same_rule_and_leaves_the_profile(bob: BoundScope, clock: MovedClock) -> None:
    bob.remember([{"role": "user", "content": "I live in Porto."}])
    assert bob.read("home") == "Porto"
    clock.move(10)
    said(bob, "Since June Porto is behind me, Berlin is my place now.")

    def move(request: Request) -> dict[str, Any]:
        turn = request.turn("Berlin")
        none = [line["turn"] for line in request.turns if line["turn"] != turn]
        return answer(
            decision(
                "SUPERSEDE", turn, "Berlin is my place now", "The user lives in Berlin.", memory=request.fact("Porto")
            ),
            *([decision("NONE", turns=none)] if none else []),
        )

    found, _ = extract(bob, move)
    assert (found.superseded, texts(bob)) == (1, ["The user lives in Berlin."])
    assert (facts(bob)[0].subject, facts(bob)[0].attribute) == ("user", "home")
    assert bob.slots.get("home") is None


def test_the_same_turns_are_not_stored_twice_by_two_at_once(bob: BoundScope) -> None:
    said(bob, TEA)
    other: list[Extracted] = []

    def meanwhile(request: Request) -> dict[str, Any]:
        if not other:
            other.append(extract(bob, tea)[0])
        return answer(decision("ADD", request.turn("oolong"), "only drink oolong", "The user drinks only oolong."))

    found, _ = extract(bob, meanwhile)
    assert (other[0].added, found.added, found.read) == (1, 0, 0)
    assert texts(bob) == ["The user drinks oolong in the afternoon."]


def test_what_is_forgotten_while_it_is_read_leaves_nothing(bob: BoundScope) -> None:
    said(bob, TEA, DOG)

    def meanwhile(request: Request) -> dict[str, Any]:
        turns = [one for one in bob.memories.list(kinds=["episode"]) if one.text == TEA]
        if turns:
            bob.memories.forget(turns[0].memory_id)
            return tea(request)
        return nothing(request)

    found, reader = extract(bob, meanwhile)
    assert (found.added, found.read, texts(bob)) == (0, 1, [])
    assert "oolong" not in reader.requests[-1].messages[1]["content"]


@pytest.mark.parametrize("action", ["UPDATE", "SUPERSEDE", "FORGET"])
@pytest.mark.parametrize("how", ["changed", "forgotten"])
def test_a_fact_that_changes_while_it_is_read_is_not_overwritten(
    bob: BoundScope, clock: MovedClock, action: str, how: str
) -> None:
    name = bob.remember("Drinks black tea in the afternoon.", derive="none")[0].name
    clock.move(10)
    said(bob, "Forget tea, I drink oolong in the afternoon.")

    def meanwhile(request: Request) -> dict[str, Any]:
        if not any("black" in line["text"] for line in request.known):
            return nothing(request)
        if how == "changed":
            bob.memories.update(name, text="Drinks green tea in the morning.")
        else:
            bob.forget(name)
        turn = request.turn("oolong")
        quote = "Forget tea" if action == "FORGET" else "drink oolong in the afternoon"
        text = "" if action == "FORGET" else "The user drinks oolong in the afternoon."
        return answer(decision(action, turn, quote, text, memory=request.fact("black")))

    found, reader = extract(bob, meanwhile)
    assert (len(reader.requests), found.read, found.stopped) == (2, 1, "")
    assert (found.updated, found.superseded, found.forgotten, found.dropped) == (0, 0, 0, {})
    assert texts(bob) == (["Drinks green tea in the morning."] if how == "changed" else [])


def test_a_fact_goes_with_the_turn_that_it_was_read_in(bob: BoundScope) -> None:
    said(bob, TEA)
    extract(bob, tea)
    turn = bob.memories.list(kinds=["episode"])[0]
    bob.forget(turn.memory_id)
    assert texts(bob) == []


def test_secrets_and_numbers_never_reach_the_model(bob: BoundScope) -> None:
    bob.write("safe_code", "blue-fjord-7731", policy="never")
    said(bob, "My safe opens with blue-fjord-7731.", "My card is 4111 1111 1111 1111.")
    bob.remember("The safe code is blue-fjord-7731.", derive="none")

    def leak(request: Request) -> dict[str, Any]:
        number = request.turn("safe")
        return answer(
            decision(
                "ADD", number, "safe opens with [[mem:safe_code]]", "The user's safe opens with [[mem:safe_code]]."
            ),
            decision("NONE", turns=[1, 2]),
        )

    found, reader = extract(bob, leak)
    given = reader.requests[0].messages[1]["content"]
    assert "fjord" not in given
    assert "4111" not in given
    assert "[[mem:safe_code]]" in given
    assert found.dropped == {"secret": 1}


def test_only_what_users_said_is_read_and_never_what_was_shown(talk: NewTalk, alice: BoundScope) -> None:
    alice.write("plan", "walk to Graz")
    one = talk(derive="none")
    one.turn("Hello there", "What may I do for you?")
    one.turn("Read my plan", call("mem_read", slot="plan"), "You will walk to Graz.")
    one.turn("Thanks, and I only drink oolong in the afternoon.", "Noted.")
    found, reader = extract(alice, tea)
    given = reader.requests[0]
    assert [line["text"] for line in given.turns] == [
        "Hello there",
        "Read my plan",
        "Thanks, and I only drink oolong in the afternoon.",
    ]
    assert given.turns[1]["answers"] == "What may I do for you?"
    assert "Graz" not in given.messages[1]["content"]
    assert (found.added, found.read) == (1, 3)


def test_named_speakers_keep_their_own(bob: BoundScope) -> None:
    turns = [
        {"role": "user", "name": name, "content": f"I {verb} opera."}
        for name, verb in (("Ann", "love"), ("Tom", "hate"))
    ]
    bob.remember(turns, derive="none")

    def mixed(request: Request) -> dict[str, Any]:
        ann, tom = request.turn("love"), request.turn("hate")
        return answer(
            decision("ADD", ann, "I love opera", "Tom loves opera.", speaker="Tom", about="Tom"),
            decision("ADD", tom, "I hate opera", "Tom hates opera.", speaker="Tom", about="Tom"),
            decision("ADD", ann, "I love opera", "Ann loves opera.", speaker="Ann", about="Ann"),
        )

    found, _ = extract(bob, mixed)
    assert found.dropped == {"speaker": 1}
    assert {(fact.speaker, fact.text) for fact in facts(bob)} == {
        ("Tom", "Tom hates opera."),
        ("Ann", "Ann loves opera."),
    }


def test_instructions_categories_and_strictness_are_the_applications(bob: BoundScope) -> None:
    said(bob, TEA)
    rules = Rules("high", ("food", "travel"), "Only what waiters must know.")

    own = decision("ADD", 1, "drink oolong", "The user drinks oolong.", category="Food")
    other = decision(
        "ADD", 1, "drink oolong in the afternoon", "The user drinks it in the afternoon.", category="habits"
    )
    found, reader = extract(bob, answer(own, other), rules=rules)
    system = reader.requests[0].messages[0]["content"]
    assert "Only what waiters must know." in system
    assert "food, travel" in system
    assert "Be strict" in system
    assert (found.added, found.dropped, facts(bob)[0].tags) == (1, {"category": 1}, ("Food",))


class Failing:
    """An embedder that is away."""

    name, dimension, piece_chars, unrelated = "away", 4, 200, 0.0

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> Any:
        raise BackendError(f"the embedder is away: {len(texts)} texts as {kind}")


def test_without_vectors_facts_are_stored_and_found_by_their_words(bob: BoundScope) -> None:
    said(bob, TEA)
    kit = replace(kit_of(bob), embedder=Failing())
    found = Extractor(kit, bob.scope, FakeReader([tea])).run()
    assert (found.added, found.stopped) == (1, "")
    assert "oolong" in bob.recall("oolong", kinds=["fact"])[0].text
    assert [one.text for one in apply(kit.memories, Unindexed("away", bob.scope)) if one.kind == "fact"] == texts(bob)


def test_scopes_are_read_apart(mem: Offprompt) -> None:
    ann, bob = mem.scope(user="ann"), mem.scope(user="bob")
    said(ann, TEA)
    said(bob, DOG)
    _, reader = extract(ann, tea)
    assert [line["text"] for line in reader.requests[0].turns] == [TEA]
    assert marks(bob) == {DOG: ""}


def test_long_turns_are_read_as_far_as_there_is_room(bob: BoundScope) -> None:
    said(bob, "I like tea. " * 1500, TEA)
    reader = FakeReader([nothing], context_tokens=3000)
    found = extractor(bob, reader).run()
    assert (found.clipped, found.calls, found.read) == (1, 2, 2)
    count = kit_of(bob).slots.tokenizer.count
    assert max(count(one.messages[1]["content"]) for one in reader.requests) < 1200


def test_a_limit_leaves_the_rest_waiting(bob: BoundScope) -> None:
    said(bob, TEA, DOG, "three")
    found, _ = extract(bob, nothing, limit=2)
    assert (found.read, found.waiting) == (2, 1)


def test_the_log_says_each_decision_and_no_text(bob: BoundScope) -> None:
    said(bob, TEA)
    extract(bob, tea)
    (fact,) = facts(bob)
    added, read = bob.events(op="extract.")
    assert (added.op, added.name, added.actor, added.scope.session) == ("extract.add", fact.memory_id, "extract", "s1")
    assert fact.source_id in added.why
    assert "extract-1.en, fake-1" in added.why
    assert "1 turns read; 1 decisions applied" in read.why
    assert not any("oolong" in event.why for event in bob.events(op="extract."))
