"""The two commands, CI's entry, and the package's own statements about itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib

import pytest

import offprompt
from tests.house.tree import ROOT, sources

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("target", ["demo", "test", "test-long", "lint", "check-size", "docs", "format", "audit"])
def test_make_knows_its_targets(target: str) -> None:
    ran = subprocess.run(["make", "-n", target], cwd=ROOT, text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_ci_runs_make_test() -> None:
    path = ROOT / ".ci" / "run"
    assert os.access(path, os.X_OK)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "exec make test" in text
    subprocess.run(["bash", "-n", str(path)], check=True)


def test_the_version_is_said_once_more_and_the_same() -> None:
    assert PROJECT["project"]["version"] == offprompt.__version__


def test_every_imported_library_is_a_dependency() -> None:
    declared = {re.split(r"[<>=\[]", line)[0].replace("-", "_") for line in PROJECT["project"]["dependencies"]}
    modules = {
        "beautifulsoup4": "bs4",
        "chromadb_client": "chromadb",
        "langchain_core": "langchain_core",
        "llama_index_core": "llama_index",
        "openai_agents": "agents",
        "opentelemetry_sdk": "opentelemetry",
        "pydantic_ai_slim": "pydantic_ai",
        "pyjwt": "jwt",
        "python_stdnum": "stdnum",
    }
    extras = {
        modules.get(name, name)
        for group in PROJECT["project"]["optional-dependencies"].values()
        for line in group
        for name in [re.split(r"[<>=\[]", line)[0].replace("-", "_")]
    }
    of_testing = {"pytest", "hypothesis"}
    lacking: set[str] = set()
    for path in sources():
        for top in re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            known = sys.stdlib_module_names | declared | extras | {"offprompt"}
            if top not in known and not (top in of_testing and path.parent.name == "testing"):
                lacking.add(f"{path.name}: {top}")
    assert lacking == set()


def test_python_m_offprompt_is_the_command_line() -> None:
    ran = subprocess.run([sys.executable, "-m", "offprompt", "--version"], text=True, capture_output=True, check=True)
    assert ran.stdout == f"offprompt {offprompt.__version__}\n"


def test_the_demo_needs_neither_pytest_nor_hypothesis() -> None:
    code = "import sys, offprompt.cli; print(sorted({'pytest', 'hypothesis', '_pytest'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert ran.stdout == "[]\n"
