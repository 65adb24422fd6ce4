"""A fork while other threads are at work: parent and child both go on, and nothing acknowledged is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from offprompt.protocols import run
from offprompt.records import GetSlot, Scope
from offprompt.service.maintenance import doctor
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock

START = """
import os, sys, threading, traceback
from offprompt.errors import BackendError
from offprompt.protocols import run
from offprompt.records import GetSlot, PutSlot, Scope
from offprompt.stores.in_process import InProcessStore
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock

SCOPE, CLOCK = Scope(user="u"), MovedClock()
path = sys.argv[1]

def put(store, name, value):
    return run(store, PutSlot(SCOPE, name, value, "by_handle")).version

def at_work(store, stop, *, write=True):
    def work():
        number = 0
        while not stop.is_set():
            put(store, "busy", number) if write else run(store, GetSlot(SCOPE, "warm"))
            number += 1
    thread = threading.Thread(target=work)
    thread.start()
    return thread

def fork(work):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    return pid

def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

LOOPED = """
store = SqliteStore(path, clock=CLOCK) if path != ":memory:" else InProcessStore(CLOCK)
put(store, "warm", 0)
stop = threading.Event()
threads = [at_work(store, stop), at_work(store, stop), at_work(store, stop, write=False)]

def child(number):
    if path != ":memory:":
        names = [os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")]
        assert not [name for name in names if name.startswith(path)], names
    for each in range(3):
        assert put(store, f"child{number}", each) == each + 1
    store.close()

try:
    codes = [ended(fork(lambda: child(number))) for number in range(20)]
finally:
    stop.set()
    for thread in threads:
        thread.join()
put(store, "after", 1)
store.close()
print(codes)
"""

# The parent's last close would remove the log under a child that SQLite lets share the parent's locks.
LEFT_ALONE = """
store = SqliteStore(path, clock=CLOCK)
put(store, "warm", 0)
told, go = os.pipe(), os.pipe()

def child():
    put(store, "before", 1)
    os.write(told[1], b"x")
    os.read(go[0], 1)
    for number in range(5):
        put(store, "since", number)

pid = fork(child)
os.read(told[0], 1)
store.close()
os.write(go[1], b"x")
print(ended(pid))
"""

IN_USE = """
store = SqliteStore(path, clock=CLOCK, busy_timeout_s=0.2)
put(store, "warm", 0)
inside, leave = threading.Event(), threading.Event()

def work(connection):
    inside.set()
    leave.wait()

thread = threading.Thread(target=lambda: store._db.bare(work))
thread.start()
inside.wait()

def child():
    try:
        put(store, "child", 1)
    except BackendError as exc:
        print(exc, flush=True)
    store.close()

code = ended(fork(child))
leave.set()
thread.join()
print(code, put(store, "warm", 1))
"""


def played(program: str, path: str | Path) -> str:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", START + program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize("where", ["file", ":memory:"])
def test_children_forked_while_threads_write_use_the_store(where: str, tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    assert played(LOOPED, path if where == "file" else where) == str([0] * 20)
    if where == "file":
        store = SqliteStore(path, clock=MovedClock())
        slots = store.batch([GetSlot(Scope(user="u"), f"child{number}") for number in range(20)])
        assert [(slot.value, slot.version) for slot in slots] == [(2, 3)] * 20
        assert doctor(store).is_sound
        store.close()


def test_what_a_child_wrote_stays_when_the_parent_closes(tmp_path: Path) -> None:
    assert played(LEFT_ALONE, tmp_path / "agent.db") == "0"
    store = SqliteStore(tmp_path / "agent.db", clock=MovedClock())
    since = run(store, GetSlot(Scope(user="u"), "since"))
    assert since is not None
    assert (since.value, since.version) == (4, 5)
    store.close()


def test_a_child_forked_in_the_middle_of_long_work_is_told_so_at_once(tmp_path: Path) -> None:
    first, last = played(IN_USE, tmp_path / "agent.db").splitlines()
    assert "was in use when this process was forked" in first
    assert last == "0 2"
