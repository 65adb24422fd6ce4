"""Twenty dialogues in English: what the user refers to is in the request, for that turn and no longer."""

from __future__ import annotations

import pytest

from tests.service.dialogues import Dialogue, Player, dialogues
from tests.service.talk import Wire

ALL = dialogues("en")


@pytest.mark.parametrize("dialogue", ALL, ids=[each.id for each in ALL])
def test_the_request_holds_what_the_user_refers_to(dialogue: Dialogue, wire: Wire) -> None:
    seen = Player(wire, "en").play(dialogue)
    assert seen.departed
    assert [need for need in dialogue.needs if need in seen.before] == [], "it had not left the prompt"
    assert [need for need in dialogue.needs if need not in seen.asked] == []
    assert [other for other in dialogue.lacks if other in seen.asked] == []
    assert all(need in seen.answer for need in dialogue.needs)


@pytest.mark.parametrize("dialogue", ALL, ids=[each.id for each in ALL])
def test_the_turn_after_holds_no_frame(dialogue: Dialogue, wire: Wire) -> None:
    assert "<memory " not in Player(wire, "en").play(dialogue).after


@pytest.mark.parametrize("dialogue", [each for each in ALL if not each.slots], ids=lambda each: each.id)
def test_without_recall_the_model_has_no_record(dialogue: Dialogue) -> None:
    seen = Player("openai", "en", recall_tokens=0).play(dialogue)
    assert seen.answer == "no record"
    assert seen.shown == []
