"""Alive, and ready."""

from __future__ import annotations

from pathlib import Path

from tests.rest.running import running
from tests.servers import own, postgres, postgres_url, redis_url
from tests.servers import running as started


def test_a_server_is_ready_while_all_its_stores_answer(tmp_path: Path) -> None:
    with started(own("valkey")) as valkey:
        url = f"memories={tmp_path / 'agent.db'} slots={redis_url(valkey)}"
        with running(url, busy_timeout_s=0.2) as server:
            assert server.http.get("/ready").json() == {"status": "ready"}
            valkey.kill()
            away = server.http.get("/ready")
            assert (away.status_code, away.json()["code"], away.headers["retry-after"]) == (503, "BackendError", "1")
            assert server.ask("PUT", "/v1/slots/city", json={"value": 1}).status_code == 503
            assert server.http.get("/health").status_code == 200
            valkey.start()
            assert server.http.get("/ready").status_code == 200
            assert server.ask("PUT", "/v1/slots/city", json={"value": 1}).status_code == 201


def test_a_server_is_not_ready_while_its_memories_do_not_answer() -> None:
    with started(postgres()) as store, running(postgres_url(store), busy_timeout_s=0.2) as server:
        assert server.http.get("/ready").json() == {"status": "ready"}
        store.kill()
        away = server.http.get("/ready")
        assert (away.status_code, away.json()["code"], away.headers["retry-after"]) == (503, "BackendError", "1")
        assert server.http.get("/health").json()["status"] == "ok"
        store.start()
        assert server.http.get("/ready").status_code == 200
