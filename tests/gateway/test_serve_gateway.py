"""`offprompt serve --gateway` and `offprompt gateway` as processes, and the table `[gateway]`."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from offprompt.cli import main
from offprompt.config import load_settings
from offprompt.errors import UsageError
from offprompt.gateway.options import GatewayOptions, options_in
from offprompt.testing.upstream import Upstream
from tests.gateway.standing import PATHS, body, said
from tests.rest.process import Process, serving, wait_until
from tests.service.talk import flat

VALUE = "Ulm an der Donau"


def asked(own: Process, text: str, **headers: str) -> httpx.Response:
    url = own.said["gateway"] + PATHS["openai"]
    return httpx.post(
        url, json=body("openai", text), headers={"Authorization": "Bearer sk-theirs", **headers}, timeout=60
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_both_doors_are_of_one_memory_and_stop_together(tmp_path: Path, workers: int) -> None:
    with Upstream(said("openai", *["Ulm."] * 6)) as upstream:
        words = ["--gateway", "--gateway-port", "0", "--upstream", upstream.url, "--user", "alice"]
        with serving(tmp_path, *words, "--workers", str(workers), "--log", "json") as own:
            with own.client() as http:
                http.post("/mem/write", json={"slot": "home_city", "value": VALUE}).raise_for_status()
                answers = [asked(own, "What is my home city?") for _ in range(3)]
                assert [each.headers["offprompt-memory"] for each in answers] == ["on"] * 3
                assert len({each.headers["offprompt-session"] for each in answers}) == 1
                assert len({each.headers["offprompt-request"] for each in answers}) == 3
                asked(own, "Hi", **{"Offprompt-User": "bob"})
                assert answers[0].headers["offprompt-session"] in http.get("/v1/memories/sessions").text
                numbers = http.get("/metrics").text
            assert VALUE in flat(upstream.requests[-1])
            kind = 'offprompt_gateway_requests_total{memory="%s",route="/chat/completions",status="%d"} %s'
            assert kind % ("on", 200, "3.0") in numbers
            assert kind % ("refused", 403, "1.0") in numbers
            log = own.errors.read_text(encoding="utf-8")
            assert own.end() == 0
    lines = [json.loads(line) for line in log.splitlines()]
    seen = [line for line in lines if line.get("route") == "/chat/completions"]
    assert {answers[0].headers["offprompt-request"]} <= {line["request"] for line in seen}
    assert [(line["status"], line["memory"]) for line in seen].count((200, "on")) == 3
    assert [line["code"] for line in seen if line["memory"] == "refused"] == ["ForbiddenError"]
    assert not [text for text in (VALUE, "sk-theirs", "home city", "alice") if text in log]
    with pytest.raises(httpx.TransportError):
        asked(own, "Hi")


def test_the_table_says_what_the_command_line_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "offprompt.toml"
    file.write_text('[gateway]\nupstreams = ["not a url"]\nhead = "always"\n', encoding="utf-8")
    monkeypatch.setenv("OFFPROMPT_CONFIG", str(file))
    assert load_settings(file=file).max_slots == 64
    assert main(["serve", "--gateway", "--port", "0"]) == 2
    assert "the upstream 'not a url' is no base URL" in capfd.readouterr().err
    assert main(["serve", "--upstream", "http://127.0.0.1:9"]) == 2
    assert "add --gateway" in capfd.readouterr().err
    file.write_text("", encoding="utf-8")
    assert main(["gateway", "--port", "0"]) == 2
    assert "upstreams = [" in capfd.readouterr().err
    file.write_text('[gatway]\nupstreams = "http://127.0.0.1:9"\n', encoding="utf-8")
    assert main(["gateway", "--port", "0"]) == 2
    assert "did you mean gateway?" in capfd.readouterr().err, "before that there is no upstream"


def test_what_is_given_goes_before_the_table_and_that_before_the_default() -> None:
    stored = {"gateway": {"upstreams": "https://a.example", "head": "always", "deadline_s": 3, "trust_users": True}}
    found = options_in(stored, {"head": "as_needed", "on_trouble": None, "trust_users": None}, where="file")
    assert found == GatewayOptions(("https://a.example",), head="as_needed", deadline_s=3.0, trust_users=True)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"upstream": "https://a.example"}, "did you mean upstreams"),
        ({"upstreams": [1]}, "list of texts"),
        ({"head": "never"}, "'as_needed' or 'always'"),
        ({"deadline_s": -1}, "0 or more"),
        ({"trust_users": "maybe"}, "true or false"),
        ("https://a.example", "is no table"),
    ],
)
def test_what_does_not_fit_in_the_table_is_said(table: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        options_in({"gateway": table}, {}, where="offprompt.toml")


@pytest.mark.long
def test_a_worker_that_is_killed_is_followed_by_another_and_the_conversation_goes_on(tmp_path: Path) -> None:
    with Upstream(said("openai", *["Ulm."] * 3)) as upstream:
        words = ["--gateway", "--gateway-port", "0", "--upstream", upstream.url, "--user", "alice", "--workers", "2"]
        with serving(tmp_path, *words) as own:
            before = asked(own, "I live in Ulm")
            first = set(own.workers)
            for pid in first:
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: len(set(own.workers) - first) == 2)
            after = None
            while after is None:
                try:
                    after = asked(own, "I live in Ulm")
                except httpx.TransportError:  # taken by one that was about to be killed
                    continue
            assert after.headers["offprompt-memory"] == "on"
            assert after.headers["offprompt-session"] == before.headers["offprompt-session"]
            assert own.end() == 0
