"""`offprompt consolidate`: what waits is read by the model of the config file, and what was done is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from offprompt.testing.strict_server import StrictServer, Trouble
from tests.cli.conftest import Run
from tests.cli.test_audit import talk
from tests.service.test_extracting_sessions import FACT, TEA, Upstream


@pytest.fixture
def server() -> Iterator[StrictServer]:
    with StrictServer(Upstream()) as running:
        yield running


@pytest.fixture(autouse=True)
def config(server: StrictServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "offprompt.toml"
    monkeypatch.setenv("MODEL_KEY", "k")
    path.write_text(
        f'derive = "model"\nembedder = "none"\n[models.extract]\nmodel = "deepseek-chat"\nretries = 0\n'
        f'base_url = "{server.url}/v1"\nkey_env = "MODEL_KEY"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("OFFPROMPT_CONFIG", str(path))
    return path


def say(run: Run, *texts: str, user: str = "ann") -> None:
    messages = json.dumps([{"role": "user", "content": text} for text in texts])
    assert run(f"remember - --messages --no-derive --user {user} --session s1", stdin=messages).code == 0


def test_what_waits_is_read_and_said(run: Run) -> None:
    say(run, TEA, "Hello.")
    say(run, TEA, user="bob")
    first = run("consolidate --user ann")
    assert (first.code, "2" in first.out) == (0, True)
    assert FACT in run("recall oolong --user ann").out
    ran = run("consolidate --json")
    (scope,) = ran.document["scopes"]
    assert (scope["scope"]["user"], scope["read"], scope["added"], scope["input_tokens"]) == ("bob", 1, 1, 500)
    assert ran.document["left"] == {"waiting": 0, "pending": 0}
    again = run("consolidate --json").document
    assert again["scopes"] == []


def test_trouble_is_an_exit_code_and_the_rest_waits(run: Run, server: StrictServer) -> None:
    say(run, TEA)
    server.troubles = [Trouble(status=503)]
    ran = run("consolidate --json")
    assert ran.code == 5
    assert "the rest waits" in ran.error["message"]
    assert ran.document["left"]["waiting"] == 1
    assert "1 turns wait" in run("doctor").out
    assert run("consolidate --limit 1").code == 0


def test_without_a_model_it_says_what_to_write(run: Run, config: Path) -> None:
    config.write_text("", encoding="utf-8")
    say(run, TEA)
    ran = run("consolidate")
    assert (ran.code, "[models.extract]" in ran.err) == (4, True)


def test_in_chinese(run: Run) -> None:
    say(run, TEA)
    ran = run("consolidate --lang zh")
    assert "待读轮次: 0" in ran.out


def test_the_trace_of_the_session_says_what_was_read(run: Run, store: Path) -> None:
    talk(store, "ann", TEA)
    run("consolidate")
    found = run("trace s1 --user ann --json").document["extracted"]
    assert [(event["op"], event["outcome"]) for event in found] == [("extract.add", "ok"), ("extract.read", "ok")]
    assert "what a language model read" in run("trace s1 --user ann").out
