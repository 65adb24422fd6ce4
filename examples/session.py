"""A travel assistant's memory, in a conversation. A script stands in for the model; with a real one, only `call` is
another: `client.chat.completions.create`.

After `make demo`: .venv/bin/python examples/session.py"""

import offprompt
from offprompt.testing.scripted import ScriptedModel

call = ScriptedModel().create

with offprompt.open("travel.db") as memory:
    guest = memory.scope(user="guest@example.com")
    guest.write("itinerary", "Day 1: tram 28, castle, fado. " * 30)  # long: the model sees its name only

    # The first evening.
    session = guest.session("evening-1", model="gpt-4o-mini", system="You are a travel assistant.")
    messages: list[dict[str, object]] = []
    for said in ("My name is Ada Okafor.", "I live in New Haven.", "Which tram goes to the castle?"):
        messages.append({"role": "user", "content": said})
        reply = session.complete(call, messages)
        messages += reply.messages
        print(f"{said}  {reply.text}")

    # Another evening: another session, nothing of the first in the prompt until it is asked for.
    session = guest.session("evening-2", model="gpt-4o-mini", system="You are a travel assistant.")
    messages = []
    for said in ("Is it raining in Lisbon?", "What is my name?", "And where do I live?"):
        messages.append({"role": "user", "content": said})
        reply = session.complete(call, messages)
        messages += reply.messages
        print(f"{said}  {reply.text}")

    for entry in session.ledger():
        print("turn", entry.turn, "shown:", [each.name for each in entry.shown], "leaked:", list(entry.leaked))

    # A handle: the model sends what it never saw.
    function = {"name": "send_mail", "arguments": '{"text": "[[mem:itinerary]]"}'}
    session.prepare([*messages, {"role": "user", "content": "Mail me the itinerary."}])
    calls = [{"id": "call_1", "type": "function", "function": function}]
    reply = session.absorb({"role": "assistant", "content": None, "tool_calls": calls})
    print(reply.tool_calls[0].arguments[:39])

# prints:
# My name is Ada Okafor.  Noted.
# I live in New Haven.  Noted.
# Which tram goes to the castle?  That is worth a closer look.
# Is it raining in Lisbon?  I would begin with the smallest step.
# What is my name?  Your name is Ada Okafor.
# And where do I live?  You live in New Haven.
# turn 1 shown: [] leaked: []
# turn 2 shown: ['user_name'] leaked: []
# turn 3 shown: ['home_city'] leaked: []
# {"text": "Day 1: tram 28, castle, fado.
