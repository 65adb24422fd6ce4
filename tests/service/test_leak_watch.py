"""The values that are looked for are kept from call to call, and brought up to date by what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

import offprompt
from offprompt.records import Body, Scope
from offprompt.service import leak_watch
from offprompt.service.bound import BoundScope
from offprompt.service.leak_watch import MAX_BODY_BYTES, MAX_WATCHES, LeakWatch, LeakWatches, Watched, newest
from offprompt.service.session import Session
from offprompt.wire.leaks import LeakIndex
from tests.service.talk import MODELS, Talk, Wire, call, result, tool

TIDES = "High water at Saltby is at six in the morning, low water at noon, and the ferry waits for neither."
ROOMS = "三号会议室周二上午预留给审计组，投影仪要提前一小时打开，门禁卡在前台领取。"


class Counted(LeakIndex):
    """An index that tells what it took in."""

    def add(self, name: str, text: str, *, secret: bool = False) -> None:
        COUNTED.append(name)
        super().add(name, text, secret=secret)


COUNTED: list[str] = []


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    COUNTED.clear()
    monkeypatch.setattr(leak_watch, "LeakIndex", Counted)


def names(watch: LeakWatch, text: str, values: dict[str, Watched], *, ours: bool = False) -> list[str]:
    return [leak.name for leak in watch.find(text, values, ours=ours)]


def test_only_what_differs_is_taken_in() -> None:
    watch = LeakWatch()
    values = {"tides": Watched(TIDES), "rooms": Watched(ROOMS)}
    assert names(watch, f"so: {TIDES[:50]}", values) == ["tides"]
    assert names(watch, f"又：{ROOMS[:20]}", dict(values)) == ["rooms"]
    assert COUNTED == ["tides", "rooms"]
    changed = {"tides": Watched(TIDES.replace("six", "seven")), "rooms": Watched(ROOMS)}
    assert names(watch, "at seven in the morning, low water at noon, and", changed) == ["tides"]
    assert COUNTED == ["tides", "rooms", "tides"]
    assert names(watch, f"{TIDES[:50]} {ROOMS[:20]}", {"tides": Watched(TIDES)}) == ["tides"]
    assert names(watch, f"{TIDES[:50]} {ROOMS[:20]}", {}) == []


def test_what_a_tool_is_the_source_of_counts_in_what_we_add_alone() -> None:
    watch, own, foreign = LeakWatch(), {"tides": Watched(TIDES)}, {"tides": Watched(TIDES, foreign=True)}
    assert names(watch, TIDES[:50], foreign) == []
    assert names(watch, TIDES[:50], foreign, ours=True) == ["tides"]
    assert names(watch, TIDES[:50], own) == ["tides"]
    assert names(watch, TIDES[:50], foreign) == []
    watch.keep([Body("ab12", ROOMS, "tool", "rooms", 0.0, len(ROOMS.encode()))])
    assert names(watch, ROOMS[:20], {}) == []
    assert names(watch, ROOMS[:20], {}, ours=True) == ["@ab12"]


def test_nothing_is_built_before_something_is_looked_for() -> None:
    watch = LeakWatch()
    watch.bring([Body("ab12", ROOMS, "tool", "rooms", 0.0, len(ROOMS.encode()))])
    assert COUNTED == []


def test_the_sessions_used_last_are_kept() -> None:
    watches = LeakWatches()
    scopes = [Scope("app", user="u", session=str(number)) for number in range(MAX_WATCHES + 1)]
    kept = [watches.of(scope) for scope in scopes[:MAX_WATCHES]]
    assert watches.of(scopes[0]) is kept[0]
    watches.of(scopes[-1])
    assert watches.of(scopes[0]) is kept[0]
    assert watches.of(scopes[1]) is not kept[1]


def test_of_stored_bodies_the_newest_are_taken_in() -> None:
    bodies = [Body(str(number), "", "tool", "", 0.0, MAX_BODY_BYTES // 3) for number in range(5)]
    assert [body.body_id for body in newest(bodies)] == ["4", "3", "2"]


def test_a_session_takes_its_values_in_once_for_all_its_calls(tmp_path: Path, wire: Wire) -> None:
    with offprompt.open(tmp_path / "agent.db") as memory:
        scope = memory.scope(user="alice")
        scope.write("tides", TIDES, policy="by_handle")
        scope.write("rooms", ROOMS, policy="by_handle")
        for number in range(2):
            # A new object for the same session, as a server makes one for each of its requests.
            one = Talk(scope.session("s1", model=MODELS[wire], wire=wire, tools=[tool("get", wire)]), wire)
            one.turn(f"Go {number}", call("get", f"c{number}", text="x"))
            one.messages += result(wire, (f"c{number}", "nothing"))
            one.go("Fine.")
        assert sorted(COUNTED) == ["rooms", "tides"]


def begun(scope: BoundScope, wire: Wire) -> Session:
    return scope.session("s1", model=MODELS[wire], wire=wire, tools=[tool("get", wire)], policy="stub_at_once")


def test_a_part_of_a_body_in_an_answer_of_ours_is_found_by_any_process(
    tmp_path: Path, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = " ".join(f"line {number} of the tide table" for number in range(400))

    def receipt(*_: object, **__: object) -> str:
        return f"saved {long[1000:1060]}"

    with offprompt.open(tmp_path / "agent.db") as memory:
        scope = memory.scope(user="alice")
        one = Talk(begun(scope, wire), wire)
        one.turn("Go", call("get", "c1", text="x"))
        one.messages += result(wire, ("c1", long))
        one.go("Fine.")
    with offprompt.open(tmp_path / "agent.db") as memory:
        scope = memory.scope(user="alice")
        session = begun(scope, wire)
        two = Talk(session, wire, [*one.messages, {"role": "user", "content": "Keep it"}])
        two.prepare()
        monkeypatch.setattr("offprompt.service.memory_actions.receipt_text", receipt)
        two.absorb(call("mem_write", slot="pet", value="a cat named Minka"))
        [answer] = [entry for entry in session.journal() if entry.kind == "answer"]
        assert len(answer.leaked) == 1
        assert answer.leaked[0].startswith("@")
