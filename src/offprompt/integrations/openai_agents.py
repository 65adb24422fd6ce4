"""OpenAI Agents SDK: its sessions in the store, and the memory's tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from offprompt.client.clients import Client
from offprompt.errors import UnsupportedError
from offprompt.integrations.given import door_of, opened, reached, transcript_of
from offprompt.records import Trust, as_dict, as_list
from offprompt.service.model_answers import Answer
from offprompt.service.model_tools import TOOLS, toolbox
from offprompt.service.offprompt import Offprompt
from offprompt.service.transcripts import Item, Kind
from offprompt.wire.options import Capture

try:
    from agents import FunctionTool
    from agents.memory import SessionABC, SessionSettings
except ImportError as exc:
    raise UnsupportedError("openai-agents is not installed; run: pip install 'offprompt[openai-agents]'") from exc


class OffpromptSession(SessionABC):
    """A conversation for `Runner.run(agent, text, session=…)`, kept in the store: any process goes on with it.

    session_id  the conversation's id. memory: an opened memory. user, agent: whose; None: the memory's default.
    capture     what user and model say becomes memories of the user too: `all`, `user`, `off`; None: as the setting
                `capture` says. Behind the gateway, which remembers by itself, `off`.
    settings    the SDK's: how many items a run reads.
    See         Transcript for what is redacted, how long it lives, and what it raises. The store is asked in a thread.
    """

    def __init__(
        self,
        session_id: str,
        memory: Offprompt,
        *,
        user: str | None = None,
        agent: str | None = None,
        capture: Capture | None = None,
        settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = settings or SessionSettings()
        bound = opened(memory, "OffpromptSession").scope(user=user, agent=agent)
        self._transcript = transcript_of(memory, bound, session_id, capture)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The items, oldest first; the newest `limit` of them, None: as the settings say."""
        settings = self.session_settings
        most = settings.limit if limit is None and settings is not None else limit
        return await asyncio.to_thread(self._transcript.items, most)

    async def add_items(self, items: list[Any]) -> None:
        """Store items behind the others, all or none."""
        await asyncio.to_thread(self._transcript.add, [_item(item) for item in items])

    async def pop_item(self) -> Any | None:
        """Take the newest item away, with what was remembered of it; None if there is none."""
        return await asyncio.to_thread(self._transcript.pop)

    async def clear_session(self) -> None:
        """Erase the conversation; what was remembered of it stays."""
        await asyncio.to_thread(self._transcript.clear)


def memory_tools(
    memory: Offprompt | Client, *, user: str | None = None, agent: str | None = None, trust: Trust = "user"
) -> list[FunctionTool]:
    """The five tools of docs/mcp.md, for `Agent(tools=[…])`: mem_write, mem_read, mem_forget, mem_search, mem_list.

    memory   an opened memory, here or on a server.
    trust    of what the model writes: `tool` where it reads pages or mails of others.
    Raises   UsageError for what is no opened memory; ScopeError without a user or an agent.
    """
    memory = reached(memory, "memory_tools")
    run = toolbox(door_of(memory, memory.scope(user=user, agent=agent), trust=trust, via="openai-agents"))
    return [
        FunctionTool(
            name=tool.name,
            description=tool.description("en"),
            params_json_schema=dict(tool.inputs),
            on_invoke_tool=_invoking(run, tool.name),
            strict_json_schema=False,
        )
        for tool in TOOLS.values()
    ]


def _invoking(run: Callable[[str, Mapping[str, Any]], Answer], name: str) -> Callable[[Any, str], Any]:
    async def invoke(_context: Any, given: str) -> str:
        try:
            arguments = as_dict(json.loads(given or "{}"))
        except ValueError:
            arguments = None
        if arguments is None:
            return f"the arguments of {name} are no JSON object; {TOOLS[name].takes()}"
        return (await asyncio.to_thread(run, name, arguments)).text

    return invoke


def _item(value: Any) -> Item:
    """An item of the responses API as the transcript keeps it."""
    item = as_dict(value) or {}
    role, kind = item.get("role"), str(item.get("type", ""))
    if role in ("user", "assistant"):
        return Item(role, value, _words(item.get("content")))
    if role in ("system", "developer"):
        return Item("system", value, _words(item.get("content")))
    by_type: Kind = "tool" if kind.endswith("_output") else "assistant"
    return Item(by_type, value)


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [as_dict(part) or {} for part in as_list(content) or ()]
    return "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
