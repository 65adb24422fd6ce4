"""The settings files of coding agents: our entries put in and taken out, all others as they are."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from offprompt.errors import UsageError
from offprompt.mcp.snippets import NAME
from offprompt.records import as_dict, as_list

Agent: TypeAlias = Literal["claude-code", "codex", "cursor"]

MCP_FILES: Final[dict[Agent, str]] = {
    "claude-code": ".mcp.json",
    "codex": ".codex/config.toml",
    "cursor": ".cursor/mcp.json",
}
HOOK_FILES: Final[dict[Agent, str]] = {
    "claude-code": ".claude/settings.local.json",  # the personal one: the command names this machine and a user
    "codex": ".codex/hooks.json",
}
HOOKS: Final[dict[Agent, dict[str, str]]] = {
    "claude-code": {"SessionStart": "session-start", "SessionEnd": "session-end"},
    "codex": {"SessionStart": "session-start", "Stop": "session-end"},  # behind each turn: Codex tells no end of all
}
"""What runs when, by the event's name.

Source   https://code.claude.com/docs/en/hooks, https://developers.openai.com/codex/hooks, as of 2026-11.
"""

TIMEOUT_S: Final = 60

BEGIN: Final = f"# {NAME}: written by `offprompt init codex`, taken out by `offprompt init codex --remove`"
END: Final = f"# {NAME}: end"
BLOCK: Final = re.compile(rf"\n*^{re.escape(BEGIN)}$.*?^{re.escape(END)}$\n?", re.MULTILINE | re.DOTALL)


def is_ours(words: Sequence[Any], what: str) -> bool:
    """Whether a command line is one of ours: the program's name, or `-m offprompt`, and then `what`."""
    texts = [word for word in words if isinstance(word, str)]
    program = bool(texts) and Path(texts[0]).name in (NAME, f"{NAME}.exe")
    return what in texts and (program or NAME in texts)


def with_server(text: str, where: str, command: str, words: Sequence[str] | None) -> str:
    """A file of MCP servers in JSON with our entry; None: without.

    Raises   UsageError for what is no JSON, and for an entry of our name that is another program's.
    """

    def change(document: dict[str, Any]) -> None:
        servers = _table(document, "mcpServers", where)
        there = as_dict(servers.get(NAME))
        if NAME in servers and not _is_our_server(there):
            raise UsageError(f"{where} has another server {NAME!r} already; rename it, or take it out, and try again")
        if words is None:
            servers.pop(NAME, None)
        elif there is None or (there.get("command"), there.get("args")) != (command, list(words)):
            kind = {"type": "stdio"} if where.endswith(".mcp.json") else {}
            servers[NAME] = {**kind, **(there or {}), "command": command, "args": list(words)}
        if not servers:
            document.pop("mcpServers")

    return _changed(text, where, change)


def with_hooks(text: str, where: str, hooks: Mapping[str, str]) -> str:
    """A file of hooks in JSON with our command lines by event, in place of those of ours that are there.

    Raises   UsageError for what is no JSON, or has another shape.
    """

    def change(document: dict[str, Any]) -> None:
        events = _table(document, "hooks", where)
        for event in {*hooks, *events}:
            groups = as_list(events.get(event, []))
            if groups is None:
                raise UsageError(f"hooks.{event} in {where} is no list; mend it, and try again")
            kept = [left for group in groups if (left := _without_ours(group, hooks.get(event))) is not None]
            if event in hooks and not any(_has(group, hooks[event]) for group in kept):
                kept.append({"hooks": [{"type": "command", "command": hooks[event], "timeout": TIMEOUT_S}]})
            if kept:
                events[event] = kept
            else:
                events.pop(event, None)
        if not events:
            document.pop("hooks")

    return _changed(text, where, change)


def with_toml_server(text: str, where: str, command: str, words: Sequence[str] | None) -> str:
    """A file of Codex's settings with our server in a marked block at its end; None: without.

    Raises   UsageError for what is no TOML, and for a server of our name outside of the block.
    """
    bare = BLOCK.sub("\n", text) if BEGIN in text else text
    try:
        table = tomllib.loads(bare)
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"{where} is no TOML: {exc}; mend it, and try again") from exc
    if words is None:
        return bare if bare.strip() else ""
    if NAME in (as_dict(table.get("mcp_servers")) or {}):
        raise UsageError(f"{where} has a server {NAME!r} already; rename it, or take it out, and try again")
    lines = [BEGIN, f"[mcp_servers.{NAME}]", f"command = {_toml(command)}"]
    lines += [f"args = [{', '.join(map(_toml, words))}]", END]
    return f"{bare.rstrip()}\n\n".lstrip() + "\n".join(lines) + "\n"


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _is_our_server(entry: dict[str, Any] | None) -> bool:
    return entry is not None and is_ours([entry.get("command"), *(as_list(entry.get("args")) or [])], "mcp")


def _table(document: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    table = as_dict(document.setdefault(name, {}))
    if table is None:
        raise UsageError(f"{name} in {where} is no object; mend it, and try again")
    return table


def _words(hook: Any) -> list[str]:
    command = (as_dict(hook) or {}).get("command")
    try:
        return shlex.split(command) if isinstance(command, str) else []
    except ValueError:  # a shell's own affair
        return []


def _without_ours(group: Any, wanted: str | None) -> Any | None:
    """A group without hooks of ours but the one that is wanted; None if nothing else is left of it."""
    table = as_dict(group)
    hooks = as_list((table or {}).get("hooks"))
    if table is None or hooks is None:
        return group
    kept = [each for each in hooks if not is_ours(_words(each), "hook") or each.get("command") == wanted]
    if kept == hooks:
        return group
    return {**table, "hooks": kept} if kept else None


def _has(group: Any, command: str) -> bool:
    hooks = as_list((as_dict(group) or {}).get("hooks")) or []
    return any((as_dict(each) or {}).get("command") == command for each in hooks)


def _changed(text: str, where: str, change: Callable[[dict[str, Any]], None]) -> str:
    """The text of a JSON object after a change, in its own indent; as it was where nothing changed; `` for none."""
    try:
        document = as_dict(json.loads(text or "{}"))
        before = as_dict(json.loads(text or "{}"))
    except ValueError as exc:
        raise UsageError(f"{where} is no JSON: {exc}; mend it, and try again") from exc
    if document is None:
        raise UsageError(f"{where} holds no object; mend it, and try again")
    change(document)
    if document == before:
        return text
    indent = re.search(r"^\{\s*\n([ \t]+)", text)
    return json.dumps(document, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n" if document else ""
