"""What four hosts want in their settings to start the server, or to reach one."""

from __future__ import annotations

import json
from typing import Any, Final, Literal, TypeAlias

Host: TypeAlias = Literal["claude-desktop", "claude-code", "cursor", "vscode"]

NAME: Final = "offprompt"
PORT: Final = 7335
PATH: Final = "/mcp"
"""Where it listens over HTTP."""

WHERE: Final[dict[Host, str]] = {
    "claude-desktop": "claude_desktop_config.json (Settings, Developer, Edit Config)",
    "claude-code": ".mcp.json in the project's folder",
    "cursor": "~/.cursor/mcp.json, or .cursor/mcp.json in the project's folder",
    "vscode": ".vscode/mcp.json",
}
"""The file of each host that the snippet belongs into."""


def snippet(host: Host, command: str, arguments: list[str]) -> str:
    """The settings of a host as JSON text; arguments: of the command, `mcp` first."""
    started: dict[str, Any] = {"command": command, "args": arguments}
    if host in ("claude-code", "vscode"):
        started = {"type": "stdio", **started}
    return json.dumps({"servers" if host == "vscode" else "mcpServers": {NAME: started}}, indent=2, ensure_ascii=False)
