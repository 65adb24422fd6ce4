"""What everyone reads is changed by no model, whoever it serves."""

from __future__ import annotations

from typing import Any

import pytest

from offprompt.errors import ConflictError
from offprompt.service.model_doors import StoreDoor
from offprompt.service.model_memory import ModelMemory
from offprompt.service.offprompt import Offprompt
from tests.service.talk import MODELS, Talk, call

HOURS = "The office opens at nine."


@pytest.mark.parametrize("who", [{"agent": "hr"}, {"session": "s"}, {"user": "alice", "agent": "hr"}])
def test_a_model_neither_corrects_nor_forgets_what_everyone_reads(mem: Offprompt, who: dict[str, Any]) -> None:
    shared, scope = mem.scope(shared=True), mem.scope(**who)
    memory_id = shared.remember(HOURS, derive="none")[0].name
    door = ModelMemory(StoreDoor(mem.parts, scope))
    for change in (
        lambda: door.correct(memory_id, "It opens at ten."),
        lambda: door.correct(memory_id, pinned=True),
        lambda: door.forget(memory_id),
    ):
        with pytest.raises(ConflictError):
            change()
    one = Talk(scope.session("s", model=MODELS["openai"]), "openai")
    one.turn("Forget it.", call("mem_forget", slot=memory_id), "I cannot.")
    assert not one.replies[-2].receipts[0].ok
    assert [(each.text, each.version) for each in shared.memories.get_many([memory_id])] == [(HOURS, 1)]
