"""`kill -9` in the middle of a session: nothing absorbed is lost, the ledger's chain holds, another process goes on."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import offprompt
from offprompt.service.accounting import digester
from offprompt.service.ledger_check import verify_ledger
from offprompt.service.maintenance import doctor
from offprompt.stores.sqlite import SqliteStore
from offprompt.testing import MovedClock
from offprompt.wire.transcript import check_transcript

TALKER = Path(__file__).parent / "talker.py"


def talk_and_kill(path: Path, lines: int, spin: int) -> int:
    """How many turns were said to be absorbed before the kill, which comes some instructions after `lines` of them."""
    process = subprocess.Popen([sys.executable, str(TALKER), str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(lines)]
    sum(range(spin))
    process.kill()
    said += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    process.wait()
    return len([line for line in said if line.endswith("\n")])


def test_nothing_absorbed_is_lost_in_4_kills(tmp_path: Path) -> None:
    chance = random.Random(5)  # noqa: S311 - when to kill, seeded
    for number in range(4):
        path = tmp_path / f"{number}.db"
        turns = talk_and_kill(path, chance.randrange(1, 8), chance.randrange(0, 2_000_000))
        with offprompt.open(path) as mem:
            session = mem.scope(user="ann").session("s1", model="gpt-4o-mini")
            record, ledger, journal = session.record, session.ledger(), session.journal()
            assert record is not None
            assert len([entry for entry in journal if entry.text.startswith("Done")]) in (turns, turns + 1)
            assert len(ledger) >= 2 * turns
            digest = digester(mem.parts.sessions.digest_key(session.scope))
            assert verify_ledger(record, ledger, digest) is None
            stored = mem.scope(user="ann").read("progress")
            assert stored in [f"turn {done} is done" for done in (turns - 1, turns)]
            messages = [dict(entry.message) for entry in journal]
            request = session.prepare([*messages, {"role": "user", "content": "Go on"}])
            assert check_transcript(request["messages"], wire="openai") == []
            assert session.absorb({"role": "assistant", "content": "Yes."}).done
        store = SqliteStore(path, clock=MovedClock(4_000_000_000.0))
        assert doctor(store).is_sound
        store.close()
