"""`offprompt grant …`."""

from __future__ import annotations

import offprompt
from offprompt.records import Scope
from tests.cli.conftest import Run


def test_what_is_granted_is_listed_and_taken_back(run: Run, store: str) -> None:
    ran = run("grant space Legal --to user:alice --to agent:助手")
    assert (ran.code, ran.out.splitlines()) == (
        0,
        ["granted: space legal → user:alice", "granted: space legal → agent:助手"],
    )
    assert run("grant agent helper --to everyone --lang zh").out == "已授权: 智能体 helper → everyone\n"
    listed = run("grant list --json").document["grants"]
    assert [(one["kind"], one["name"], one["to_kind"], one["to"]) for one in listed] == [
        ("space", "legal", "user", "alice"),
        ("space", "legal", "agent", "助手"),
        ("agent", "helper", "everyone", ""),
    ]
    assert run("grant list").out.splitlines()[2].split()[:3] == ["space", "legal", "user:alice"]
    assert "授予对象" in run("grant list --lang zh").out
    assert run("grant list --app shop").out == "nothing here\n"
    with offprompt.open(store) as memory:
        assert memory.grants.granted("space", None, Scope(user="alice")) == ("legal",)
    assert run("grant remove space LEGAL --to user:alice").out == "no longer granted: space legal → user:alice\n"
    gone = run("grant remove space legal --to user:alice")
    assert gone.code == 3
    assert "offprompt grant list" in gone.err


def test_what_is_no_grant_is_refused(run: Run) -> None:
    for line in ("grant space legal --to alice", "grant space legal --to user:", "grant remove slot x --to everyone"):
        assert run(line).code == 2, line
    assert run("grant space legal --to key:0123456789abcdef").code == 3
