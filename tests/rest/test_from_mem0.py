"""The page "From mem0 in five minutes": its commands run, in order, but for the port."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

import offprompt
from tests.house.tree import ROOT
from tests.servers import free_port
from tools.blocks import BLOCK, NOT_RUN, fitting

WAIT_S = 60.0
SERVE = "offprompt serve"


def test_the_commands_of_the_page_run_and_print_what_it_shows(tmp_path: Path) -> None:
    # Three programs begin one after another, and each takes two seconds to load: the key's, the server, their client.
    page = (ROOT / "docs" / "from-mem0.md").read_text(encoding="utf-8")
    port = str(free_port())
    blocks = [(kind, code.replace("7333", port)) for kind, code in BLOCK.findall(page)]
    commands, moving = (code.splitlines() for kind, code in blocks if kind == "bash")
    at = next(number for number, (kind, _) in enumerate(blocks) if kind == "py")
    program, shown = blocks[at][1], blocks[at + 1][1]
    assert [one for one in commands if one.startswith(SERVE)]

    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OFFPROMPT_", "MEM0_"))}
    environ |= {
        "PATH": f"{Path(sys.executable).parent}:{environ['PATH']}",
        "OFFPROMPT_URL": str(tmp_path / "own.db"),
        "MEM0_DIR": str(tmp_path / "mem0"),
    }
    before = [one for one in commands if not one.startswith((*NOT_RUN, SERVE))]
    serve = next(one for one in commands if one.startswith(SERVE))
    exported = subprocess.run(
        ["bash", "-ec", "\n".join([*before, "env"])],
        env=environ,
        text=True,
        capture_output=True,
        check=True,
    )
    environ |= dict(re.findall(r"^(MEM0_\w+)=(.*)$", exported.stdout, re.MULTILINE))
    assert environ["MEM0_API_KEY"].startswith("op_")
    with subprocess.Popen(serve.split(), env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(f"http://127.0.0.1:{port}/health")
            ran = subprocess.run(
                [sys.executable, "-c", program], env=environ, text=True, capture_output=True, check=False
            )
            there = listed(f"http://127.0.0.1:{port}", environ["MEM0_API_KEY"], "小明")
        finally:
            server.terminate()
    assert ran.returncode == 0, ran.stderr
    printed = ran.stdout.splitlines()
    assert len(printed) == len(shown.splitlines()), ran.stdout
    assert [line for line, wanted in zip(printed, shown.splitlines(), strict=True) if not fitting(line, wanted)] == []
    assert moved(moving, there, tmp_path, environ) == sorted(one["memory"] for one in there)


def listed(url: str, key: str, user: str) -> list[dict[str, Any]]:
    """What `client.get_all` lists of a user."""
    body = {"filters": {"user_id": user}}
    answer = httpx.post(f"{url}/v3/memories/", headers={"Authorization": f"Token {key}"}, json=body)
    return answer.raise_for_status().json()["results"]


def moved(commands: list[str], results: list[dict[str, Any]], folder: Path, environ: dict[str, str]) -> list[str]:
    """What a user has in another memory, into which the page's commands moved what was listed."""
    (folder / "export.json").write_text(json.dumps({"results": results}), encoding="utf-8")
    other = str(folder / "other.db")
    subprocess.run(
        ["bash", "-ec", "\n".join(commands)],
        env={**environ, "OFFPROMPT_URL": other},
        cwd=folder,
        text=True,
        capture_output=True,
        check=True,
    )
    with offprompt.open(other) as memory:
        return sorted(one.text for one in memory.scope(user=results[0]["user_id"]).memories.list())


def wait_for(url: str) -> None:
    """Until a server answers."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            httpx.get(url).raise_for_status()
        except httpx.HTTPError:
            assert time.monotonic() < until, "the server did not start"
            time.sleep(0.05)
        else:
            return
