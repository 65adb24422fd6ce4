"""`offprompt slot allow …`, `lock …`."""

from __future__ import annotations

from tests.cli.conftest import Run


def test_places_are_allowed_listed_and_taken_away(run: Run) -> None:
    assert run("write 密钥 s3cret --policy never --user alice").code == 0
    assert run("slot allowed 密钥 --user alice").out == "密钥: its handle resolves nowhere\n"
    assert run("slot allow 密钥 send token --user alice").code == 0
    ran = run("slot allow 密钥 fetch /headers/Authorization --host API.example.com:8443 --user alice --json")
    places = [
        {"tool": "send", "argument": "/token"},
        {"tool": "fetch", "argument": "/headers/Authorization", "host": "api.example.com:8443"},
    ]
    assert ran.document == {"name": "密钥", "allow": places}
    assert run("slot list --user alice --json").document["slots"][0]["allow"] == places
    assert run("slot allowed 密钥 --user alice --session s").out.splitlines() == [
        "tool   argument                host",
        "-----  ----------------------  --------------------",
        "send   /token                  any",
        "fetch  /headers/Authorization  api.example.com:8443",
    ]
    assert run("slot disallow 密钥 send /token --user alice --json").document["allow"] == places[1:]
    assert "s3cret" not in run("slot allowed 密钥 --user alice").out


def test_locks(run: Run) -> None:
    run("write city 上海 --user alice")
    assert run("slot lock city --user alice").out == "city: locked for models\n"
    assert run("slot list --user alice --json").document["slots"][0]["locked"] is True
    assert run("write city 北京 --user alice").code == 0
    assert run("slot unlock city --user alice --lang zh").out == "city: 已解锁，模型可以改动\n"
    assert run("slot list --user alice --json").document["slots"][0]["locked"] is False


def test_what_cannot_be_guarded(run: Run) -> None:
    run("write city 上海 --user alice")
    ran = run("slot allow city send to --user alice")
    assert (ran.code, ran.out) == (2, "")
    assert "--policy never first" in ran.err
    assert run("slot lock nothing --user alice").code == 3
    assert run("slot allow city send to --host https://x.com --user alice").code == 2
    assert run("slot allowed nothing --user alice").code == 3
