"""Batch: many tasks for an agent, each in a scope of its own; one that fails stops no other."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final

from offprompt.errors import ModelError, OffpromptError, UsageError
from offprompt.protocols import ChatModel
from offprompt.records import AgentReply, Cancel, LedgerEntry, as_dict, as_list, canonical
from offprompt.service.agent import Agent
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt

SESSION: Final = "main"
MAX_TRIES: Final = 2
TASK_FIELDS: Final = ("id", "text", "turns", "instructions", "slots")
FINAL_TROUBLE: Final = ("cancelled",)
"""Troubles of a model behind which another try makes no sense."""


@dataclass(frozen=True, slots=True)
class Task:
    """What an agent is to do.

    turns    the user's texts, one after the other. slots: written before the first.
    digest   of all that the task says: a result counts for the task that it was made for.
    fault    why it is no task, or empty.
    """

    task_id: str
    turns: tuple[str, ...] = ()
    instructions: str = ""
    slots: Mapping[str, Any] = field(default_factory=dict[str, Any])
    digest: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What became of a task; its session, and with it the whole trace, is in the scope of `user`.

    texts      the answers, one a turn, as far as it came. tools: names of the calls that ran, and whether well.
    tries      how often it was begun; tokens, price and requests are those of all tries, as far as they were answered.
    kind       of the failure: an error's class, of a model's its trouble, or `rounds`, `time`, `empty`, `task`.
    """

    task_id: str
    ok: bool
    digest: str
    user: str
    texts: tuple[str, ...] = ()
    tools: tuple[tuple[str, bool], ...] = ()
    tries: int = 0
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    prices: Mapping[str, float] = field(default_factory=dict[str, float])
    unpriced: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    kind: str = ""
    error: str = ""


def read_tasks(lines: Iterable[str]) -> list[Task]:
    """The tasks of a JSONL file, one a line; a line that is none is a task with a `fault`.

    Fields   `id`; `text`, or `turns` for several; `instructions`: the system text; `slots`: values by name.
    Raises   UsageError for an id that comes twice.
    """
    tasks: dict[str, Task] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        task = _task(line, number)
        if task.task_id in tasks:
            raise UsageError(f"line {number}: the id {task.task_id!r} came before; give each task an id of its own")
        tasks[task.task_id] = task
    return list(tasks.values())


def _task(line: str, number: int) -> Task:
    nameless = f"line-{number}"
    try:
        given = as_dict(json.loads(line))
    except (ValueError, RecursionError) as exc:
        return Task(nameless, fault=f"line {number} is not JSON: {exc}")
    if given is None:
        return Task(nameless, fault=f"line {number} is no object")
    task_id = given.get("id")
    if not isinstance(task_id, str) or not task_id:
        return Task(nameless, fault=f'line {number} has no "id", a text that names the task')
    try:
        digest = blake2b(canonical(given).encode(), digest_size=8).hexdigest()
    except ValueError as exc:
        return Task(task_id, fault=f"line {number} holds what cannot be stored: {exc}")
    if unknown := sorted(given.keys() - set(TASK_FIELDS)):
        return Task(task_id, digest=digest, fault=f"unknown field {unknown[0]!r}; a task has {', '.join(TASK_FIELDS)}")
    turns = as_list(given.get("turns")) or ([given["text"]] if "text" in given else [])
    slots, system = as_dict(given.get("slots", {})), given.get("instructions", "")
    if not turns or not all(isinstance(each, str) and each.strip() for each in turns):
        return Task(task_id, digest=digest, fault='it needs "text", or "turns" with a text each')
    if slots is None or not isinstance(system, str):
        return Task(task_id, digest=digest, fault='"slots" is an object of values by name, "instructions" a text')
    return Task(task_id, tuple(turns), system, slots, digest)


class Batch:
    """Runs tasks, several at once.

    name          of the batch: a task's scope is the user `NAME:ID`, cleared before each try.
    options       as of `Agent`: tools, instructions (of tasks without their own), temperature, limits, request, …
    Tries         a task that fails by its model or store is begun anew, at most twice in all; one that is refused is
                  not.
    """

    def __init__(
        self,
        memory: Offprompt,
        model: ChatModel,
        *,
        name: str,
        concurrency: int = 4,
        instructions: str = "",
        **options: Any,
    ) -> None:
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"concurrency={concurrency!r}: give the number of tasks at once, 1 or more")
        self._memory, self._model, self._name = memory, model, name
        self._concurrency, self._instructions, self._options = concurrency, instructions, options
        self._cancel = Cancel()
        self._agent("")  # refuses options that are none before any task begins

    def run(self, tasks: Sequence[Task], done: Callable[[TaskResult], None]) -> None:
        """Run them; `done` gets each result as it comes, in the calling thread.

        Interrupts   what runs is called off and gets no result, what waits does not begin; then it is raised.
        """
        pool = ThreadPoolExecutor(self._concurrency, thread_name_prefix="offprompt-batch")
        futures = {pool.submit(self._run, task): task for task in tasks}
        told: set[Future[TaskResult]] = set()
        try:
            for future in as_completed(futures):
                told.add(future)
                done(self._result(futures[future], future))
        finally:
            self._cancel.cancel()
            pool.shutdown(cancel_futures=True)
            for future in futures.keys() - told:
                if not future.cancelled() and future.exception() is None and future.result().ok:
                    done(future.result())

    def user(self, task: Task) -> str:
        """The user in whose scope a task runs."""
        return f"{self._name}:{task.task_id}"

    def _result(self, task: Task, future: Future[TaskResult]) -> TaskResult:
        exc = future.exception()
        return future.result() if exc is None else self._failed(self._blank(task), exc)

    def _run(self, task: Task) -> TaskResult:
        begun, result = time.monotonic(), self._blank(task)
        if task.fault:
            return replace(result, kind="task", error=task.fault)
        while True:
            result, again = self._try(task, replace(result, tries=result.tries + 1, seconds=time.monotonic() - begun))
            if not again or result.tries >= MAX_TRIES:
                return replace(result, seconds=time.monotonic() - begun)

    def _try(self, task: Task, result: TaskResult) -> tuple[TaskResult, bool]:
        """The result of one try, added to that of those before, and whether another one makes sense."""
        replies: list[AgentReply] = []
        scope: BoundScope | None = None
        try:
            scope = self._memory.scope(user=result.user)
            scope.clear()
            for name, value in task.slots.items():
                scope.write(name, value)
            agent = self._agent(task.instructions)
            for text in task.turns:
                replies.append(agent.run(text, user=result.user, session=SESSION, cancel=self._cancel))
                if replies[-1].stopped or not replies[-1].text.strip():
                    break
        except OffpromptError as exc:
            failed = self._failed(_told(result, replies), exc)
            again = not isinstance(exc, UsageError) and failed.kind not in FINAL_TROUBLE
            return _counted(failed, scope), again
        last = replies[-1]
        kind = last.stopped or ("" if last.text.strip() else "empty")
        error = f"it ended without an answer ({kind})" if kind else ""
        told = _told(replace(result, ok=not kind, kind=kind, error=error), replies)
        return _counted(told, scope), kind == "empty"

    def _agent(self, instructions: str) -> Agent:
        return Agent(self._memory, self._model, instructions=instructions or self._instructions, **self._options)

    def _blank(self, task: Task) -> TaskResult:
        return TaskResult(task.task_id, ok=False, digest=task.digest, user=self.user(task))

    def _failed(self, result: TaskResult, exc: BaseException) -> TaskResult:
        kind = exc.kind if isinstance(exc, ModelError) else type(exc).__name__
        return replace(result, ok=False, kind=kind, error=" ".join(str(exc).split())[:500])


def _told(result: TaskResult, replies: Sequence[AgentReply]) -> TaskResult:
    return replace(
        result,
        texts=tuple(reply.text for reply in replies),
        tools=tuple((ran.name, ran.ok) for reply in replies for ran in reply.tools),
        warnings=tuple(dict.fromkeys(warning for reply in replies for warning in reply.warnings)),
    )


def _counted(result: TaskResult, scope: BoundScope | None) -> TaskResult:
    """The result with what this try's requests took, by the session's ledger."""
    if scope is None:
        return result
    try:
        entries = scope.session(SESSION).ledger()
    except OffpromptError:
        return result  # the store failed: what was spent is not known, and the failure itself is told already
    prices = dict(result.prices)
    for entry in entries:
        if entry.price is not None:
            prices[entry.currency] = prices.get(entry.currency, 0.0) + entry.price
    return replace(
        result,
        requests=result.requests + len(entries),
        tokens_in=result.tokens_in + sum(map(_tokens_in, entries)),
        tokens_out=result.tokens_out + sum(map(_tokens_out, entries)),
        prices=prices,
        unpriced=result.unpriced + sum(entry.price is None for entry in entries),
    )


def _tokens_in(entry: LedgerEntry) -> int:
    return entry.sent.tokens if entry.usage.input is None else entry.usage.input


def _tokens_out(entry: LedgerEntry) -> int:
    return entry.out.tokens if entry.usage.output is None else entry.usage.output
