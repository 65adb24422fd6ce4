"""The settings of hosts: those of the page are those that the command prints, and what they start answers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from offprompt.cli import main
from offprompt.mcp.snippets import WHERE, Host, snippet
from tests.house.tree import ROOT
from tests.mcp.conftest import ask

HOSTS: tuple[Host, ...] = get_args(Host)
PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def started(text: str) -> dict[str, Any]:
    """What a host's settings say of the server."""
    settings = json.loads(text)
    return (settings.get("mcpServers") or settings["servers"])["offprompt"]


@pytest.mark.parametrize("host", HOSTS)
def test_the_page_shows_what_the_code_prints(host: Host) -> None:
    assert snippet(host, "offprompt", ["mcp", "--user", "alice"]) + "\n" == SHOWN[HOSTS.index(host)]
    assert re.split("[ ,]", WHERE[host])[0] in PAGE


@pytest.mark.parametrize("host", HOSTS)
def test_what_a_snippet_starts_answers(host: Host, tmp_path: Path) -> None:
    own = started(SHOWN[HOSTS.index(host)])
    assert set(own) <= {"type", "command", "args"}
    command = shutil.which(str(own["command"]), path=str(Path(sys.executable).parent))
    assert command is not None
    environ = {"OFFPROMPT_URL": str(tmp_path / "a.db"), "XDG_DATA_HOME": str(tmp_path)}

    async def talk(client: Client) -> int:
        assert client.server_info is not None
        assert client.server_info.name == "offprompt"
        return len((await client.list_tools()).tools)

    server = StdioServerParameters(command=command, args=own["args"], env=environ)
    assert ask(server, talk, mode="legacy") == 5


def test_the_command_prints_its_own_path_and_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["mcp", "--print-config", "vscode", "--user", "小明 b", "--url", "a.db", "--agent", "x", "--untrusted"]
    assert main(words) == 0
    own = started(capsys.readouterr().out)
    assert Path(own["command"]).is_absolute()
    assert own["args"] == [
        *("mcp", "--url", str(tmp_path / "a.db"), "--user", "小明 b", "--agent", "x"),
        "--untrusted",
    ]
    assert main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["host"], printed["where"]) == ("vscode", ".vscode/mcp.json")
    assert started(printed["text"]) == own
    ran = subprocess.run(
        [own["command"], *own["args"]], input="", env=dict(os.environ), capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_the_page_names_every_tool_argument_and_prompt() -> None:
    from offprompt.service.model_tools import TOOLS  # noqa: PLC0415 - beside what it is held against
    from offprompt.service.model_words import PROMPTS  # noqa: PLC0415

    assert [name for name in TOOLS if f"| `{name}` |" not in PAGE] == []
    rows = {row[0]: row[1] for row in re.findall(r"^\| `(mem_\w+)` \| ([^|]+) \|", PAGE, re.MULTILINE)}
    for name, tool in TOOLS.items():
        assert set(re.findall(r"`(\w+)`", rows[name])) == set(tool.inputs["properties"])
    assert [prompt.title for prompt in PROMPTS if prompt.title not in PAGE] == []


def test_what_the_http_snippet_says_reaches_the_server(tmp_path: Path) -> None:
    own = started(SHOWN[len(HOSTS)])
    environ = {**os.environ, "OFFPROMPT_URL": str(tmp_path / "a.db"), "XDG_DATA_HOME": str(tmp_path)}
    offprompt = [sys.executable, "-m", "offprompt"]
    made = subprocess.run(
        [*offprompt, "key", "create", "host", "--user", "alice"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    key = made.stdout.split()[0]
    listening = subprocess.Popen(
        [*offprompt, "mcp", "--http", "--port", "0"],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert listening.stdout is not None
        first = listening.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", first)
        assert found is not None, first
        assert own["type"] == "http"
        url = own["url"].replace("http://127.0.0.1:7335", found[0])
        headers = {name: value.replace("${OFFPROMPT_KEY}", key) for name, value in own["headers"].items()}

        async def count() -> int:
            async with (
                httpx2.AsyncClient(headers=headers) as http,
                Client(streamable_http_client(url, http_client=http), mode="legacy") as client,
            ):
                return len((await client.list_tools()).tools)

        assert asyncio.run(count()) == 5
    finally:
        listening.terminate()
        listening.communicate()
