"""Where requests are worked on."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path

import pytest

from offprompt.stores.sqlite import SqliteStore
from tests.rest.running import running


def test_a_failure_that_nobody_expected_keeps_no_later_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def broken(_: SqliteStore) -> Generator[None]:
        raise ZeroDivisionError
        yield

    with running(str(tmp_path / "agent.db")) as server:
        with monkeypatch.context() as patch:
            patch.setattr(SqliteStore, "together", broken)
            assert server.ask("PUT", "/v1/slots/city", json={"value": 1}).status_code == 500
        assert server.ask("PUT", "/v1/slots/city", json={"value": 1}).status_code == 201
