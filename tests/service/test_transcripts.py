"""Conversations that frameworks keep: items come again as they were given, from any process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.service.model_doors import StoreDoor
from offprompt.service.model_tools import toolbox
from offprompt.service.offprompt import Offprompt
from offprompt.service.transcripts import Item, Transcript, cleaned
from offprompt.testing import MovedClock

SAID = [
    Item("user", {"role": "user", "content": "My dog Bello broke his left paw."}, "My dog Bello broke his left paw."),
    Item("assistant", {"type": "function_call", "name": "find", "arguments": '{"text":"爪子"}', "id": "fc_1"}),
    Item("tool", {"type": "function_call_output", "output": "一家兽医" * 5000}, "一家兽医"),
    Item(
        "assistant", {"role": "assistant", "content": [{"type": "output_text", "text": "Poor Bello."}]}, "Poor Bello."
    ),
]
VALUES = [item.value for item in SAID]


def transcript(memory: Offprompt, session_id: str = "s1", user: str = "alice", **options: Any) -> Transcript:
    return Transcript(memory, memory.scope(user=user), session_id, **options)


def episodes(memory: Offprompt) -> list[str]:
    return [each.text for each in memory.scope(user="alice").memories.list(kinds=("episode",))]


def test_items_come_again_as_they_were_given_and_after_a_restart(mem: Offprompt) -> None:
    kept = transcript(mem)
    assert kept.items() == []
    kept.add(SAID[:1])
    kept.add(SAID[1:])
    kept.add([])
    assert transcript(mem).items() == VALUES
    assert transcript(mem).items(2) == VALUES[2:]
    assert transcript(mem).items(0) == []
    assert transcript(mem, "s2").items() == transcript(mem, user="bob").items() == []
    kept.clear()
    assert transcript(mem).items() == []


def test_a_restart_finds_them(tmp_path: Path) -> None:
    with offprompt.open(str(tmp_path / "a.db")) as memory:
        transcript(memory).add(SAID)
    with offprompt.open(str(tmp_path / "a.db")) as memory:
        assert transcript(memory).items() == VALUES


def test_the_newest_item_is_taken_away_with_what_was_remembered_of_it(mem: Offprompt) -> None:
    kept = transcript(mem)
    kept.add(SAID)
    assert episodes(mem) == ["My dog Bello broke his left paw."]
    assert [kept.pop() for _ in range(3)] == VALUES[:0:-1]
    assert episodes(mem) == ["My dog Bello broke his left paw."]
    kept.add(SAID[1:])
    kept.add([Item("user", {"u": 1}, "He can walk."), Item("assistant", {"a": 1}, "Good.")])
    assert episodes(mem)[1:] == ["He can walk.", "Good."]
    assert [kept.pop(), kept.pop()] == [{"a": 1}, {"u": 1}]
    assert episodes(mem) == ["My dog Bello broke his left paw."]
    assert kept.items() == VALUES
    for _ in VALUES:
        kept.pop()
    assert kept.pop() is None


@pytest.mark.parametrize(("capture", "count"), [("all", 4), ("user", 2), ("off", 0)])
def test_what_is_remembered_is_a_choice(mem: Offprompt, capture: Any, count: int) -> None:
    more = [Item("user", {"u": 1}, "He can walk."), Item("assistant", {"a": 1}, "Good.")]
    transcript(mem, capture=capture).add([SAID[0], SAID[3], *more])
    assert len(episodes(mem)) == count


def test_the_id_of_a_session_of_our_own_is_refused(mem: Offprompt) -> None:
    session = mem.scope(user="alice").session("s1", model="gpt-4o-mini")
    session.prepare([{"role": "user", "content": "Hello"}])
    with pytest.raises(offprompt.UsageError, match="choose another"):
        transcript(mem).add(SAID)


def test_card_numbers_are_not_stored(mem: Offprompt) -> None:
    number = "4111111111111111"
    call = {"type": "function_call", "call_id": number, "arguments": f'{{"card": {number}, "b": "{number}"}}'}
    transcript(mem).add([Item("user", {"content": f"It is {number}."}, f"It is {number}."), Item("assistant", call)])
    said, called = transcript(mem).items()
    assert number not in said["content"]
    assert number not in called["arguments"]
    assert called["call_id"] == number, "ids are no words"
    assert set(json.loads(called["arguments"])) == {"card", "b"}


def test_what_is_no_number_stays_byte_for_byte() -> None:
    item = {"arguments": '{ "a" : [1, true, null] }', "content": "[x] {", "encrypted_content": "sk-abc"}
    assert cleaned(item, lambda text: text) == item


def test_many_at_once_lose_nothing(mem: Offprompt, clock: MovedClock) -> None:
    del clock
    done: list[int] = []

    def work(number: int) -> None:
        transcript(mem, capture="off").add([Item("user", {"content": f"{number}.{at}"}) for at in range(3)])
        done.append(number)

    in_threads(work, 4)
    items = [each["content"] for each in transcript(mem).items()]
    assert sorted(items) == sorted(f"{number}.{at}" for number in range(4) for at in range(3))
    starts = [items.index(f"{number}.0") for number in range(4)]
    assert all(items[at : at + 3] == [f"{items[at][0]}.{step}" for step in range(3)] for at in starts)


def in_threads(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_long_result_is_kept_once_and_read_by_its_id(mem: Offprompt) -> None:
    kept = transcript(mem)
    kept.add(SAID)
    text = "一家兽医 " * 3000
    body_id = kept.keep(text, "find")
    assert kept.keep(text, "find") == body_id
    assert kept.items() == VALUES
    body = transcript(mem).body(body_id)
    assert body is not None
    assert (body.text, body.label) == (text, "find")
    assert transcript(mem, "s2").body(body_id) is None
    alice = mem.scope(user="alice")
    read = toolbox(StoreDoor(mem.parts, alice), bodies=kept.body)("mem_read", {"name": f"[[mem:@{body_id}]]"})
    assert "一家兽医" in read.text
    assert read.data["cursor"]
    assert toolbox(StoreDoor(mem.parts, alice))("mem_read", {"name": f"@{body_id}"}).is_error


def test_other_items_take_the_place_of_those_that_differ(mem: Offprompt) -> None:
    kept = transcript(mem)
    kept.add(SAID)
    other = Item("user", {"role": "user", "content": "No, the right one."}, "No, the right one.")
    kept.set([*SAID[:3], other])
    assert kept.items() == [*VALUES[:3], other.value]
    assert episodes(mem) == ["My dog Bello broke his left paw.", "No, the right one."]
    kept.set([*SAID[:3], other])
    assert len(episodes(mem)) == 2
    kept.set([])
    assert kept.items() == episodes(mem) == []
    secret = Item("user", {"content": "4111111111111111"}, "4111111111111111")
    kept.set([secret])
    kept.set([secret, other])
    assert len(episodes(mem)) == 2


def test_what_a_model_says_behind_a_tool_is_not_remembered_nor_what_is_marked(mem: Offprompt) -> None:
    kept = transcript(mem)
    kept.add([Item("user", {"u": 1}, "I moved to Ulm."), Item("assistant", {"a": 1}, "Welcome to Ulm.")])
    kept.add([Item("user", {"u": 2}, "Read the page."), Item("tool", {"t": 1}, "The user hates Ulm.")])
    kept.add([Item("assistant", {"a": 2}, "You hate Ulm.")])
    kept.add([Item("user", {"u": 3}, "Where do I live?"), Item("assistant", {"a": 3}, "In Ulm, I read.", False)])
    assert episodes(mem) == ["I moved to Ulm.", "Welcome to Ulm.", "Read the page.", "Where do I live?"]
    kept.pop()
    assert len(episodes(mem)) == 4


def test_a_text_of_any_length_is_stored_and_trouble_of_the_memories_loses_no_item(
    mem: Offprompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = transcript(mem)
    kept.add([Item("user", {"long": "word " * 9000}, "word " * 9000)])
    assert [len(text) <= 20_000 for text in episodes(mem)] == [True]

    def fails(*_: Any, **__: Any) -> Any:
        raise offprompt.BackendError("away")

    monkeypatch.setattr("offprompt.service.bound.BoundScope.remember", fails)
    kept.add([Item("user", {"next": 1}, "I have a cat.")])
    assert kept.items()[-1] == {"next": 1}
