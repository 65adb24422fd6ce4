"""Through the gateway a user asks what is known of them, sees it, and has it corrected and forgotten."""

from __future__ import annotations

from tests.gateway.client import Client, script
from tests.gateway.conftest import NewGateway
from tests.service.talk import call, flat


def test_a_user_sees_corrects_and_forgets_what_is_known(gateway: NewGateway) -> None:
    answers = ("Nice.", "This.", call("mem_write", "c1", slot="home", value="Lisbon"), "Noted.", "This.")
    running = gateway(*script("openai", *answers, call("mem_forget", "c2", slot="home"), "Gone.", "Nothing."))
    for said in (
        ["I live in Porto"],
        ["What do you know about me?", "That is wrong: it is Lisbon"],
        ["你记得我什么？", "Forget where I live"],
        ["What do you remember about me?"],
    ):
        with Client(running, "openai") as client:
            for text in said:
                client.say(text)
    requests = [flat(one) for one in running.upstream.requests]
    assert "Porto" in requests[1]
    assert "Lisbon" in requests[4]
    assert "Porto" not in requests[4]
    assert "Lisbon" not in requests[-1]
    assert "Porto" not in requests[-1]
    assert running.upstream.faults == []
