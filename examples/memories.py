"""A travel assistant's memory, by memories: sentences that are found by meaning. No model, no network.

After `make demo`: .venv/bin/python examples/memories.py"""

import offprompt

with offprompt.open("travel.db") as memory:
    li_ming = memory.scope(user="liming@example.com")

    # Texts and turns; what users say of themselves becomes facts and profile, by rules.
    li_ming.remember("The hotel in Lisbon has a quiet courtyard", metadata={"topic": "hotel"}, tags=["lisbon"])
    li_ming.remember("第二天下午去水族馆", event_at="2026-06-02", metadata={"topic": "plan"})
    for one in li_ming.remember({"role": "user", "content": "我叫李明。"}):
        print(one.outcome, one.kind, one.text)

    # Found by meaning, within what a filter lets through; an empty answer says why.
    print(li_ming.recall("which hotel is quiet?")[0].text)
    print([hit.text for hit in li_ming.recall("水族馆", filters={"topic": "plan"}, since="2026-06-01")])
    print(li_ming.recall("quantum physics").why)

    # A newer statement takes the place of an older one; the older one is kept.
    li_ming.remember("I live in Porto", event_at="2025-01-01")
    li_ming.remember("I live in Lisbon", event_at="2026-01-01")
    print(li_ming.recall("where do I live?")[0].text, "|", li_ming.read("home"))
    print([one.text for one in li_ming.memories.list(states=["superseded"])])

    # Forget hides, undo brings back, erase removes for good.
    hotel = li_ming.memories.list(filters={"tags": {"contains": "lisbon"}})[0]
    li_ming.forget(hotel.memory_id)
    print(len(li_ming.recall("which hotel is quiet?")), li_ming.memories.undo(hotel.memory_id))
    print(li_ming.memories.erase(hotel.memory_id), li_ming.memories.get(hotel.memory_id))

# prints:
# added episode 我叫李明。
# added fact 用户的名字叫李明。
# added slot 李明
# The hotel in Lisbon has a quiet courtyard
# ['第二天下午去水族馆']
# nothing lies above the floor
# I live in Lisbon | Lisbon
# ['I live in Porto']
# 0 1
# 1 None
