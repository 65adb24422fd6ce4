"""The running server keeps its own OpenAPI document: schemathesis asks it, rightly and wrongly, with all its checks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from offprompt.errors import UnauthenticatedError
from offprompt.records import Identity
from offprompt.rest.app import ENDPOINTS
from tests.house.tree import ROOT
from tests.rest.running import Running, running

KEY = "op_k1_0123456789abcdef"
WHO = Identity(roles=frozenset({"read", "write", "admin"}), key="k1", default_user="alice")
TAGS = tuple(dict.fromkeys(endpoint.tag for endpoint in ENDPOINTS))


def identify(method: str, headers: Mapping[str, str], *, has_body: bool) -> Identity:
    """Whoever has the key may everything."""
    del method, has_body
    if headers.get("authorization") not in (f"Bearer {KEY}", f"Token {KEY}"):
        raise UnauthenticatedError("no valid key: send 'Authorization: Bearer KEY'")
    return WHO


@pytest.fixture(scope="module")
def locked() -> Iterator[Running]:
    """A server that wants a key."""
    with running(identify=identify) as own:
        yield own


def ask(server: Running, tag: str, examples: int, folder: Path) -> None:
    """Fail with what schemathesis found, as it says it."""
    options = ["run", f"{server.url}/openapi.json", "--include-tag", tag, "--max-examples", str(examples)]
    config = ROOT / "tests" / "rest" / "schema" / "schemathesis.toml"
    ran = subprocess.run(
        [Path(sys.executable).with_name("schemathesis"), "--no-color", "--config-file", config, *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "SERVER_URL": server.url, "SERVER_KEY": KEY},
        text=True,
        capture_output=True,
        check=False,
    )
    if ran.returncode:
        pytest.fail(ran.stdout + ran.stderr, pytrace=False)


@pytest.mark.parametrize("tag", TAGS)
def test_it_answers_as_its_document_says(locked: Running, tag: str, tmp_path: Path) -> None:
    # Two requests made at random for each route, besides the hundred or so that its schema's edges ask for: 1 to 20 s.
    ask(locked, tag, 2, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("tag", TAGS)
def test_it_answers_as_its_document_says_however_it_is_asked(locked: Running, tag: str, tmp_path: Path) -> None:
    ask(locked, tag, 500, tmp_path)
