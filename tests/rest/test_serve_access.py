"""Who a served process answers: its token over kills and workers, and no start where nobody could show who asks."""

from __future__ import annotations

import signal
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import offprompt
from offprompt.errors import UnauthenticatedError
from tests.rest.process import failed, serving


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(tmp_path / "data")


def test_what_a_killed_server_left_opens_nothing_and_is_replaced(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, XDG_DATA_HOME=data) as own:
        file, before, port = Path(own.said["token_file"]), own.headers, str(urlsplit(own.url).port)
        assert own.end(signal.SIGKILL) == -signal.SIGKILL
        assert file.exists()
    with serving(tmp_path, "--port", port, XDG_DATA_HOME=data) as own:
        assert (own.said["token_file"], own.headers != before) == (str(file), True)
        assert httpx.get(f"{own.url}/v1/users", headers=before).status_code == 401
        assert httpx.get(f"{own.url}/v1/users", headers=own.headers).status_code == 200
        assert own.end() == 0
    assert not file.exists()


def test_all_workers_know_the_token_and_a_key_revoked_by_the_command_line(tmp_path: Path, data: str) -> None:
    with offprompt.open(str(tmp_path / "agent.db")) as memory:
        issued = memory.keys.create("svc", users=["bob"])
        with serving(tmp_path, "--workers", "3", XDG_DATA_HOME=data) as own:
            for headers in (own.headers, {"Authorization": f"Bearer {issued.token}"}):
                answers = {
                    httpx.get(
                        f"{own.url}/v1/slots?within=exact", headers={**headers, "Offprompt-User": "bob"}
                    ).status_code
                    for _ in range(12)
                }
                assert answers == {200}
            assert own.end() == 0
        memory.keys.revoke("default", issued.key.key_id)
        with pytest.raises(UnauthenticatedError):
            memory.keys.find(issued.token)


def test_where_others_reach_it_no_server_starts_without_a_key(tmp_path: Path, data: str) -> None:
    url, everywhere = str(tmp_path / "agent.db"), "0.0.0.0"  # noqa: S104 - what is asked of it here
    code, said = failed("--url", url, "--host", everywhere, XDG_DATA_HOME=data)
    assert (code, "offprompt key create" in said) == (2, True)
    assert not (tmp_path / "data" / "offprompt" / "serve").exists()
    with offprompt.open(url) as memory:
        issued = memory.keys.create("svc", users=["bob"])
    with serving(tmp_path, "--host", everywhere, XDG_DATA_HOME=data) as own:
        assert own.said["token_file"] is None
        at = f"http://127.0.0.1:{urlsplit(own.url).port}/v1/slots"
        assert httpx.get(at).status_code == 401
        shown = {"Authorization": f"Bearer {issued.token}", "Host": "memory.example"}
        assert httpx.get(at, headers=shown).status_code == 200
        assert own.end() == 0


def test_a_file_that_others_may_read_stops_the_start(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, XDG_DATA_HOME=data) as own:
        port, file = str(urlsplit(own.url).port), Path(own.said["token_file"])
        assert own.end() == 0
    file.write_text("local_known")
    file.chmod(0o644)
    code, said = failed("--url", ":memory:", "--port", port, XDG_DATA_HOME=data)
    assert (code, "644" in said) == (2, True)
    assert file.read_text() == "local_known"
