"""Audit: sums of the ledger, the two properties, the chain, and why tokens went up."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from offprompt.errors import BackendError
from offprompt.records import Scope
from offprompt.service.audit import Audit, SessionAudit, audit
from offprompt.service.diagnosis import Diagnosis
from offprompt.service.ledger_check import Broken
from tests.service.played import Played, Say, Start, Use, Wire, opened

LONG = "The tide table of the harbour, hour by hour, with the berth of each ship and its draught. " * 12


@pytest.fixture(params=["openai", "anthropic"])
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


@pytest.fixture(params=[":memory:", "agent.db"])
def start(request: pytest.FixtureRequest, tmp_path: Path, wire: Wire) -> Iterator[Start]:
    memory, clock = opened(":memory:" if request.param == ":memory:" else tmp_path / request.param)

    def begin(*, user: str = "alice", name: str = "s1", **options: object) -> Played:
        return Played(memory, clock, wire, user=user, name=name, options=options)

    yield begin
    memory.close()


def audited(talk: Played, *, verify: bool = False, scope: Scope | None = None) -> Audit:
    return audit(talk.memory.parts, scope, verify=verify, diagnosis=True)


def only(found: Audit) -> SessionAudit:
    (one,) = found.sessions
    return one


def cause(found: Audit, name: str) -> Diagnosis | None:
    return next((each for one in found.sessions for each in one.diagnoses if each.cause == name), None)


def test_the_sums_are_those_of_the_ledger(start: Start) -> None:
    talk = start()
    talk.scope.write("city", "Rotterdam, south bank")
    talk.ask("My name is Ada", Use("mem_write", {"slot": "user_name", "value": "Ada Okafor"}), Say("Noted."))
    talk.ask("Where do I live?", Say("You live in [[mem:city]]."))
    ledger, found = talk.session.ledger(), only(audited(talk))
    assert found.totals.requests == len(ledger) == 3
    assert found.totals.turns == 2
    assert found.totals.tokens_in == sum(entry.sent.tokens for entry in ledger)
    assert found.totals.parts["memory_tools"] == sum(entry.parts["memory_tools"].tokens for entry in ledger)
    assert found.totals.tokens_out == sum(entry.out.tokens for entry in ledger) > 0
    assert found.totals.prefix == sum(entry.prefix for entry in ledger) > 0
    assert found.totals.outside == ledger[-1].outside > 0
    assert sum(found.totals.prices.values()) == pytest.approx(sum(entry.price or 0 for entry in ledger))
    assert list(found.totals.prices) == [ledger[0].currency]
    assert [(one.name, one.why, one.turns, one.requests) for one in found.shown] == [("city", "alias place", (2,), 1)]
    assert found.totals.clean == 2
    assert found.totals.memory_rounds == 1
    assert found.leaks == ()


def test_sessions_of_a_scope_and_of_all_with_their_sum(start: Start) -> None:
    for user, name in (("alice", "s1"), ("alice", "s2"), ("bob", "s1")):
        talk = start(user=user, name=name)
        talk.ask("Hello", Say("Hi."))
    every = audited(talk)
    assert len(every.sessions) == every.totals.sessions == 3
    assert every.totals.tokens_in == sum(one.totals.tokens_in for one in every.sessions)
    assert len(audited(talk, scope=Scope(user="alice")).sessions) == 2
    assert len(audited(talk, scope=Scope(user="alice", session="s2")).sessions) == 1
    assert audited(talk, scope=Scope(user="carol")).sessions == ()


def test_a_request_without_a_reply_counts_as_sent(start: Start) -> None:
    talk = start()
    talk.session.prepare([{"role": "user", "content": "Hello"}])
    found = only(audited(talk, verify=True))
    assert (found.totals.requests, found.totals.unanswered, found.entries) == (1, 1, 0)
    assert found.broken is None


def test_a_leak_is_a_fault_with_its_request(start: Start) -> None:
    talk = start()
    talk.scope.write("fleet", "Harbour_Master_9", policy="by_handle")
    talk.scope.write("Harbour_Master_9", "a slot whose name is another's value, and so stands in the directory")
    talk.ask("Hello", Say("Hi."))
    found = audited(talk)
    assert [(leak.seq, leak.turn, leak.names) for leak in found.leaks] == [(1, 1, ("fleet",))]
    assert found.totals.clean == 0


def test_the_card_is_counted_apart(start: Start) -> None:
    talk = start()
    talk.scope.write("reply_style", "short and dry")
    talk.ask("Hello", Say("Hi."))
    found = only(audited(talk))
    assert (found.totals.clean, found.totals.carded) == (1, 1)


def test_values_that_all_stood_in_the_head_are_not_called_outside(start: Start) -> None:
    talk = start(mode="inline")
    talk.scope.write("city", "Rotterdam, south bank")
    talk.ask("Hello", Say("Hi."))
    found = only(audited(talk))
    assert (found.totals.clean, found.totals.carded, found.totals.inlined) == (0, 0, 1)
    assert abs(found.totals.comparison.saved_tokens) < 10


def test_turns_that_were_cut_by_the_window_are_counted_and_no_fault(start: Start) -> None:
    talk = start(policy="window", context_tokens=4000)
    for number in range(12):
        talk.ask(f"{number}: {LONG}", Say("Well."))
    found = only(audited(talk))
    assert found.totals.cuts == sum(entry.cut for entry in talk.session.ledger()) > 0
    assert cause(audited(talk), "prefix_broke") is None


def test_what_is_said_and_what_is_too_short_is_named(start: Start) -> None:
    talk = start()
    talk.scope.write("motto", "slow is smooth", policy="by_handle")
    talk.scope.write("floor", "7th", policy="by_handle")
    talk.ask("slow is smooth, they say", Say("Yes."))
    found = only(audited(talk))
    assert found.totals.said == {"motto"}
    assert found.totals.unproven == {"floor"}


def test_many_long_values_outside_save_and_a_few_short_ones_do_not(start: Start) -> None:
    rich = start(user="rich")
    for number in range(12):
        rich.scope.write(f"table_{number}", f"{number}: {LONG}", policy="by_handle")
    poor = start(user="poor")
    poor.scope.write("city", "Rotterdam")
    for talk in (rich, poor):
        for words in ("One", "Two", "Three"):
            talk.ask(words, Say("Well."))
    saved = audited(rich, scope=Scope(user="rich"))
    lost = audited(poor, scope=Scope(user="poor"))
    one, other = saved.totals.comparison, lost.totals.comparison
    assert one.saved_tokens > 3 * 2000
    assert one.saved_price > 0
    assert cause(saved, "head_cost") is None
    assert other.saved_tokens < 0
    assert other.ours_tokens == sum(
        size.tokens
        for entry in poor.session.ledger()
        for name, size in entry.parts.items()
        if name in ("instructions", "directory", "card", "memory_tools", "shown", "receipts")
    )
    told = cause(lost, "head_cost")
    assert told is not None
    assert told.tokens == -other.saved_tokens
    assert int(told.numbers["outside_tokens"]) < int(told.numbers["head"])


def test_a_request_that_only_read_memory_is_paid_by_memory(start: Start) -> None:
    talk = start()
    talk.scope.write("table", LONG, policy="by_handle")
    talk.ask("Go on", Use("mem_read", {"slot": "table"}), Say("Read."))
    found = only(audited(talk)).totals.comparison
    assert found.extra_requests == 1
    assert found.extra_tokens == talk.session.ledger()[1].sent.tokens
    assert found.inline_tokens < found.ours_tokens


def test_nothing_to_say_where_nothing_went_wrong(start: Start) -> None:
    talk = start()
    for number in range(12):
        talk.scope.write(f"table_{number}", f"{number}: {LONG}", policy="by_handle")
    talk.ask("One", Say("Well."))
    talk.ask("Keep it", Use("mem_write", {"slot": "note", "value": "something to keep"}), Say("Kept."))
    assert only(audited(talk)).diagnoses == ()


def test_calls_that_repeat_are_found_with_their_rounds(start: Start) -> None:
    talk = start()
    talk.scope.write("table", LONG, policy="by_handle")
    read = Use("mem_read", {"slot": "table"})
    talk.ask("Go on", read, read, read, Say("Read."))
    told = cause(audited(talk), "repeated_calls")
    assert told is not None
    assert (told.numbers["in_turn"], told.numbers["worst"], told.numbers["worst_count"]) == (2, "mem_read table", 3)
    assert told.numbers["rounds"] == 3
    ledger = talk.session.ledger()
    assert told.tokens == ledger[2].sent.tokens + ledger[3].sent.tokens


def test_the_same_call_in_every_turn_is_found_a_second_time_is_not(start: Start) -> None:
    talk = start()
    talk.scope.write("table", LONG, policy="by_handle")
    for turn in range(2):
        talk.ask(f"Turn {turn}", Use("mem_read", {"slot": "table"}), Say("Read."))
    assert cause(audited(talk), "repeated_calls") is None
    talk.ask("Turn 3", Use("mem_read", {"slot": "table"}), Say("Read."))
    told = cause(audited(talk), "repeated_calls")
    assert told is not None
    assert (told.numbers["in_turn"], told.numbers["in_session"]) == (0, 2)


def test_a_tool_result_that_came_again_and_one_that_was_read_back(start: Start) -> None:
    talk = start(policy="stub_at_once")
    rows = "\n".join(f"row {number}: berth {number * 7 % 13}, draught {number % 9} m" for number in range(120))
    for words in ("Look it up", "Once more"):
        talk.ask(words, Use("lookup", {"table": "tides"}))
        talk.messages[-1] = talk.result(f"c{talk.calls}", rows)
        talk.proceed(Say("Looked up."))
    again = cause(audited(talk), "result_back")
    assert again is not None
    assert again.numbers["again"] == 1
    assert again.numbers["bodies"] == 0
    body = talk.memory.parts.sessions.bodies(talk.session.scope)[0]
    talk.ask("Read it", Use("mem_read", {"slot": f"@{body.body_id}"}), Say("Read."))
    back = cause(audited(talk), "result_back")
    assert back is not None
    assert back.numbers["bodies"] == 1
    assert int(back.numbers["body_tokens"]) > 100


@pytest.mark.parametrize(("change", "part"), [({"system": "It is 10:02."}, "system"), ({"tools": []}, "tools")])
def test_a_head_that_changed_broke_the_prefix(start: Start, wire: Wire, change: dict[str, object], part: str) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    tool: dict[str, Any] = (
        {"name": "look", "description": "Look.", "input_schema": schema}
        if wire == "anthropic"
        else {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": schema}}
    )
    talk = start(system="It is 10:01 and nine seconds.", tools=[tool])
    talk.ask("One", Say("Well."))
    assert cause(audited(talk), "prefix_broke") is None
    talk.options |= change
    talk.ask("Two", Say("Well."))
    told = cause(audited(talk), "prefix_broke")
    assert told is not None
    assert (told.numbers["head"], told.numbers["history"], told.numbers["part"]) == (1, 0, part)
    assert told.tokens == talk.session.ledger()[0].sent.tokens


def test_an_earlier_message_that_changed_broke_the_prefix(start: Start) -> None:
    talk = start()
    talk.ask("One", Say("Well."))
    talk.ask("Two", Say("Well."))
    talk.messages[0] = {"role": "user", "content": "One, but otherwise"}
    talk.ask("Three", Say("Well."))
    told = cause(audited(talk), "prefix_broke")
    assert told is not None
    assert (told.numbers["head"], told.numbers["history"]) == (0, 1)


def test_shown_values_that_left_are_no_fault(start: Start) -> None:
    talk = start()
    talk.scope.write("city", "Rotterdam")
    talk.ask("Where do I live?", Say("You live in [[mem:city]]."))
    talk.ask("Thanks", Say("Well."))
    assert cause(audited(talk), "prefix_broke") is None


def test_a_cache_that_is_not_used_is_found(start: Start, wire: Wire) -> None:
    talk = start(system=LONG * 8, model="gpt-4o-mini" if wire == "openai" else "claude-sonnet-5-5")
    usage = (
        {"input_tokens": 2600, "cache_read_input_tokens": 0, "output_tokens": 3}
        if wire == "anthropic"
        else {"prompt_tokens": 2600, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}}
    )
    talk.ask("One", Say("Well.", usage))
    talk.ask("Two", Say("Well.", usage))
    told = cause(audited(talk), "uncached")
    assert told is not None
    assert told.numbers["cached"] == 0
    assert int(told.numbers["repeated"]) > 1000


def edit(change: Callable[[dict[str, object]], object], seq: int) -> Callable[[sqlite3.Connection], object]:
    def run(connection: sqlite3.Connection) -> None:
        (text,) = connection.execute("SELECT entry FROM ledger WHERE seq = ?", (seq,)).fetchone()
        entry = json.loads(text)
        change(entry)
        connection.execute("UPDATE ledger SET entry = ? WHERE seq = ?", (json.dumps(entry), seq))

    return run


def swap(connection: sqlite3.Connection) -> None:
    rows = dict(connection.execute("SELECT seq, entry FROM ledger WHERE seq IN (2, 3)").fetchall())
    for seq, other in ((2, 3), (3, 2)):
        connection.execute("UPDATE ledger SET entry = ? WHERE seq = ?", (rows[other], seq))


def sql(statement: str) -> Callable[[sqlite3.Connection], object]:
    return lambda connection: connection.execute(statement)


@pytest.mark.parametrize(
    ("tamper", "broken"),
    [
        (edit(lambda entry: entry.update(outside=0), 2), Broken(2, "changed")),
        (edit(lambda entry: entry.update(shown=[]), 4), Broken(4, "changed")),
        (edit(lambda entry: entry.update(parts={}), 1), Broken(1, "changed")),
        (edit(lambda entry: entry.update(hash="0" * 24), 3), Broken(3, "changed")),
        (edit(lambda entry: entry.update(previous=""), 3), Broken(3, "changed")),
        (sql("DELETE FROM ledger WHERE seq = 1"), Broken(1, "missing")),
        (sql("DELETE FROM ledger WHERE seq = 3"), Broken(3, "missing")),
        (sql("DELETE FROM ledger WHERE seq = 4"), Broken(4, "missing")),
        (sql("DELETE FROM ledger"), Broken(1, "missing")),
        (swap, Broken(2, "moved")),
    ],
    ids=["outside", "shown", "tokens", "hash", "previous", "first", "middle", "last", "all", "swapped"],
)
def test_a_tampered_ledger_is_found(
    tmp_path: Path, wire: Wire, tamper: Callable[[sqlite3.Connection], object], broken: Broken
) -> None:
    file = tmp_path / "agent.db"
    memory, clock = opened(file)
    talk = Played(memory, clock, wire)
    talk.scope.write("city", "Rotterdam")
    for words in ("One", "Two", "Three", "Where do I live?"):
        talk.ask(words, Say("Well."))
    assert only(audited(talk, verify=True)).broken is None
    memory.close()
    with sqlite3.connect(file) as connection:
        tamper(connection)
    connection.close()
    again, _ = opened(file)
    found = audit(again.parts, verify=True)
    assert [one for _, one in found.broken] == [broken]
    again.close()


@pytest.mark.parametrize("text", ["", '{"seq": 2', '{"seq": "two", "at": 0, "turn": 1, "model": ""}', "[]"])
def test_an_entry_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "agent.db"
    memory, clock = opened(file)
    talk = Played(memory, clock)
    for words in ("One", "Two", "Three"):
        talk.ask(words, Say("Well."))
    memory.close()
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE ledger SET entry = ? WHERE seq = 2", (text,))
    connection.close()
    again, _ = opened(file)
    with pytest.raises(BackendError, match="entry 2 of the ledger of user=alice session=s1 cannot be read"):
        audit(again.parts, verify=True)
    again.close()


def test_an_entry_of_another_history_does_not_follow(tmp_path: Path) -> None:
    file = tmp_path / "agent.db"
    memory, clock = opened(file)
    for name in ("s1", "s2"):
        talk = Played(memory, clock, name=name)
        for words in ("One", f"Two in {name}", "Three"):
            talk.ask(words, Say("Well."))
    memory.close()
    with sqlite3.connect(file) as connection:
        (entry,) = connection.execute("SELECT entry FROM ledger WHERE session = 's2' AND seq = 2").fetchone()
        connection.execute("UPDATE ledger SET entry = ? WHERE session = 's1' AND seq = 2", (entry,))
    connection.close()
    again, _ = opened(file)
    found = audit(again.parts, verify=True)
    assert found.broken == [(Scope(user="alice", session="s1"), Broken(2, "foreign"))]
    again.close()


def test_each_users_ledger_has_its_own_key(start: Start) -> None:
    for user in ("alice", "bob"):
        talk = start(user=user)
        talk.ask("Hello", Say("Hi."))
    alice, bob = (start(user=user).session.ledger()[0] for user in ("alice", "bob"))
    assert alice.hash != bob.hash
    assert audited(talk, verify=True).broken == []
