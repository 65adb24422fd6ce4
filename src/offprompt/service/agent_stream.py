"""A run of an agent that is read as it comes, and what all ways of running one have in common."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, TypeAlias, TypeVar

from offprompt.errors import ModelError, UsageError
from offprompt.protocols import ChatModel
from offprompt.records import AgentReply, Cancel, Reply, ToolRun, as_dict
from offprompt.service.agent_turn import AgentTurn, Ask, Steps
from offprompt.service.tool_runs import ToolRunner
from offprompt.wire.streamed import AsyncStreamedReply, StreamedReply
from offprompt.wire.streams import spoken
from offprompt.wire.thinking import ThoughtFilter

T = TypeVar("T")
Begin: TypeAlias = Callable[[], AgentTurn]


class Timed:
    """The chunks of one reply on their way, and when they began: as they say themselves, else by the clock.

    Raises   ModelError where a stream ends without any: then there is no reply to absorb.
    """

    def __init__(self) -> None:
        self._begun, self.prefill = time.monotonic(), list[float]()

    def through(self, chunks: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The chunks."""
        for chunk in chunks:
            yield self._saw(chunk)
        self._check()

    async def athrough(self, chunks: AsyncIterable[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """The chunks."""
        async for chunk in chunks:
            yield self._saw(chunk)
        self._check()

    def _saw(self, chunk: dict[str, Any]) -> dict[str, Any]:
        if not self.prefill:
            self.prefill = [time.monotonic() - self._begun]
        self.prefill = prefill_of(chunk) or self.prefill
        return chunk

    def _check(self) -> None:
        if not self.prefill:
            raise ModelError("the model's stream ended before anything came; ask again", kind="reply")


class AgentStream:
    """A run that is read as it comes: iterate once, for pieces of text and for each ToolRun; then `reply` is the whole.

    Text without thinking; that of replies that call tools comes too, before their ToolRuns.
    """

    def __init__(self, begin: Begin, model: ChatModel, runner: ToolRunner, cancel: Cancel | None) -> None:
        self._begin, self._model, self._runner, self._cancel = begin, model, runner, cancel
        self._reply: AgentReply | None = None

    def __iter__(self) -> Iterator[str | ToolRun]:
        turn = self._begin()
        with closing(turn.steps()) as steps:
            step = next_step(steps, None)
            while not isinstance(step, AgentReply):
                if isinstance(step, Ask):
                    done: Any = yield from self._streamed(turn, step)
                else:
                    done = self._runner.run(step.calls, left_s=step.left_s, cancel=self._cancel)
                    yield from done
                step = go_on(steps, done, self._cancel)
            self._reply = step

    def _streamed(self, turn: AgentTurn, step: Ask) -> Generator[str, None, Reply]:
        chunks, told = (
            self._model.stream(step.payload, timeout_s=reply_time(self._model, step), cancel=self._cancel),
            ThoughtFilter(),
        )
        try:
            timed = Timed()
            streamed = StreamedReply(turn.talk.session.stream_reader(), timed.through(chunks))
            for chunk in streamed:
                if piece := told.feed(spoken(chunk, self._model.wire)):
                    yield piece
            if piece := told.finish():
                yield piece
        finally:
            chunks.close()
        turn.prefill += timed.prefill
        return streamed.reply

    @property
    def reply(self) -> AgentReply:
        """The reply as `run` gives it.

        Raises   UsageError before the stream was read to its end.
        """
        return _whole(self._reply)


class AsyncAgentStream:
    """See `AgentStream`; iterate with `async for`."""

    def __init__(self, begin: Begin, model: ChatModel, runner: ToolRunner) -> None:
        self._begin, self._model, self._runner = begin, model, runner
        self._reply: AgentReply | None = None

    async def __aiter__(self) -> AsyncIterator[str | ToolRun]:
        turn = await in_thread(self._begin)
        with closing(turn.steps()) as steps:
            step = await in_thread(next_step, steps, None)
            while not isinstance(step, AgentReply):
                if isinstance(step, Ask):
                    chunks, told = (
                        self._model.stream(step.payload, timeout_s=reply_time(self._model, step)),
                        ThoughtFilter(),
                    )
                    try:
                        timed = Timed()
                        reader = await in_thread(turn.talk.session.stream_reader)
                        streamed = AsyncStreamedReply(reader, timed.athrough(chunks))
                        async for chunk in streamed:
                            if piece := told.feed(spoken(chunk, self._model.wire)):
                                yield piece
                        if piece := told.finish():
                            yield piece
                    finally:
                        chunks.close()
                    turn.prefill += timed.prefill
                    done: Any = streamed.reply
                else:
                    done = await self._runner.arun(step.calls, left_s=step.left_s)
                    for ran in done:
                        yield ran
                step = await in_thread(next_step, steps, done)
            self._reply = step

    @property
    def reply(self) -> AgentReply:
        """See `AgentStream.reply`."""
        return _whole(self._reply)


def reply_time(model: ChatModel, step: Ask) -> float:
    """The seconds that one request may take: what the run has left, or the model's own time, where it has one."""
    own = getattr(model, "timeout_s", None)
    return step.left_s if own is None else min(own, step.left_s)


def prefill_of(reply: Mapping[str, Any]) -> list[float]:
    """The seconds that an endpoint says it read before it answered; none if it does not."""
    spent = (as_dict(reply.get("timings")) or {}).get("prompt_ms")
    return [spent / 1000] if isinstance(spent, (int, float)) else []


def next_step(steps: Steps, done: Any) -> Any:
    """The next step of a turn; its reply at the end, as a value: no exception that ends an iteration leaves here."""
    try:
        return steps.send(done)
    except StopIteration as end:
        return end.value


def go_on(steps: Steps, done: Any, cancel: Cancel | None) -> Any:
    """The next step, unless the run was called off meanwhile."""
    if cancel is not None and cancel.cancelled:
        raise ModelError("the run was called off; the session goes on from what is stored", kind="cancelled")
    return next_step(steps, done)


async def in_thread(call: Callable[..., T], *given: Any) -> T:
    """The call in a worker thread; a cancelled task waits for its end, so that nothing works on behind it."""
    task = asyncio.ensure_future(asyncio.to_thread(call, *given))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _whole(reply: AgentReply | None) -> AgentReply:
    if reply is None:
        raise UsageError("the run was not read to its end; iterate over it first, then ask for its reply")
    return reply
