"""Whom a question asks about: the user, somebody by name, or who speaks under one name."""

from __future__ import annotations

import pytest

from offprompt.service.bound import BoundScope


def hits(scope: BoundScope, question: str) -> list[str]:
    """The texts of the facts that are asked for by what they are about."""
    return [hit.text for hit in scope.recall(question, explain=True) if hit.parts.get("asked") == 1.0]


@pytest.mark.parametrize(
    ("name", "said", "questions", "fact"),
    [
        ("Ann", "I live in Oslo.", ("where do I live?", "where does Ann live?"), "Ann lives in Oslo."),
        ("林", "我住在成都。", ("我住在哪里？", "林住在哪里？"), "林住在成都。"),
    ],
)
def test_who_speaks_under_one_name_asks_of_themselves(
    alice: BoundScope, name: str, said: str, questions: tuple[str, ...], fact: str
) -> None:
    alice.remember({"role": "user", "name": name, "content": said})
    assert [hits(alice, question) for question in questions] == [[fact], [fact]]


def test_of_several_names_none_is_i(alice: BoundScope) -> None:
    for name, city in (("Ann", "Oslo"), ("Bea", "Rome")):
        alice.remember({"role": "user", "name": name, "content": f"I live in {city}."})
    assert hits(alice, "where do I live?") == []
    assert hits(alice, "where does Bea live?") == ["Bea lives in Rome."]
    bea = alice.memories.list(filters={"speaker": "Bea"})
    alice.memories.erase(*(one.memory_id for one in bea))
    assert hits(alice, "where do I live?") == ["Ann lives in Oslo."]
    alice.memories.erase()
    alice.remember({"role": "user", "content": "I live in Lima."})
    assert hits(alice, "where do I live?") == ["The user lives in Lima."]
