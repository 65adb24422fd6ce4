"""A conversation that comes again is placed as if it were looked at anew: only the work is less."""

from __future__ import annotations

import random
from typing import Any

import pytest

from offprompt.records import as_dict, as_list
from offprompt.service.bound import BoundScope
from offprompt.service.conversation import Conversation, Placed
from tests.service.talk import MODELS, WIRES, Wire, as_reply, call, calls, result, tool


def seen(placed: list[Placed]) -> list[Any]:
    return [(each.message, each.entry, each.new) for each in placed]


def is_ours(message: Any) -> bool:
    """Whether it is the answer to a memory call."""
    parts = [as_dict(part) or {} for part in as_list(message.get("content")) or []]
    ids: list[Any] = [message.get("tool_call_id"), *(part.get("tool_use_id") for part in parts)]
    ids += [message.get("call_id")] if message.get("type") == "function_call_output" else []
    return any(str(each).startswith("mem") for each in ids)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("wire", WIRES)
def test_messages_that_came_before_are_placed_as_by_a_new_index(
    alice: BoundScope, wire: Wire, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns with calls of both kinds, edits, regenerations, results left out, previews, and other hands between."""
    draw = random.Random(seed)  # noqa: S311 - a repeatable draw
    place, began = Conversation.place, list[bool]()

    def both(self: Conversation, messages: list[Any], at: float) -> list[Placed]:
        anew = Conversation(self.shape, self.digest, self.redaction, said=self.said)
        anew.add(sorted(self.by_key.values(), key=lambda entry: entry.seq))
        want = place(anew, messages, at)
        began.append(self.known_start(messages) > 0)
        found = place(self, messages, at)
        assert seen(found) == seen(want)
        return found

    monkeypatch.setattr(Conversation, "place", both)
    session = alice.session("s", model=MODELS[wire], wire=wire, tools=[tool("look", wire)])
    messages: list[Any] = []
    adds_up, drops = seed == 1, seed == 2
    for number in range(8):
        messages.append({"role": "user", "content": f"step {number}, my city is Ulm {number}"})
        for round_ in range(draw.randint(1, 4)):
            session.prepare(messages)
            own = call("look", f"own{number}{round_}", text=f"look {number}")
            ours = call("mem_write", f"mem{number}{round_}", slot=f"n{number}", value=f"value {round_}")
            reply = session.absorb(as_reply(draw.choice([own, ours, calls(own, ours, text="Both."), "Done."]), wire))
            added = list(reply.messages)
            while not reply.done:
                session.prepare([*messages, *added])
                more = call("mem_write", f"mem{number}{round_}{len(added)}", slot=f"n{number}", value="more")
                reply = session.absorb(as_reply(draw.choice([own, more, "Fine."]), wire))
                added = [*added, *reply.messages] if adds_up else list(reply.messages)
            messages += [each for each in added if not (drops and is_ours(each))]
            if not reply.tool_calls:
                break
            messages += result(wire, *((each.call_id, f"found {number} {round_}") for each in reply.tool_calls))
        asked = [at for at, each in enumerate(messages) if str(each.get("content")).startswith("step")]
        at, what = draw.choice(asked), draw.random()
        if what < 0.2:
            del messages[at:]
        elif what < 0.4:
            messages[at] = {**messages[at], "content": f"step {number}, edited"}
        elif what < 0.6:
            session.preview([*messages, {"role": "user", "content": "What if?"}])
        elif what < 0.7:
            session = alice.session("s", model=MODELS[wire], wire=wire, tools=[tool("look", wire)])
    assert any(began)
