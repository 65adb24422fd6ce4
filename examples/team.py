"""A team's shared knowledge, and a hand-over: the desk hears a customer, the workshop goes on with what the desk saved.
Scripts stand in for the models: with real ones only `desk` and `workshop` get others.

After `make demo`: .venv/bin/python examples/team.py"""

from typing import Any

import offprompt
from offprompt.testing.chat_stand_in import StandInModel
from offprompt.testing.scripted import read_request
from offprompt.testing.stand_ins import Caller
from offprompt.testing.strict import Said, SaidCall
from offprompt.wire.profiles import SHAPES


class Mechanic(Caller):
    """STAND-IN: looks shared knowledge up for the customer's pump, and says what it found."""

    def __call__(self, **request: Any) -> Said:
        seen = read_request(request, SHAPES["openai"])
        if "gasket" not in seen.user:
            return super().__call__(**request)
        if not seen.answered:
            return Said(
                calls=(SaidCall("look_up", {"question": "Which gasket does the pump [[mem:pump_model]] need?"}),)
            )
        return Said(seen.answered[-1])


def look_up(question: str) -> str:
    """What the team knows."""
    found = memory.scope(shared=True).recall(question, top_k=1)
    return found[0].text if found else "Nobody knows."


with offprompt.open("team.db") as memory:
    memory.scope(shared=True).remember(["The pump P7 needs the gasket G2.", "The pump P9 needs the gasket G5."])
    memory.scope(shared=True).write("opening_hours", "8 to 17", policy="when_asked")

    # Both agents serve the customer's memory; each has conversations of its own.
    desk = offprompt.Agent(memory, StandInModel(Caller(), name="stand-in at the desk"))
    workshop = offprompt.Agent(memory, StandInModel(Mechanic(), name="stand-in in the workshop"), tools=[look_up])

    print("desk:", desk.run("My pump model is P7.", user="ann", session="desk").text)
    print("desk:", desk.run("My callback time is after six.", user="ann", session="desk").text)

    for said in ("Which gasket do we need for it?", "What is my callback time?"):
        reply = workshop.run(said, user="ann", session="workshop")
        print(f"workshop: {said}  {reply.text}", [(each.name, each.ok) for each in reply.tools])

    # Another customer shares the team's knowledge, and nothing of Ann's.
    print("workshop:", workshop.run("What is my callback time?", user="bob", session="workshop").text)
    print([slot.name for slot in memory.scope(user="bob").slots.list(within="inherit")])

# prints:
# desk: Noted.
# desk: Noted.
# workshop: Which gasket do we need for it?  The pump P7 needs the gasket G2. [('look_up', True)]
# workshop: What is my callback time?  Your callback time is after six. []
# workshop: I have no record of that.
# ['opening_hours']
