"""`offprompt demo`: what it claims is so."""

from __future__ import annotations

from pathlib import Path

import pytest

import offprompt
from offprompt.models.tokenizers import tokenizer_for
from offprompt.service.demo import HIGH_TOKENS, LOW_TOKENS, Played, play, play_traditional, script
from offprompt.testing.scripted import ScriptedModel
from tests.cli.conftest import Run

LANGUAGES = ["en", "zh"]


def played(language: str, *, calls_tools: bool = True) -> Played:
    told = script("zh" if language == "zh" else "en")
    with offprompt.open(":memory:", window_high_tokens=HIGH_TOKENS, window_low_tokens=LOW_TOKENS) as memory:
        model = ScriptedModel(calls_tools=calls_tools)
        return play(memory.scope(user="demo"), model.create, told, tokenizer_for(""))


@pytest.mark.parametrize("language", LANGUAGES)
def test_fifty_turns_in_two_sessions_and_both_questions_answered(language: str) -> None:
    result = played(language)
    name = script("zh" if language == "zh" else "en").name
    assert len(result.turns) == 50
    assert {turn.session for turn in result.turns} == {1, 2}
    assert [turn.number for turn in result.turns if name in turn.answer] == [25, 50]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_turns_between_carry_no_word_of_the_name(language: str) -> None:
    result = played(language)
    first = [sent.name for turn in result.turns if turn.session == 1 for sent in turn.requests]
    second = [sent.name for turn in result.turns if turn.session == 2 for sent in turn.requests]
    assert second == ["none"] * (len(second) - 1) + ["shown"]
    assert first[-1] == "shown"
    # Said until the turn that said it leaves the prompt, then nowhere.
    left = first.index("none")
    assert set(first[:left]) == {"said"}
    assert set(first[left:-1]) == {"none"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_traditional_way_answers_too_and_costs_more(language: str) -> None:
    told = script("zh" if language == "zh" else "en")
    pasted = play_traditional(ScriptedModel().create, told, tokenizer_for(""))
    ours = played(language)
    assert [turn.number for turn in pasted.turns if told.name in turn.answer] == [25, 50]
    assert sum(sent.name == "shown" for sent in pasted.requests) == 49
    assert ours.memory < pasted.memory / 2
    assert ours.tokens < pasted.tokens


@pytest.mark.parametrize("language", LANGUAGES)
def test_without_any_memory_the_model_does_not_know(language: str) -> None:
    told = script("zh" if language == "zh" else "en")
    model = ScriptedModel()
    reply = model.create(messages=[{"role": "user", "content": told.sessions[1][-1]}])
    assert told.name not in reply["choices"][0]["message"]["content"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_command_prints_story_comparison_and_replay(run: Run, language: str) -> None:
    ran = run(f"demo --lang {language}")
    assert ran.code == 0
    assert ran.out.startswith({"en": "SCRIPTED", "zh": "脚本演示"}[language])
    assert script("zh" if language == "zh" else "en").name in ran.out
    assert "stubs+window" in ran.out


def test_the_document_holds_both_ways_and_the_replay(run: Run) -> None:
    document = run("demo --json").document
    assert document["model"] == "scripted"
    assert document["off_prompt"]["right_answers"] == document["pasted"]["right_answers"] == 2
    assert document["off_prompt"]["put_in"] == 2
    assert document["off_prompt"]["tokens"] < document["pasted"]["tokens"]
    assert document["replay"]["requests"] > 100


def test_the_demo_touches_no_store_of_the_user(run: Run, store: Path) -> None:
    assert run("demo").code == 0
    assert not store.exists()
