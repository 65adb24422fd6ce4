"""The files for containers, without an engine that runs them: linted, and what they name is there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from compose_spec import PyCompose
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import offprompt
from offprompt.bootstrap.urls import parse_urls
from offprompt.cli.program import app
from tests.house.test_setup import PROJECT
from tests.house.tree import ROOT
from tools.pages import walk

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "compose.yaml").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]
TOOLS = Path(sys.executable).parent

BY_TAG = "CL-0019"
"""Images stand there by tag: nobody can look up from here what digest a tag has, and a wrong one fits no image."""


def test_the_dockerfile_is_what_its_linter_asks_for() -> None:
    ran = subprocess.run([TOOLS / "hadolint", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")


def test_compose_keeps_its_specification() -> None:
    spelled_out = json.dumps(yaml.safe_load(COMPOSE))
    assert PyCompose.from_json(spelled_out).name == "offprompt"
    with pytest.raises(ValueError, match="heelthcheck"):
        PyCompose.from_json(spelled_out.replace("healthcheck", "heelthcheck"))


def test_the_linter_of_compose_finds_nothing_else_than_images_by_tag() -> None:
    command = [TOOLS / "compose-lint", "check", "--no-env", "--format", "json", ROOT / "compose.yaml"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)["findings"]
    assert {one["rule_id"] for one in found} == {BY_TAG}


def test_nothing_runs_as_root_nothing_is_open_to_others_and_no_password_is_written_down() -> None:
    assert re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE) == ["10001:10001"]
    assert [port for one in SERVICES.values() for port in one.get("ports", [])] == ["127.0.0.1:7333:7333"]
    assert re.findall(r"PASSWORD: (?!\$\{\w+:\?)", COMPOSE) == []
    assert not re.search(r"(?i)password|secret=|token|key=", DOCKERFILE)


def test_the_page_says_that_no_engine_ran_them() -> None:
    page = " ".join((ROOT / "docs" / "operations.md").read_text(encoding="utf-8").split())
    assert "no container engine ran them there" in page


def test_every_server_of_it_says_whether_it_is_well() -> None:
    assert "HEALTHCHECK" in DOCKERFILE
    assert {name for name, one in SERVICES.items() if "healthcheck" in one} == SERVICES.keys() - {"offprompt"}


def test_the_store_that_it_names_is_one() -> None:
    url = re.sub(r"\$\{\w+:\?[^}]*\}", "abc", SERVICES["offprompt"]["environment"]["OFFPROMPT_URL"])
    urls = parse_urls(url)
    assert (urls.slots, urls.vectors) == ("redis://:abc@redis:6379/0", "pgvector")


@pytest.mark.parametrize(
    "words",
    [
        json.loads(DOCKERFILE.rpartition("CMD ")[2]),
        SERVICES["offprompt"]["command"],
        *(line.split() for line in re.findall(r"run --rm offprompt ([\w -]+?) +#", COMPOSE)),
    ],
    ids=" ".join,
)
def test_the_commands_that_it_runs_are_read(words: list[str]) -> None:
    root: Any = typer.main.get_command(app)
    path, command = next((path, one) for path, one in walk(root) if tuple(words[: len(path)]) == path)
    with command.make_context(path[-1], words[len(path) :]) as context:
        assert context.params


def test_the_image_is_of_this_version_and_its_constraints_fit_what_the_package_asks_for() -> None:
    assert SERVICES["offprompt"]["image"] == f"offprompt:{offprompt.__version__}"
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    fixed = dict(line.split("==") for line in lines)
    assert [canonicalize_name(name) for name in fixed] == sorted(fixed)
    extras = re.findall(r"\.\[([\w,]+)\]", DOCKERFILE)[0].split(",")
    asked = [*PROJECT["project"]["dependencies"]]
    asked += [line for extra in extras for line in PROJECT["project"]["optional-dependencies"][extra]]
    wrong = [one for one in map(Requirement, asked) if not one.specifier.contains(fixed[canonicalize_name(one.name)])]
    assert wrong == []
