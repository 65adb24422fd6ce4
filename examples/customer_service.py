"""Customer service across two weeks: three sessions of one customer, a tool, and a clock that is moved. A script stands
in for the model: with a real one only `model` is another, such as offprompt.chat_model("gpt-4o-mini").

After `make demo`: .venv/bin/python examples/customer_service.py"""

from typing import Any

import offprompt
from offprompt.testing import MovedClock
from offprompt.testing.chat_stand_in import StandInModel
from offprompt.testing.scripted import read_request
from offprompt.testing.stand_ins import Caller
from offprompt.testing.strict import Said, SaidCall
from offprompt.wire.profiles import SHAPES


class Clerk(Caller):
    """STAND-IN: saves and reads what a customer says of themselves, and looks orders up."""

    def __call__(self, **request: Any) -> Said:
        seen = read_request(request, SHAPES["openai"])
        if "Where is my order" not in seen.user:
            return super().__call__(**request)
        if not seen.answered:  # the model never saw the number: a handle stands for it
            return Said(calls=(SaidCall("order_status", {"order": "[[mem:order_number]]"}),))
        return Said(seen.answered[-1])


def order_status(order: str) -> str:
    """Where an order is.

    Args:
        order: its number, such as A-1007
    """
    return f"Order {order} is {'on its way' if clock.now() < start + 8 * DAY else 'delivered'}."


DAY, start = 86400.0, 1796034604.0
clock, model = MovedClock(start), StandInModel(Clerk(), name="stand-in for a model")
with offprompt.open("service.db", clock=clock) as memory:
    agent = offprompt.Agent(memory, model, tools=[order_status], instructions="You are a clerk. Be short.")
    for day, said in (
        (1, "My order number is A-1007."),
        (1, "The box should stand behind the green door, please."),
        (3, "Where is my order?"),
        (14, "What is my order number?"),
        (14, "Where is my order?"),
    ):
        clock.move(start + day * DAY - clock.now())
        reply = agent.run(said, user="guest@example.com", session=f"day {day}")
        print(f"day {day:>2}: {said}  {reply.text}", [each.name for each in reply.shown])
    guest = memory.scope(user="guest@example.com")
    print(guest.recall("behind which door should the box stand?")[0].text)
    print("leaked:", [name for entry in reply.entries for name in entry.leaked])

# prints:
# day  1: My order number is A-1007.  Noted. []
# day  1: The box should stand behind the green door, please.  Noted. []
# day  3: Where is my order?  Order A-1007 is on its way. ['order_number']
# day 14: What is my order number?  Your order number is A-1007. ['order_number']
# day 14: Where is my order?  Order A-1007 is delivered. ['order_number']
# The box should stand behind the green door, please.
# leaked: []
