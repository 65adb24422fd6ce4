"""Agent: a model with tools and a memory, a turn at a time; sync, async, streamed."""

from __future__ import annotations

import inspect
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from offprompt.errors import ModelError, UsageError
from offprompt.protocols import ChatModel
from offprompt.records import AgentReply, Cancel, Reply, Scope
from offprompt.service.agent_stream import (
    AgentStream,
    AsyncAgentStream,
    go_on,
    in_thread,
    next_step,
    prefill_of,
    reply_time,
)
from offprompt.service.agent_turn import AgentTurn, Ask, Talk
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.service.session import Session
from offprompt.service.tool_runs import ToolRunner
from offprompt.service.tool_schemas import function_tools
from offprompt.wire.profiles import SHAPES

MAX_TALKS: Final = 256
"""Conversations that an agent holds in this process; any other is read from the store when it goes on."""


OWN_OPTIONS: Final = ("model", "wire", "system", "tools")
"""Options of a session that the agent itself sets."""


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """What bounds a run.

    rounds         replies with tool calls that are run; one more is answered with a refusal, and then it ends.
    timeout_s      seconds for the whole run; a request has the model's own, where that is less. tool_timeout_s: for all
                   calls of one reply together.
    parallel       calls of one reply that run at once.
    """

    rounds: int = 16
    timeout_s: float = 600.0
    tool_timeout_s: float = 120.0
    parallel: int = 8

    def __post_init__(self) -> None:
        for name in ("rounds", "timeout_s", "tool_timeout_s", "parallel"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < (name == "parallel"):
                raise UsageError(f"{name}={value!r}: give a number of {1 if name == 'parallel' else 0} or more")


class Agent:
    """A model with an opened memory and tools of the application's own.

    memory        an opened memory, or one of its scopes.
    model         such as `offprompt.chat_model("gpt-4o-mini")`. One without native calls: wrap it in `WithoutTools`.
    tools         Python functions; signature and docstring describe them, see docs/agent.md.
    instructions  the system text. temperature: sent with each request; None: the model's own.
    name          the agent's id, for memories of its own; None: what it learns is its user's.
    limits        see AgentLimits. request: further fields of each request, such as `{"max_tokens": 500}`.
    options       those of `BoundScope.session`: policy, mode, actions, capture, derive, context_tokens.

    Safety        any number of threads and tasks; of one session one run at a time.
    Raises        UsageError for tools that cannot be described, and options that are none.
    """

    def __init__(
        self,
        memory: Offprompt | BoundScope,
        model: ChatModel,
        *,
        tools: Sequence[Callable[..., Any]] = (),
        instructions: str = "",
        temperature: float | None = None,
        name: str | None = None,
        limits: AgentLimits = AgentLimits(),
        request: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if isinstance(model, str) or not hasattr(model, "acreate"):
            raise UsageError(f"model={model!r} is no chat model; pass such as offprompt.chat_model('gpt-4o-mini')")
        known = set(inspect.signature(BoundScope.session).parameters) - {"self", "session_id", *OWN_OPTIONS}
        if unknown := sorted(options.keys() - known):
            raise UsageError(
                f"{unknown[0]}={options[unknown[0]]!r} is no option; beside the agent's: {', '.join(sorted(known))}"
            )
        self._memory, self._model, self._name, self._limits = memory, model, name, limits
        self._tools = function_tools(tools)
        self._runner = ToolRunner(self._tools, parallel=limits.parallel, timeout_s=limits.tool_timeout_s)
        self._shape = SHAPES[model.wire]
        self._request = {**({} if temperature is None else {"temperature": temperature}), **(request or {})}
        self._options: dict[str, Any] = {
            "model": model.name,
            "wire": model.wire,
            "system": instructions,
            "tools": [dict(self._shape.tool(each.spec)) for each in self._tools.values()],
            **options,
        }
        self._talks: OrderedDict[Scope, Talk] = OrderedDict()
        self._lock = threading.Lock()

    def run(
        self, text: str, *, user: str | None = None, session: str = "main", cancel: Cancel | None = None
    ) -> AgentReply:
        """The answer to a user's text, in the conversation of that session.

        user      whose memory; None: the opened memory's default, or the scope that the agent was given.
        Tools     run side by side in threads; whatever they raise is what the model is told.
        Again     after a run that failed, the same text goes on with its turn: what was answered stays answered.
        Raises    ModelError if the model fails or `cancel` is called; then the session can go on all the same.
                  ScopeError without a user; ConflictError while another run works on the session.
        """
        turn = self._begin(text, user, session)
        with closing(turn.steps()) as steps:
            step = next_step(steps, None)
            while not isinstance(step, AgentReply):
                if isinstance(step, Ask):
                    raw = self._model.create(step.payload, timeout_s=reply_time(self._model, step), cancel=cancel)
                    turn.prefill += prefill_of(raw)
                    done: Any = _absorbed(turn.talk.session.absorb, raw)
                else:
                    done = self._runner.run(step.calls, left_s=step.left_s, cancel=cancel)
                step = go_on(steps, done, cancel)
            return step

    async def arun(self, text: str, *, user: str | None = None, session: str = "main") -> AgentReply:
        """See `run`; called off by cancelling the task. Coroutine functions among the tools run in this loop."""
        turn = await in_thread(self._begin, text, user, session)
        with closing(turn.steps()) as steps:
            step = await in_thread(next_step, steps, None)
            while not isinstance(step, AgentReply):
                if isinstance(step, Ask):
                    raw = await self._model.acreate(step.payload, timeout_s=reply_time(self._model, step))
                    turn.prefill += prefill_of(raw)
                    done: Any = await in_thread(_absorbed, turn.talk.session.absorb, raw)
                else:
                    done = await self._runner.arun(step.calls, left_s=step.left_s)
                step = await in_thread(next_step, steps, done)
            return step

    def stream(
        self, text: str, *, user: str | None = None, session: str = "main", cancel: Cancel | None = None
    ) -> AgentStream:
        """See `run`: iterate over it for pieces of text as they come, and for tools that have run; then `reply`.

        Raises   as `run`, while iterating. A reader that stops early calls the run off.
        """
        return AgentStream(lambda: self._begin(text, user, session), self._model, self._runner, cancel)

    def astream(self, text: str, *, user: str | None = None, session: str = "main") -> AsyncAgentStream:
        """See `stream`; iterate with `async for`."""
        return AsyncAgentStream(lambda: self._begin(text, user, session), self._model, self._runner)

    def session(self, *, user: str | None = None, session: str = "main") -> Session:
        """The session behind a conversation: its ledger, journal and messages."""
        return self._talk(user, session).session

    def _begin(self, text: str, user: str | None, session: str) -> AgentTurn:
        if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"the text {text!r} says nothing; pass the user's words")
        talk = self._talk(user, session)
        ends = time.monotonic() + self._limits.timeout_s
        return AgentTurn(talk, text, self._request, self._limits.rounds, ends)

    def _scope(self, user: str | None) -> BoundScope:
        """Whose memory. Raises ScopeError without a user: it says how to give one."""
        memory: Any = self._memory  # told apart by what they can do: those of a server are of other classes
        if hasattr(memory, "narrow"):
            return memory.narrow(user=user, agent=self._name)
        return (memory.scope() if user is None else memory.scope(user=user)).narrow(agent=self._name)

    def _talk(self, user: str | None, session: str) -> Talk:
        scope = self._scope(user)
        key = scope.scope.narrow(session=session)
        # The window may be asked of the endpoint; nobody else waits for that.
        options: dict[str, Any] = {"context_tokens": self._model.context_tokens or None, **self._options}
        with self._lock:
            talk = self._talks.pop(key, None) or Talk(scope.session(session, **options), self._shape)
            self._talks[key] = talk
            while len(self._talks) > MAX_TALKS:
                self._talks.popitem(last=False)
            return talk


def _absorbed(absorb: Callable[[object], Reply], raw: object) -> Reply:
    """The reply in what the model sent.

    Raises   ModelError for what is no reply.
    """
    try:
        return absorb(raw)
    except UsageError as exc:
        if type(exc) is not UsageError:
            raise
        raise ModelError(f"the model sent no reply: {exc}", kind="reply") from exc
