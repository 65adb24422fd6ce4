"""What the page of clients shows: its Python runs as it stands, before a gateway that wants a key."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

import offprompt
from offprompt.gateway.app import Gateway, GatewayOptions
from offprompt.gateway.upstream import Target, Upstreams
from offprompt.gateway.who import Who
from offprompt.records import Identity
from offprompt.testing.strict_server import StrictServer
from tests.gateway.conftest import ALICE, nobody, served
from tests.house.tree import ROOT
from tests.langchain_clients import forget_clients
from tests.service.talk import flat

PAGE = (ROOT / "docs" / "gateway-clients.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
RUN = [name for name, text in SECTIONS.items() if "*Run: " in text and "```py" in text]
KEY = "op_key_of_alice"


def ship(order: str) -> str:
    """Ship an order."""
    return order


def answer(**_: Any) -> str:
    return "Ulm."


def identify(headers: Mapping[str, str]) -> Identity:
    return ALICE if headers["offprompt-key"] == KEY else nobody(headers)


async def run(code: str, names: dict[str, Any]) -> None:
    """Runs the block, and lets go of what it opened."""
    ran = eval(compile(code, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)  # noqa: S307 - our own page
    if inspect.isawaitable(ran):
        await ran
    for each in list(names.values()):
        held = [getattr(each, name, None) for name in ("client", "root_client", "_client")]
        clients: list[Any] = [each, *held]
        for client in clients:
            if type(client).__module__.startswith(("openai.", "anthropic.", "openai", "anthropic")):
                closed = client.close() if hasattr(client, "close") else None
                if inspect.isawaitable(closed):
                    await closed
    forget_clients()


@pytest.mark.parametrize("section", RUN)
def test_the_code_of_a_client_runs_and_has_memory(section: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-theirs")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-theirs")
    blocks = re.findall(r"^```py\n(.*?)^```$", SECTIONS[section], re.MULTILINE | re.DOTALL)
    with offprompt.open(":memory:") as memory, StrictServer(answer) as upstream:
        memory.scope(user="alice").write("home_city", "Ulm an der Donau")
        app = Gateway(Who(memory, identify, None), Upstreams([Target(upstream.url)]), GatewayOptions())
        with served(app) as url:
            for block in blocks:
                code = block.replace("http://127.0.0.1:7334", url).replace("op_…", KEY)
                messages = [{"role": "user", "content": "What is my home city?"}]
                asyncio.run(run(code, {"messages": messages, "ship": ship}))
    assert upstream.faults == []
    calls = sum(block.count(way) for block in blocks for way in (".create(", ".invoke(", ".run("))
    assert len(upstream.requests) == calls
    assert all("Ulm an der Donau" in flat(request) for request in upstream.requests)


def test_each_section_says_whether_it_was_run_and_its_settings_can_be_read() -> None:
    assert {"OpenAI SDK", "Anthropic SDK", "LangChain and LangGraph", "pydantic-ai"} <= set(RUN)
    assert [name for name, text in SECTIONS.items() if not re.match(r"\n\*(Run: |Not run)", text)] == []
    (codex,) = re.findall(r"^```toml\n(.*?)^```$", SECTIONS["Codex"], re.MULTILINE | re.DOTALL)
    assert json.dumps(tomllib.loads(codex)).count("7334") == 1
