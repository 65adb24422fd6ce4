"""OffpromptMiddleware: memory that stays off the prompt, for agents of `langchain.agents.create_agent`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Final, Self
from weakref import WeakValueDictionary

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables.config import ensure_config

from offprompt.client.clients import Client
from offprompt.errors import BackendError, ScopeError, UsageError
from offprompt.integrations.given import reached
from offprompt.integrations.langchain.messages import arguments_of, to_wire
from offprompt.integrations.langchain.model import RememberingModel
from offprompt.integrations.langchain.replies import SECRETS
from offprompt.records import Reply, as_dict
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.service.offprompt import Offprompt
from offprompt.wire.handles import find_handles
from offprompt.wire.options import SessionOptions
from offprompt.wire.profiles import SHAPES

MAX_SECRET_CALLS: Final = 1024
"""Calls with secrets in their arguments that a process holds until they are run."""

EXAMPLE: Final = 'agent.invoke({"messages": […]}, {"configurable": {"thread_id": "t1", "user_id": "alice"}})'
LOST: Final = (
    "not run: its secret was held by a process that is gone, and is not stored; make the same call once more / "
    "未执行：其密文由已结束的进程持有，未被保存；请重新发起同一调用"
)


class OffpromptMiddleware(AgentMiddleware[Any, Any, Any]):
    """Values stay outside the prompt; the model works with names and handles.

    memory    an opened memory: `offprompt.open(…)`, here or on a server.
    agent     the agent's id: what it learns without a user is its own. Give each agent of a graph its own.
    options   of a session: policy, mode, actions, capture, derive, context_tokens; see `BoundScope.session`.
    Whose     `user_id` of the runtime context, else of `configurable`, else the memory's default user.
    Session   `thread_id` of `configurable`: its record is in the memory's store, not in the checkpoint.
    State     holds the conversation as its user sees it: handles resolved, no calls of memory, results whole.
              Secrets are handles there too, and are filled in as a tool runs.
    Middleware behind this one sees the messages of the state; the model alone gets what is sent.
    Raises    UsageError for what is no opened memory, no option, no value of one; ScopeError, as a request comes,
              without a user or a thread.
    Safety    any number of threads and tasks; requests of one conversation come one after the other.
    """

    def __init__(self, memory: Offprompt | Client, *, agent: str | None = None, **options: Any) -> None:
        super().__init__()
        self.tools = []
        memory = reached(memory, "OffpromptMiddleware")
        if unknown := sorted(options.keys() - set(OPTIONS)):
            raise UsageError(f"{unknown[0]}={options[unknown[0]]!r} is no option; there are: {', '.join(OPTIONS)}")
        SessionOptions(**options)  # which says what is no value of an option
        self._memory, self._agent, self._options = memory, agent, options
        self._locks: WeakValueDictionary[tuple[str | None, str], _Conversation] = WeakValueDictionary()
        self._secrets: OrderedDict[str, str] = OrderedDict()

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """The request with its model remembering."""
        return handler(request.override(model=self._remembering(request)))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """See `wrap_model_call`."""
        return await handler(request.override(model=self._remembering(request)))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """The call with its secrets filled in."""
        filled = self._filled(request)
        return filled if isinstance(filled, ToolMessage) else handler(filled)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """See `wrap_tool_call`."""
        filled = self._filled(request)
        return filled if isinstance(filled, ToolMessage) else await handler(filled)

    def _remembering(self, request: Any) -> RememberingModel:
        """The request's model with its session around it; nothing is asked of the store yet."""
        inner = request.model
        if getattr(inner, "use_previous_response_id", False):
            raise UsageError("use_previous_response_id has the provider hold the conversation; leave it out")
        configurable = as_dict(ensure_config().get("configurable")) or {}
        thread, user = thread_of(configurable), user_of(request.runtime, configurable)
        name = str(getattr(inner, "model_name", None) or getattr(inner, "model", None) or "")
        known = as_dict(getattr(inner, "profile", None)) or {}
        options = {"context_tokens": known.get("max_input_tokens"), **self._options, "model": name, "wire": "openai"}

        def opened(tools: Sequence[Mapping[str, Any]]) -> Any:
            return self._scope(user).session(thread, tools=[dict(each) for each in tools] or None, **options)

        def told(raw: AIMessage, reply: Reply) -> Mapping[str, str]:
            return self._told(lambda: self._scope(user).narrow(session=thread), raw, reply)

        return RememberingModel(
            inner=inner,
            open=opened,
            told=told,
            lock=self._locks.setdefault((user, thread), _Conversation()),
            passes=isinstance(self._memory, Client) or self._memory.parts.settings.on_trouble == "pass",
            model_name=name,
            profile=inner.profile,
            disable_streaming=inner.disable_streaming,
        )

    def _scope(self, user: str | None) -> Any:
        try:
            scope = self._memory.scope() if user is None else self._memory.scope(user=user)
        except ScopeError as exc:
            if user is not None:
                raise
            raise ScopeError(f"no user_id: say whose memory it is, e.g. {EXAMPLE}") from exc
        return scope.narrow(agent=self._agent)

    def _told(self, scope: Callable[[], Any], raw: AIMessage, reply: Reply) -> dict[str, str]:
        """The arguments as the state holds them, where a secret stands in those that the tool gets."""
        given = {call.call_id: call.arguments for call in SHAPES["openai"].calls(to_wire(raw))}
        told: dict[str, str] = {}
        for call in reply.tool_calls:
            arguments = given.get(call.call_id, call.arguments)
            if arguments != call.arguments and _holds_secret(scope, arguments):
                told[call.call_id] = arguments
                self._secrets[call.call_id] = call.arguments
        while len(self._secrets) > MAX_SECRET_CALLS:
            self._secrets.popitem(last=False)
        return told

    def _filled(self, request: Any) -> Any:
        """The request with its secrets; a message that says it was not run, if nobody knows them any more."""
        call = request.tool_call
        arguments = self._secrets.get(str(call["id"]))
        if arguments is not None:
            return request.override(tool_call={**call, "args": arguments_of(arguments)})
        state: Any = request.state
        given = as_dict(state)
        messages: Any = getattr(state, "messages", []) if given is None else given.get("messages", [])
        marks = [each.response_metadata.get(SECRETS, ()) for each in messages if isinstance(each, AIMessage)]
        if any(call["id"] in mark for mark in marks):
            return ToolMessage(LOST, tool_call_id=str(call["id"]), name=call["name"], status="error")
        return request


OPTIONS: Final = ("policy", "mode", "actions", "capture", "derive", "context_tokens")


class _Conversation:
    """The lock of a conversation; it may be let go of in another thread than took it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _holds_secret(scope: Callable[[], Any], arguments: str) -> bool:
    """Whether a handle in the arguments is a secret's; where the store fails it may be."""
    names = {found.name for found in find_handles(arguments)}
    slots = [name for name in names if not name.startswith(("@", RESERVED_PREFIX))]
    try:
        known = [scope().slots.get(name, touch=False) for name in slots]
    except BackendError:
        return True
    return any(slot is None or slot.policy == "never" for slot in known)


def thread_of(configurable: Mapping[str, Any]) -> str:
    """The session's id: the thread, and which graph within it.

    Raises   ScopeError if the config names no thread.
    """
    thread = configurable.get("thread_id")
    if thread is None or not str(thread):
        raise ScopeError(f"no thread_id: say which conversation it is, e.g. {EXAMPLE}")
    within = str(configurable.get("checkpoint_ns") or "").split("|")[:-1]
    return "/".join([str(thread), *(part.partition(":")[0] for part in within)])


def user_of(runtime: Any, configurable: Mapping[str, Any]) -> str | None:
    """Whose conversation it is, None if neither context nor config says so."""
    context: Any = getattr(runtime, "context", None)
    given = as_dict(context)
    named: Any = getattr(context, "user_id", None) if given is None else given.get("user_id")
    user = named if named is not None else configurable.get("user_id")
    return None if user is None else str(user)
