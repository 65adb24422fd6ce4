"""Runs the tools that a reply calls: side by side, each call answered whatever the tool does."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Final

import msgspec

from offprompt.records import Cancel, ToolCall, ToolRun, compact
from offprompt.service.tool_schemas import ArgumentsError, FunctionTool

log = logging.getLogger("offprompt")

MAX_ERROR_CHARS: Final = 500
"""Of what an exception says to the model."""


class ToolRunner:
    """Runs calls of an agent's functions.

    parallel   calls at once. timeout_s: seconds for all calls of one reply together.
    Functions  run in threads, coroutine functions in the caller's loop, or in one of their own. One that is not done in
               time is answered as such and goes on unseen: a thread cannot be stopped.
    Errors     an exception, bad arguments, an unknown name are the call's result. Nothing raises.
    """

    def __init__(self, tools: Mapping[str, FunctionTool], *, parallel: int, timeout_s: float) -> None:
        self.tools, self._parallel, self._timeout_s = tools, parallel, timeout_s

    def run(self, calls: Sequence[ToolCall], *, left_s: float, cancel: Cancel | None) -> list[ToolRun]:
        """The calls' results, in their order; left_s: seconds that the whole run still has."""
        batch = _Batch(min(self._timeout_s, left_s), self._parallel)
        called_off: Future[None] = Future()
        forget = cancel.add(lambda: called_off.set_result(None)) if cancel is not None else None
        try:
            futures = [batch.start(lambda call=call: self._run(call)) for call in calls]
            pending: set[Future[Any]] = {each for each in futures if not each.done()}
            while pending and not called_off.done() and batch.left_s > 0:
                wait({*pending, called_off}, timeout=batch.left_s, return_when=FIRST_COMPLETED)
                pending = {each for each in pending if not each.done()}
        finally:
            batch.end()
            if forget is not None:
                forget()
        return [batch.result(call, future) for call, future in zip(calls, futures, strict=True)]

    async def arun(self, calls: Sequence[ToolCall], *, left_s: float) -> list[ToolRun]:
        """See `run`; called off by cancelling the task."""
        batch = _Batch(min(self._timeout_s, left_s), self._parallel)
        gate = asyncio.Semaphore(self._parallel)

        async def awaited(call: ToolCall, tool: FunctionTool) -> ToolRun:
            async with gate:
                return await self._arun(call, tool)

        tasks: list[asyncio.Future[ToolRun]] = []
        try:
            for call in calls:
                tool = self.tools.get(call.name)
                if tool is not None and tool.is_async:
                    tasks.append(asyncio.ensure_future(awaited(call, tool)))
                else:
                    tasks.append(asyncio.wrap_future(batch.start(lambda call=call: self._run(call))))
            if tasks:
                await asyncio.wait(tasks, timeout=batch.left_s)
        finally:
            batch.end()
            for task in tasks:
                task.cancel()
        return [batch.result(call, task) for call, task in zip(calls, tasks, strict=True)]

    def _run(self, call: ToolCall) -> ToolRun:
        tool, begun = self.tools.get(call.name), time.perf_counter()
        if tool is None:
            raise ArgumentsError(f"there is no tool {call.name[:64]!r}; {self._known()}")
        value = tool.function(**tool.read(call.arguments))
        if inspect.isawaitable(value):
            value = asyncio.run(_whole(value))
        return _answered(call, begun, value)

    async def _arun(self, call: ToolCall, tool: FunctionTool) -> ToolRun:
        begun = time.perf_counter()
        return _answered(call, begun, await tool.function(**tool.read(call.arguments)))

    def _known(self) -> str:
        return f"there are: {', '.join(self.tools)}" if self.tools else "there are none"


class _Batch:
    """The calls of one reply under way."""

    def __init__(self, timeout_s: float, parallel: int) -> None:
        self._timeout_s, self._ends = timeout_s, time.monotonic() + timeout_s
        self._gate, self._over = threading.Semaphore(parallel), threading.Event()

    @property
    def left_s(self) -> float:
        return max(self._ends - time.monotonic(), 0.0)

    def start(self, run: Callable[[], ToolRun]) -> Future[ToolRun]:
        """A call in a thread of its own, which does not keep the program alive."""
        future: Future[ToolRun] = Future()
        context = contextvars.copy_context()

        def work() -> None:
            with self._gate:
                if self._over.is_set() or not future.set_running_or_notify_cancel():
                    return
                try:
                    future.set_result(context.run(run))
                except BaseException as exc:  # noqa: BLE001 - whatever a tool raises is its result
                    # What ends an iteration may not stand in a future.
                    future.set_exception(RuntimeError(repr(exc)) if isinstance(exc, StopIteration) else exc)

        threading.Thread(target=work, name="offprompt-tool", daemon=True).start()
        return future

    def end(self) -> None:
        """Nothing begins any more."""
        self._over.set()

    def result(self, call: ToolCall, future: Future[ToolRun] | asyncio.Future[ToolRun]) -> ToolRun:
        """What became of a call."""
        if not future.done() or future.cancelled():
            text = f"error: not done within {self._timeout_s:g} s; it may still be running, so do not call it again"
            return ToolRun(call.call_id, call.name, call.arguments, text, ok=False, seconds=self._timeout_s)
        exc = future.exception()
        if exc is not None:
            return ToolRun(call.call_id, call.name, call.arguments, _told(call, exc), ok=False)
        return future.result()


def result_text(value: object) -> str:
    """What a model is told of a tool's result: text as it is, all else as JSON, or as Python writes it."""
    if isinstance(value, str):
        return value or "(empty)"
    if value is None:
        return "done"
    try:
        return compact(msgspec.to_builtins(value, str_keys=True))
    except (TypeError, ValueError):
        return str(value)


async def _whole(value: Any) -> Any:
    return await value


def _answered(call: ToolCall, begun: float, value: object) -> ToolRun:
    seconds = time.perf_counter() - begun
    return ToolRun(call.call_id, call.name, call.arguments, result_text(value), seconds=seconds)


def _told(call: ToolCall, exc: BaseException) -> str:
    """An exception as the model reads it. It may quote what the tool was given: only its kind is logged above DEBUG."""
    if isinstance(exc, ArgumentsError):
        return f"error: not run: {exc}"
    log.warning("the tool %r raised %s", call.name, type(exc).__name__)
    log.debug("the tool %r raised", call.name, exc_info=exc)
    words = " ".join(str(exc).split())
    return f"error: {type(exc).__name__}: {words[:MAX_ERROR_CHARS]}".removesuffix(": ")
