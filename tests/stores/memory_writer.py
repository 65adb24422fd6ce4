"""Adds memories to a store until it is done or killed, and says what was acknowledged: the other processes' program.

python memory_writer.py URL USER COUNT [NAME]    COUNT -1: until killed. NAME: whose statements, else USER's own
python memory_writer.py URL USER erase           until standard input ends: erase all of the user
"""

from __future__ import annotations

import sys
import threading
import time

from offprompt.bootstrap.engines import open_engines
from offprompt.bootstrap.urls import Urls
from offprompt.config import Settings
from offprompt.models.clocks import SystemClock
from offprompt.protocols import MemoryStore, apply
from offprompt.recall.docs import analyse
from offprompt.recall.packing import pack
from offprompt.records import AddMemory, EraseMemories, Indexed, Memory, Scope
from offprompt.service.memory_kit import MemoryIds
from offprompt.service.remembering import digest_of

PAUSE_S = 0.01


def text_of(name: str, number: int) -> str:
    """The statement of a writer's number."""
    return f"{name} 说 number {number}: " + "茶 tea " * (number % 50)


def indexed_of(memory_id: str, text: str) -> Indexed:
    """What is derived from it."""
    return Indexed(memory_id, 1, pack(analyse(text)))


def write(store: MemoryStore, scope: Scope, name: str, count: int) -> None:
    """Add statement after statement, and print number, outcome and id when the store said yes."""
    ids, number = MemoryIds(), 0
    while number != count:
        text = text_of(name, number)
        memory = Memory(ids.new(time.time()), scope, "fact", text, digest=digest_of(text))
        done = apply(store, AddMemory(memory, indexed_of(memory.memory_id, text)))
        sys.stdout.write(f"{number} {done.outcome} {done.memory.memory_id if done.memory else ''}\n")
        sys.stdout.flush()
        number += 1


def erase(store: MemoryStore, scope: Scope) -> None:
    """Erase the scope again and again, and print how many memories each erase that found some removed."""
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    while not over.wait(PAUSE_S):
        if removed := apply(store, EraseMemories(scope)):
            sys.stdout.write(f"{removed}\n")
            sys.stdout.flush()


def main() -> None:
    """See above."""
    url, user, what, *name = sys.argv[1:]
    store, scope = open_engines(Urls(url), SystemClock(), Settings(), create=True).main, Scope(user=user)
    if what == "erase":
        erase(store, scope)
    else:
        write(store, scope, name[0] if name else user, int(what))
    store.close()


if __name__ == "__main__":
    main()
