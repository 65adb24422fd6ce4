"""Batches: a scope for each task, results that survive, and no task that stops another."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt import BackendError, ConflictError, UsageError
from offprompt.service.batch import Batch, Task, TaskResult, read_tasks
from offprompt.service.batch_results import ResultsFile, summary
from offprompt.service.offprompt import Offprompt
from offprompt.testing.chat_stand_in import StandInModel
from offprompt.testing.scripted import ScriptedModel
from offprompt.testing.strict import RefusedError, Said

OVERLOADED = RefusedError(503, {"error": {"message": "overloaded"}})


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Offprompt]:
    with offprompt.open(str(tmp_path / "agent.db")) as opened:
        yield opened


class ByWords:
    """A model that does what the user's words say; it counts how often each was asked."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self._lock = threading.Lock()
        self._scripted = ScriptedModel()

    def __call__(self, **request: Any) -> Any:
        text = str([each for each in request["messages"] if each["role"] == "user"][-1]["content"])
        with self._lock:
            self.asked[text] = self.asked.get(text, 0) + 1
        if "poison" in text:
            raise RefusedError(400, {"error": {"message": "I do not like that"}})
        if "flaky" in text and self.asked[text] == 1:
            raise OVERLOADED
        if "broken" in text:
            raise OVERLOADED
        if "crash" in text:
            raise ZeroDivisionError("a bug")
        return Said("") if "silent" in text else self._scripted.create(**request)


def lines(*tasks: Any) -> list[Task]:
    return read_tasks(json.dumps(each) if not isinstance(each, str) else each for each in tasks)


def run(memory: Offprompt, tasks: list[Task], model: Any = None, **options: Any) -> dict[str, TaskResult]:
    results: dict[str, TaskResult] = {}
    batch = Batch(memory, StandInModel(model or ByWords(), name="gpt-4o-mini"), name="b", **options)
    batch.run(tasks, lambda result: results.update({result.task_id: result}))
    return results


def test_each_task_has_a_memory_of_its_own(memory: Offprompt) -> None:
    tasks = lines(
        {"id": "ada", "turns": ["My name is Ada Okafor.", "What is my name?"]},
        {"id": "li", "turns": ["我叫李明。", "我叫什么？"], "instructions": "请简短。"},
        {"id": "who", "text": "What is my name?"},
        {"id": "told", "text": "What is my name?", "slots": {"user_name": "Bo"}},
    )
    results = run(memory, tasks)
    assert {name: each.texts[-1] for name, each in results.items()} == {
        "ada": "Your name is Ada Okafor.",
        "li": "你叫李明。",
        "who": "I have no record of that.",
        "told": "Your name is Bo.",
    }
    ada = results["ada"]
    assert (ada.ok, ada.tries, ada.user, ada.kind) == (True, 1, "b:ada", "")
    assert ada.requests == len(memory.scope(user="b:ada").session("main").ledger()) == 3
    assert ada.tokens_in > 0 < ada.tokens_out
    assert (next(iter(ada.prices.values())) > 0, ada.unpriced) == (True, 0)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_poisoned_task_stops_nothing(memory: Offprompt, concurrency: int) -> None:
    tasks = lines(
        {"id": "good 1", "text": "Hello."},
        {"id": "poison", "text": "poison"},
        {"id": "flaky", "text": "flaky"},
        {"id": "broken", "text": "broken"},
        {"id": "crash", "text": "crash"},
        {"id": "silent", "text": "silent"},
        {"id": "no text"},
        "{not json",
        {"id": "x" * 300, "text": "Hello."},
        {"id": "good 2", "text": "Hello."},
    )
    model = ByWords()
    results = run(memory, tasks, model, concurrency=concurrency)
    assert {name[:10]: (each.ok, each.kind, each.tries) for name, each in results.items()} == {
        "good 1": (True, "", 1),
        "poison": (False, "UsageError", 1),
        "flaky": (True, "", 2),
        "broken": (False, "server", 2),
        "crash": (False, "ZeroDivisionError", 0),
        "silent": (False, "empty", 2),
        "no text": (False, "task", 0),
        "line-8": (False, "task", 0),
        "x" * 10: (False, "ScopeError", 1),
        "good 2": (True, "", 1),
    }
    assert model.asked["flaky"] == 2
    assert "line 8 is not JSON" in results["line-8"].error


def test_a_retry_first_clears_what_the_failed_try_left(memory: Offprompt) -> None:
    class Fails:
        """Saves the name in the first try, and fails in its second turn; once."""

        def __init__(self) -> None:
            self.tries = 0

        def __call__(self, **request: Any) -> Any:
            text = str(request["messages"][-1]["content"])
            if text == "flaky":
                self.tries += 1
                if self.tries == 1:
                    raise OVERLOADED
                names = [slot.name for slot in memory.scope(user="b:a").slots.list()]
                return Said(f"I see {names}")
            if self.tries:
                return Said("Nothing is saved now.")
            return ScriptedModel().create(**request)

    results = run(memory, lines({"id": "a", "turns": ["My name is Ada Okafor.", "flaky"]}), Fails(), derive="none")
    assert results["a"].texts[-1] == "I see []"
    assert results["a"].tries == 2
    assert len(memory.scope(user="b:a").session("main").journal()) == 4
    assert results["a"].requests == 2 + 2, "answered requests of the failed try count"


def test_what_runs_at_an_interrupt_gets_no_result_and_what_ended_does(memory: Offprompt) -> None:
    begun = threading.Event()

    def model(**request: Any) -> Said:
        if "slow" in str(request["messages"]):
            begun.set()
        return Said("ok")

    results: list[TaskResult] = []

    def done(result: TaskResult) -> None:
        results.append(result)
        if len(results) == 1:
            raise KeyboardInterrupt

    batch = Batch(memory, StandInModel(model), name="b", concurrency=1)
    with pytest.raises(KeyboardInterrupt):
        batch.run(lines(*({"id": str(at), "text": "Hello."} for at in range(50))), done)
    assert 1 <= len(results) < 50
    assert all(each.ok for each in results)


def test_results_go_on_where_they_ended(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    tasks = lines({"id": "a", "text": "1"}, {"id": "b", "text": "2"}, {"id": "c", "text": "3"})
    with ResultsFile(out, resume=False) as file:
        file.add(TaskResult("a", ok=True, digest=tasks[0].digest, user="u"))
        file.add(TaskResult("b", ok=False, digest=tasks[1].digest, user="u", kind="server", error="é 好"))
    with out.open("ab") as raw:
        raw.write(b'{"task_id": "c", "ok": tr')
    with ResultsFile(out, resume=True) as file:
        assert [task.task_id for task in file.left(tasks)] == ["b", "c"]
        file.add(TaskResult("b", ok=True, digest=tasks[1].digest, user="u"))
    with ResultsFile(out, resume=True) as file:
        assert [task.task_id for task in file.left(tasks)] == ["c"]
        changed = lines({"id": "a", "text": "another text"}, {"id": "c", "text": "3"})
        assert [task.task_id for task in file.left(changed)] == ["a", "c"]
        found = summary(tasks, file.lines)
    assert (found.tasks, found.ok, found.failed, found.waiting) == (3, 2, 0, 1)
    assert len(out.read_text(encoding="utf-8").splitlines()) == 3


def test_each_result_is_synced_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, synced = tmp_path / "out.jsonl", list[int]()

    def sync(_: int) -> None:
        synced.append(out.read_bytes().count(b"\n"))

    monkeypatch.setattr(os, "fsync", sync)
    with ResultsFile(out, resume=False) as file:
        for name in ("a", "b", "c"):
            file.add(TaskResult(name, ok=True, digest="d", user="u"))
            assert synced[-1:] == [len(file.lines)]
    assert synced == [1, 2, 3]


def test_results_are_not_mixed_with_others(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with ResultsFile(out, resume=False) as file:
        file.add(TaskResult("a", ok=True, digest="", user="u"))
        with pytest.raises(ConflictError, match="another process writes"):
            ResultsFile(out, resume=True)
    with pytest.raises(UsageError, match="--resume goes on with them"):
        ResultsFile(out, resume=False)
    with pytest.raises(BackendError, match="cannot be opened"):
        ResultsFile(tmp_path / "nowhere" / "out.jsonl", resume=False)


@pytest.mark.parametrize("text", ["not results\n", "a note without an end", '{"x": 1}\n{"task_id": "a"}\n'])
def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    other = tmp_path / "notes.txt"
    other.write_text(text)
    with pytest.raises(UsageError, match="is no result of a batch"):
        ResultsFile(other, resume=True)
    assert other.read_text() == text


def test_tasks_are_read_or_told_apart() -> None:
    tasks = lines(
        {"id": "a", "text": "x", "colour": "red"}, {"id": "b", "turns": []}, {"id": "c", "text": "x", "slots": []}, [1]
    )
    assert [bool(task.fault) for task in tasks] == [True] * 4
    assert "unknown field 'colour'" in tasks[0].fault
    with pytest.raises(UsageError, match="line 2: the id 'a' came before"):
        lines({"id": "a", "text": "x"}, {"id": "a", "text": "y"})


@pytest.mark.parametrize("concurrency", [0, -1, True, 1.5])
def test_misuse_is_said(memory: Offprompt, concurrency: Any) -> None:
    with pytest.raises(UsageError, match="give the number of tasks at once"):
        Batch(memory, StandInModel(ByWords()), name="b", concurrency=concurrency)
