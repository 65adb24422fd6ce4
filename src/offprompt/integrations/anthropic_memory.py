"""Anthropic's memory tool `memory_20250818` on slots, for the tool runner of the SDK `anthropic`."""

from __future__ import annotations

import asyncio
from typing import Any

from offprompt.client.clients import Client
from offprompt.errors import OffpromptError, UnsupportedError
from offprompt.integrations.given import door_of, reached
from offprompt.records import Trust, as_list
from offprompt.records.values import is_whole
from offprompt.service.memory_files import MemoryFiles
from offprompt.service.memory_tree import FileError
from offprompt.service.offprompt import Offprompt

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ImportError as exc:
    raise UnsupportedError("the SDK anthropic is not installed; run: pip install 'offprompt[anthropic]'") from exc


class OffpromptMemoryTool(BetaAbstractMemoryTool):
    """The memory tool for `client.beta.messages.tool_runner(tools=[…])`: files under /memories are slots of a scope.

    memory         an opened memory, here or on a server. user, agent: whose files; None: the memory's default.
    trust          `tool` where what the model writes may come from a web page or a mail; see docs/mcp.md.
    cache_control  as the SDK's own tool takes it.
    Answers        word for word those of the SDK's local file tool; the size of a folder is that of its files.
    Raises         UsageError for what is no opened memory; ScopeError without a user or an agent. What a command cannot
                   do is told to the model.
    Safety         any number of threads, tools and processes on one scope.
    """

    def __init__(
        self,
        memory: Offprompt | Client,
        *,
        user: str | None = None,
        agent: str | None = None,
        trust: Trust = "user",
        cache_control: Any = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        memory = reached(memory, type(self).__name__)
        bound = memory.scope(user=user, agent=agent)
        self._files = MemoryFiles(door_of(memory, bound, trust=trust, via="memory tool"))

    def execute(self, command: Any) -> str:
        """The answer to a command; ToolError with what the model is told."""
        return _answer(self._files, command)

    def clear_all_memory(self) -> str:
        """Hide all files."""
        return self._files.clear()

    view = create = str_replace = insert = delete = rename = execute


class AsyncOffpromptMemoryTool(BetaAsyncAbstractMemoryTool):
    """See OffpromptMemoryTool, with its options; for the runner of `AsyncAnthropic`. The store is asked in a thread."""

    def __init__(self, memory: Offprompt | Client, *, cache_control: Any = None, **options: Any) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = OffpromptMemoryTool(reached(memory, type(self).__name__), **options)

    async def execute(self, command: Any) -> str:
        """See OffpromptMemoryTool."""
        return await asyncio.to_thread(self._tool.execute, command)

    async def clear_all_memory(self) -> str:
        """See OffpromptMemoryTool."""
        return await asyncio.to_thread(self._tool.clear_all_memory)

    view = create = str_replace = insert = delete = rename = execute


def _answer(files: MemoryFiles, command: Any) -> str:
    """What a command answers; models leave fields out, and the SDK does not look."""
    try:
        match command.command:
            case "view":
                return files.view(_text(command, "path"), _lines(command))
            case "create":
                return files.create(_text(command, "path"), _text(command, "file_text"))
            case "str_replace":
                return files.str_replace(*(_text(command, name) for name in ("path", "old_str", "new_str")))
            case "insert":
                if not is_whole(line := getattr(command, "insert_line", None)):
                    raise FileError(f"The command insert needs `insert_line`, a whole number, got: {line!r}")
                return files.insert(_text(command, "path"), line, _text(command, "insert_text"))
            case "delete":
                return files.delete(_text(command, "path"))
            case "rename":
                return files.rename(_text(command, "old_path"), _text(command, "new_path"))
            case other:
                known = "view, create, str_replace, insert, delete, rename"
                raise FileError(f"There is no command {str(other)[:40]!r}; the commands are: {known}")
    except OffpromptError as exc:
        raise ToolError(str(exc)) from exc


def _text(command: Any, name: str) -> str:
    value = getattr(command, name, None)
    if not isinstance(value, str):
        raise FileError(f"The command {command.command} needs `{name}`, a text")
    return value


def _lines(command: Any) -> list[int] | None:
    given = getattr(command, "view_range", None)
    lines = as_list(given)
    if given is None or (lines is not None and len(lines) == 2 and all(map(is_whole, lines))):
        return lines
    raise FileError("`view_range` is a first and a last line, such as [1, 20]; -1 as the last: to the end")
