"""What is over a quota is told with its number and the time to wait."""

from __future__ import annotations

from typing import Any

from offprompt.rest.app import make_app
from offprompt.rest.dispatch import Dispatch
from offprompt.rest.guarding import guard_for
from offprompt.service.offprompt import Offprompt
from tests.rest.running import running

LOCAL = {"authorization": "Bearer local_0"}


def guarded(memory: Offprompt, _: Any) -> Dispatch:
    return make_app(memory, guard_for(memory, ["127.0.0.1"], token="local_0", user="alice"))


def test_a_request_too_many_says_when_to_ask_again() -> None:
    with running(app_of=guarded, requests_per_minute=2) as server:
        answers = [server.http.get("/v1/slots", headers=LOCAL) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        problem = answers[2].json()
        assert (problem["code"], problem["limit"], problem["used"]) == ("RateError", 2, 2)
        assert 1 <= int(answers[2].headers["retry-after"]) <= 31
        assert server.http.get("/health").status_code == 200
        refused = server.http.get("/v1/slots", headers={"authorization": "Bearer local_1"})
        assert refused.status_code == 401


def test_a_key_that_asks_too_often_stops_no_other() -> None:
    with running(app_of=guarded) as server:
        made = server.http.post(
            "/v1/keys", headers=LOCAL, json={"name": "svc", "users": ["bob"], "requests_per_minute": 1}
        ).json()
        own = {"authorization": f"Bearer {made['token']}"}
        assert [server.http.get("/v1/slots", headers=own).status_code for _ in range(2)] == [200, 429]
        assert server.http.get("/v1/slots", headers=LOCAL).status_code == 200


def test_a_full_app_says_how_full() -> None:
    with running(app_of=guarded, max_app_slots=1, max_app_bytes=10) as server:
        first = server.http.put("/v1/slots/a", headers=LOCAL, json={"value": "1234567890"})
        assert first.status_code == 201
        slots = server.http.put("/v1/slots/b", headers=LOCAL, json={"value": ""})
        assert (slots.status_code, slots.json()["used"], slots.json()["limit"]) == (422, 2, 1)
        size = server.http.put("/v1/slots/a", headers=LOCAL, json={"value": "12345678901"})
        assert (size.status_code, size.json()["used"], size.json()["limit"]) == (413, 11, 10)
        assert server.http.get("/v1/slots/a", headers=LOCAL).json()["value"] == "1234567890"
