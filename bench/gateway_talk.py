"""The conversation of a coding agent: 100 KB a request, made of this repository."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.gateway.constant import MODEL

ROOT = Path(__file__).resolve().parent.parent
REQUEST_BYTES = 100_000
TOPICS = ("stores", "wire", "recall", "the gateway", "sessions", "limits", "keys", "errors")


def files() -> list[str]:
    """What the agent's tools answer: pieces of real files, 1 to 5 KB each."""
    found: list[str] = []
    for at, path in enumerate(sorted((ROOT / "src").rglob("*.py"))):
        text = path.read_text()
        found.append(text[: 1000 + 1000 * (at % 5)])
    return [text for text in found if len(text) > 800]


def tools() -> list[dict[str, Any]]:
    """The agent's own."""
    names = ("read_file", "write_file", "list_files", "search", "run", "test", "format", "lint", "diff", "commit")
    about = {"path": "of the file, from the root", "lines": "which of them, such as 10-80", "reason": "in a few words"}
    fields = {name: {"type": "string", "description": text * 2} for name, text in about.items()}
    schema = {"type": "object", "properties": fields, "required": ["path"]}
    return [
        {
            "type": "function",
            "function": {"name": name, "description": f"To {name} in the project.", "parameters": schema},
        }
        for name in names
    ]


TOOLS = tools()
SYSTEM = (ROOT / "CONTRIBUTING.md").read_text()


@dataclass
class Conversation:
    """An agent's conversation, told from others by its number."""

    number: int
    results: Iterator[str]
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    calls: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.messages.append({"role": "system", "content": SYSTEM})
        while len(self.body()) < REQUEST_BYTES - 3000:
            self.ask()
            self.call()
            self.call()
            self.answered("It is as it was asked for: what both files hold agrees, and the tests of it pass. " * 3)
        self.ask()

    def ask(self) -> None:
        """The user says something."""
        at = next(self.calls)
        topic = TOPICS[at % len(TOPICS)]
        text = f"What did I note about {topic} for project {self.number % 40}? I need it for step {at}."
        self.messages.append({"role": "user", "content": text})

    def call(self) -> None:
        """The model calls a tool, and it answers."""
        call_id = f"call_{self.number}_{next(self.calls)}"
        function = {"name": "read_file", "arguments": json.dumps({"path": f"src/{call_id}.py", "reason": "to see"})}
        call = {"id": call_id, "type": "function", "function": function}
        self.messages.append({"role": "assistant", "content": "Let me see.", "tool_calls": [call]})
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": next(self.results)})

    def answered(self, text: str) -> None:
        """The model's last words."""
        self.messages.append({"role": "assistant", "content": text})

    def goes_on(self, text: str) -> None:
        """The model has answered, and the user asks the next thing."""
        self.answered(text)
        self.ask()

    def body(self, **more: Any) -> bytes:
        """The request for all of it."""
        return json.dumps({"model": MODEL, "messages": self.messages, "tools": TOOLS, **more}).encode()
