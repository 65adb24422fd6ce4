"""A travel assistant's memory, by slots: what the application itself reads and writes. No model, no network.

After `make demo`: .venv/bin/python examples/slots.py"""

import offprompt

with offprompt.open("travel.db") as memory:
    li_ming = memory.scope(user="liming@example.com")

    # Exact state: one name, one value, in any script.
    li_ming.write("回复风格", "简洁，用中文")
    li_ming.write("passport", {"number": "E12345678", "expires": "2031-04"}, policy="never")
    trip = li_ming.write("trip", {"city": "Lisbon", "nights": 4}, tags=["行程"])

    # Two writers: the second one is told, nothing is lost.
    li_ming.write("trip", {"city": "Lisbon", "nights": 5}, if_version=trip.version)
    try:
        li_ming.write("trip", {"city": "Porto", "nights": 2}, if_version=trip.version)
    except offprompt.ConflictError:
        print("the trip was changed meanwhile; it stays as it is")

    # What belongs to one conversation only, and goes with it.
    chat = li_ming.narrow(session="chat-1")
    chat.write("draft", "Dear hotel, we arrive late.")
    print("in the chat:", sorted(chat.slots.snapshot()))
    chat.clear()

    # Forget hides, undo brings back.
    li_ming.forget("trip")
    print("forgotten:", li_ming.read("trip", default=None))
    print("and back:", li_ming.slots.undo("trip").value)

    for slot in li_ming.slots.list():
        print(slot.name, slot.policy, slot.version)

# prints:
# the trip was changed meanwhile; it stays as it is
# in the chat: ['draft', 'passport', 'trip', '回复风格']
# forgotten: None
# and back: {'city': 'Lisbon', 'nights': 5}
# passport never 1
# trip when_asked 2
# 回复风格 card 1
