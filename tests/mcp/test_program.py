"""`offprompt mcp` as a program: what a host starts, feeds and kills, and two of them over one store."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import offprompt
from offprompt.cli.errors import PIPE_CLOSED
from tests.mcp.conftest import ask, program, said

HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def started(store: Path, *arguments: str) -> subprocess.Popen[str]:
    """The program over pipes of our own."""
    own = program(store, "--user", "alice", *arguments)
    return subprocess.Popen(
        [own.command, *own.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(own.env or {})},
    )


def sent(process: subprocess.Popen[str], *messages: object) -> None:
    assert process.stdin is not None
    for message in messages:
        process.stdin.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    process.stdin.flush()


def answered(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def written(number: int, **arguments: object) -> dict[str, Any]:
    params = {"name": "mem_write", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_host_starts_it_and_finds_what_was_written(tmp_path: Path, mode: str) -> None:
    async def talk(client: Client) -> None:
        assert not (await client.call_tool("mem_write", {"name": "城市", "value": "里斯本"})).is_error
        assert said(await client.call_tool("mem_read", {"name": "城市"})).endswith("里斯本")
        assert len((await client.list_tools()).tools) == 5
        assert len((await client.list_prompts()).prompts) == 4

    ask(program(tmp_path / "a.db", "--user", "alice"), talk, mode=mode)
    with offprompt.open(tmp_path / "a.db") as memory:
        assert memory.scope(user="alice").read("城市") == "里斯本"


def test_stdout_carries_the_protocol_alone_and_closed_stdin_ends_it(tmp_path: Path) -> None:
    process = started(tmp_path / "a.db")
    sent(process, HELLO)
    assert answered(process)["result"]["serverInfo"]["name"] == "offprompt"
    noise = ("", "{", "[]", '{"jsonrpc": "2.0"}', "\u0000", '"text"', "null", json.dumps(READY)[:-3])
    sent(process, READY, *noise, written(1, name="city", value="Lisbon"))
    answers = [answered(process)]
    while answers[-1].get("id") != 1:
        answers.append(answered(process))
    assert answers[-1]["result"]["structuredContent"] == {"name": "city", "version": 1}
    sent(process, *(written(number, name=f"n{number}", value="x") for number in range(2, 30)))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
    acknowledged = {f"n{answer['id']}" for answer in map(json.loads, out.splitlines()) if "result" in answer}
    with offprompt.open(tmp_path / "a.db") as memory:
        assert memory.scope(user="alice").slots.snapshot().keys() >= acknowledged | {"city"}


def test_a_host_that_has_left_is_no_trouble(tmp_path: Path) -> None:
    process = started(tmp_path / "a.db")
    sent(process, HELLO)
    assert answered(process)
    assert process.stdout is not None
    process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        sent(process, READY, *(written(number, name=f"n{number}", value="x") for number in range(1, 9)))
    assert process.stdin is not None
    assert process.stderr is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    assert process.wait(timeout=60) == PIPE_CLOSED
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_it_has_lost_nothing_that_was_acknowledged(tmp_path: Path, number: signal.Signals) -> None:
    process = started(tmp_path / "a.db")
    sent(process, HELLO, READY, *(written(at, name=f"n{at}", value="x") for at in range(1, 60)))
    acknowledged = [answered(process)["id"] for _ in range(20)]
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == -number
    acknowledged += [json.loads(line)["id"] for line in out.splitlines() if line.endswith("}")]
    with offprompt.open(tmp_path / "a.db") as memory:
        kept = memory.scope(user="alice").slots.snapshot()
    assert kept.keys() >= {f"n{at}" for at in acknowledged if at}


async def hand(store: Path, own: str) -> None:
    """Writes 100 slots and 100 memories, and counts 25 up, through a server of its own."""
    target = program(store, "--user", "alice")
    assert target.env is not None
    target.env |= {"OFFPROMPT_MAX_SLOTS": "1000", "OFFPROMPT_WRITES_PER_MINUTE": "0"}
    async with Client(target) as client:
        for number in range(100):
            assert not (await client.call_tool("mem_write", {"name": f"{own}_{number}", "value": own})).is_error
            assert not (await client.call_tool("mem_write", {"value": f"{own} saw bird {number} fly by"})).is_error
        counted = 0
        while counted < 25:
            read = (await client.call_tool("mem_read", {"name": "count"})).structured_content
            after = {"name": "count", "value": str(int(read["value"]) + 1), "if_version": read["version"]}
            counted += not (await client.call_tool("mem_write", after)).is_error


def test_two_servers_over_one_store_lose_nothing(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    with offprompt.open(store) as memory:
        memory.scope(user="alice").write("count", "0")

    async def both() -> None:
        await asyncio.gather(hand(store, "left"), hand(store, "right"))

    asyncio.run(both())
    with offprompt.open(store) as memory:
        alice = memory.scope(user="alice")
        assert alice.read("count") == "50"
        names = {slot.name for slot in alice.slots.list("*_*")}
        assert names >= {f"{own}_{number}" for own in ("left", "right") for number in range(100)}
        texts = {one.text for one in alice.memories.list(limit=1000)}
        assert texts >= {f"{own} saw bird {number} fly by" for own in ("left", "right") for number in range(100)}


def ended(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "offprompt", "mcp", *arguments]
    return subprocess.run(command, input="", capture_output=True, text=True, env={**os.environ, **environ}, check=False)


def test_without_a_scope_it_does_not_start(tmp_path: Path) -> None:
    ran = ended("--url", str(tmp_path / "a.db"))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "say whose memory it is" in ran.stderr
    assert ended("--url", str(tmp_path / "a.db"), OFFPROMPT_USER="alice").returncode == 0


def test_without_the_extra_it_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ImportError('no module named mcp')", encoding="utf-8")
    ran = ended("--url", str(tmp_path / "a.db"), "--user", "alice", PYTHONPATH=str(tmp_path))
    assert (ran.returncode, ran.stdout) == (4, "")
    assert ran.stderr == "offprompt: the MCP SDK is not installed; run: pip install 'offprompt[mcp]'\n"


def test_over_http_it_asks_for_the_token_and_for_no_web_page(tmp_path: Path) -> None:
    own = program(tmp_path / "a.db", "--user", "alice", "--http", "--port", "0", "--json")
    environ = {**os.environ, **(own.env or {}), "XDG_DATA_HOME": str(tmp_path / "data")}
    process = subprocess.Popen(
        [own.command, *own.args, "--log", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
    )
    assert process.stdout is not None
    listening = json.loads(process.stdout.readline())
    url, file = listening["url"], Path(listening["token_file"])
    assert file.stat().st_mode & 0o777 == 0o600
    shown = {"Authorization": f"Bearer {file.read_text(encoding='ascii')}"}

    async def talk() -> list[int]:
        async with httpx2.AsyncClient(headers=shown) as http:
            async with Client(streamable_http_client(url, http_client=http)) as client:
                await client.call_tool("mem_write", {"name": "city", "value": "Lisbon"})
            async with Client(streamable_http_client(url, http_client=http), mode="legacy") as client:
                assert said(await client.call_tool("mem_read", {"name": "city"})).endswith("Lisbon")
            pages: list[dict[str, str]] = [
                {"Origin": "http://evil.example"},
                {"Host": "evil.example"},
                {"Sec-Fetch-Site": "cross-site"},
                {"Authorization": "Bearer other"},
                {"Authorization": ""},
            ]
            return [(await http.post(url, json=HELLO, headers=page)).status_code for page in pages]

    assert asyncio.run(talk()) == [403, 403, 403, 401, 401]
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert not file.exists()
    lines = [json.loads(line) for line in err.splitlines()]
    asked = [line for line in lines if line.get("route")]
    assert {line["route"] for line in asked} == {"/mcp"}
    assert [line["status"] for line in asked][-5:] == [403, 403, 403, 401, 401]
    assert "Lisbon" not in err


def test_off_the_loopback_it_does_not_start_without_a_key(tmp_path: Path) -> None:
    ran = ended("--url", str(tmp_path / "a.db"), "--http", "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert ran.returncode == 2
    assert "make one with `offprompt key create NAME`" in ran.stderr
