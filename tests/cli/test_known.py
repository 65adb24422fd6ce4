"""`offprompt known`, `correct`, `pin`, `fact`: a user sees what is known, and sets it right."""

from __future__ import annotations

from tests.cli.conftest import Run


def test_a_user_sees_corrects_pins_and_forgets(run: Run) -> None:
    run('remember "I live in Porto." --user alice')
    run("write token s3cret-value --policy never --user alice")
    run('fact plan pro --user alice --text "She has the pro plan."')
    ran = run("known --user alice --json")
    told = {one["name"] if one["kind"] == "slot" else one["kind"]: one["text"] for one in ran.document["known"]}
    assert told == {"home": "Porto", "token": "", "fact": "She has the pro plan."}
    assert run("correct home Lisbon --user alice").out == "stored: home, Lisbon\n"
    assert run("read home --user alice").out == "Lisbon\n"
    fact = next(one["name"] for one in ran.document["known"] if one["kind"] == "fact")
    assert run(f"pin {fact} --user alice").code == 0
    assert run("known --user alice").out.splitlines()[2].split()[0] == fact
    assert run(f"forget {fact} --user alice").code == 0
    assert "pro plan" not in run("known --user alice").out
    assert "置顶" in run("known --user alice --lang zh").out
    replaced = run("fact plan free --user alice --json").document
    assert run("fact plan pro --user alice --json").document["replaced"] == [replaced["name"]]
    assert run("pin home --user alice").code == 3
