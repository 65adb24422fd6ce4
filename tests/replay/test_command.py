from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from offprompt.cli.call import Call, Options, command
from offprompt.cli.replay import replay
from offprompt.errors import OffpromptError, UsageError

TALK = [
    {"role": "user", "content": "你好" if at % 3 else "hello"}
    if at % 2 == 0
    else {"role": "assistant", "content": "ok"}
    for at in range(20)
]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "talk.jsonl"
    path.write_text("\n".join(json.dumps({"messages": TALK}) for _ in range(3)) + "\n", encoding="utf-8")
    return path


def _run(*words: str) -> None:
    app = typer.Typer()

    @app.callback()
    def options(ctx: typer.Context) -> None:
        ctx.obj = Call(options=Options())

    del options
    command(app, "replay")(replay)
    app(args=["replay", *words], standalone_mode=False)


def test_the_table_the_advice_and_the_picture(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(str(log))
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split()[0] == "policy"
    assert "as logged" in out
    assert "the auto row sends nothing of ours until it pays; a session carries its head of " in out
    assert "3 conversations, 30 turns, 30 requests" in out
    assert out.splitlines()[-1] == "picture: talk.replay.svg"
    assert (log.parent / "talk.replay.svg").is_file()
    assert err == ""


def test_in_chinese(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(str(log), "--lang", "zh", "--no-picture")
    out = capsys.readouterr().out
    assert "原样发送" in out
    assert "3 个对话" in out
    assert not list(log.parent.glob("*.svg"))


def test_one_json_document(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(str(log), "--json", "--chain", "--requests", "12", "--prices", "local", "--picture", "a.svg")
    body: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (body["requests"], body["conversations"], body["prices"]["name"]) == (12, 2, "local")
    assert body["picture"] == "a.svg"
    assert Path("a.svg").is_file()


def test_a_model_brings_its_prices_and_its_tokens(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(str(log), "--json", "--model", "claude-opus-5", "--no-picture")
    body: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert body["prices"]["name"] == "anthropic-opus-5"
    assert body["tokenizer"] == {"name": "o200k_base", "exact": False}


def test_the_users_own_price_sheet(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("prices.toml").write_text("[mine]\ninput = 3\ncache_read = 0\noutput = 9\n", encoding="utf-8")
    Path("own.toml").write_text('prices = "prices.toml"\n', encoding="utf-8")
    _run(str(log), "--json", "--prices", "mine", "--config", "own.toml", "--no-picture")
    body: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert body["columns"]["logged"]["price"] == pytest.approx(body["columns"]["logged"]["uncached"] * 3 / 1e6)


def test_the_windows_sizes_can_be_set(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(str(log), "--json", "--chain", "--high", "60", "--low", "30", "--no-picture")
    body: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert body["by_request"]["window"][-1] < body["by_request"]["logged"][-1] + 200
    assert max(body["by_request"]["truncation"]) <= 45


def test_a_malformed_line_is_named_on_stderr(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write("{broken\n" * 25)
    _run(str(log), "--json", "--no-picture")
    out, err = capsys.readouterr()
    assert err.splitlines()[0].startswith(f"{log}:4: not JSON")
    assert len(err.splitlines()) == 21
    assert "5 more" in err
    assert len(json.loads(out)["problems"]) == 25


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere.json"], "'nowhere.json' is not a file"),
        (["talk.jsonl", "--prices", "nope"], "no price sheet 'nope'"),
        (["talk.jsonl", "--high", "10", "--low", "20"], "--low 20 is above --high 10"),
        (["talk.jsonl", "--picture", "a.gif"], "name it .svg or .png"),
        (["empty.jsonl"], "no request to replay"),
    ],
)
def test_what_cannot_be_done_is_said(log: Path, words: list[str], says: str) -> None:
    (log.parent / "empty.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=says):
        _run(*words)


def test_a_wrong_setting_is_an_error_of_ours(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFPROMPT_STUB_TOKENS", "many")
    with pytest.raises(OffpromptError, match="OFFPROMPT_STUB_TOKENS"):
        _run(str(log))
