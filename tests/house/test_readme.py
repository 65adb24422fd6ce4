"""README: short, its example early, and README.zh-CN.md keeps step with it."""

from __future__ import annotations

import re

import pytest

from tests.house.tree import ROOT

ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_readme_is_short() -> None:
    assert len(ENGLISH.splitlines()) <= 150
    assert len(CHINESE.splitlines()) <= 150


def test_the_first_example_comes_within_sixty_words_and_takes_twelve_lines() -> None:
    before, _, rest = ENGLISH.partition("```python\n")
    assert len(before.split()) <= 60
    lines = [line for line in rest.partition("```")[0].splitlines() if line.strip()]
    assert len(lines) <= 12
    assert rest.partition("```")[2].lstrip().startswith("```text")


def test_no_claim_of_zero_tokens() -> None:
    assert not re.search(r"zero[- ]tokens?|\b0 tokens|零令牌|零 token", ENGLISH + CHINESE, re.IGNORECASE)


def outline(text: str) -> list[int]:
    bare = BLOCK.sub("", text)
    return [len(match[1]) for match in re.finditer(r"^(#+) ", bare, re.MULTILINE)]


def links(text: str) -> list[str]:
    found = re.findall(r"\]\(([^)]+)\)", text)
    return ["README" if target.startswith("README") else target for target in found]


def tables(text: str) -> list[int]:
    bare = BLOCK.sub("", text)
    return [line.count("|") for line in bare.splitlines() if line.startswith("|")]


def bullets(text: str) -> int:
    return len(re.findall(r"^- ", BLOCK.sub("", text), re.MULTILINE))


def code(text: str) -> list[tuple[str, int]]:
    return [(match[1], len(match[2].splitlines())) for match in BLOCK.finditer(text)]


def test_the_chinese_readme_has_the_same_structure() -> None:
    assert outline(CHINESE) == outline(ENGLISH)
    assert code(CHINESE) == code(ENGLISH)
    assert links(CHINESE) == links(ENGLISH)
    assert tables(CHINESE) == tables(ENGLISH)
    assert bullets(CHINESE) == bullets(ENGLISH)


def test_the_python_of_both_is_the_same_but_for_words() -> None:
    def bare(text: str) -> list[str]:
        without_words = re.sub(
            r'"[^"]*"', '""', "".join(body for kind, body in BLOCK.findall(text) if kind == "python")
        )
        return [line.partition("  #")[0] for line in without_words.splitlines()]

    assert bare(CHINESE) == bare(ENGLISH)


@pytest.mark.parametrize("text", [ENGLISH, CHINESE])
def test_both_name_the_two_commands(text: str) -> None:
    assert "`make demo`" in text
    assert "`make test`" in text
