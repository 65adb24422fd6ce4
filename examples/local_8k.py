"""A local assistant with a window of 8,192 tokens, which its server cuts from the front without a word: 120 turns with
64 slots stay inside. A script stands in for the model, and counts as a server does; with a real one only `model` is
another: offprompt.chat_model("ollama:qwen3:8b", context_tokens=8192).

After `make demo`: .venv/bin/python examples/local_8k.py"""

import offprompt
from offprompt.models.tokenizers import tokenizer_for
from offprompt.testing.chat_stand_in import StandInModel
from offprompt.testing.cutting import CuttingModel
from offprompt.testing.stand_ins import Caller

WINDOW, RESERVE = 8192, 2048
server = CuttingModel(Caller(), WINDOW, RESERVE, tokenizer_for("llama-3.1-8b").count)
model = StandInModel(server, name="llama-3.1-8b (stand-in)", context_tokens=WINDOW)

with offprompt.open("local.db") as memory:
    ann = memory.scope(user="ann")
    for number in range(62):
        ann.write(f"note_{number}", f"Berth {number}: rope, lantern, tide table. " * 20)  # names only in the prompt
    ann.write("gate_code", "4711")
    ann.write("boat", "Heron")

    agent = offprompt.Agent(memory, model, instructions="You are an assistant on board.")
    for turn in range(118):
        agent.run(
            f"Log {turn}: wind and tide as in the table, ropes checked, lamps lit, nobody on deck. " * 4, user="ann"
        )
    for said in ("What is my gate code?", "What is my boat?"):
        reply = agent.run(said, user="ann")
        print(said, reply.text, [each.name for each in reply.shown])

    ledger = agent.session(user="ann").ledger()
    print("requests:", len(server.sent), "within the window:", max(server.sent) <= WINDOW - RESERVE)
    print("cut by the server:", server.sent != server.read, "turns:", ledger[-1].turn)
    print("sent in all:", sum(server.sent) // 1000, "k tokens")
    print(f"prefill by the price sheet: {sum(entry.price or 0 for entry in ledger):.0f} {reply.currency}")

# prints:
# What is my gate code? Your gate code is 4711. ['gate_code']
# What is my boat? Your boat is Heron. ['boat']
# requests: 120 within the window: True
# cut by the server: False turns: 120
# sent in all: 387 k tokens
# prefill by the price sheet: 13 s
