"""The first program of a framework's page, as a reader pastes it, with the provider's real client."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from offprompt.testing.strict_server import StrictServer
from tests.gateway.client import script
from tests.house.tree import ROOT
from tests.service.talk import Wire

PAGES: dict[str, Wire] = {
    "openai-agents": "responses",
    "pydantic-ai": "responses",
    "anthropic-memory": "anthropic",
    "llama-index": "openai",
}


@pytest.mark.parametrize("page", PAGES)
def test_the_first_program_of_a_page_runs_as_it_stands(page: str, tmp_path: Path) -> None:
    """A process each: nothing of it is closed, as in a reader's first try."""

    def says(**_: Any) -> dict[str, Any]:
        return script(PAGES[page], "Fine.")[0]

    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    found = re.search(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    with StrictServer(says) as server:
        keys = {f"{name}_API_KEY": "sk-theirs" for name in ("OPENAI", "ANTHROPIC")}
        environ = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_BASE": f"{server.url}/v1"}
        environ |= {"ANTHROPIC_BASE_URL": server.url, "OPENAI_AGENTS_DISABLE_TRACING": "1", **keys}
        if page == "llama-index":
            environ["PYTHONPATH"] = str(Path(sys.prefix, "llama"))
        done = subprocess.run(
            [sys.executable, "-c", found[1]],
            cwd=tmp_path,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert (done.returncode, done.stdout) == (0, "Fine.\n"), done.stderr
        assert server.faults == []
    assert (tmp_path / "agent.db").exists()
