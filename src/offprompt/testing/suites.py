"""The conformance suites: subclass one in a test file and give it a `store` fixture.

    class TestMySlots(SlotStoreSuite):
        @pytest.fixture
        def store(self, clock: MovedClock) -> Iterator[SlotStore]:
            store = MyStore(clock)
            yield store
            store.close()

Machines  `machine.run_machine` runs steps at random on a store and on the one that ends with the process, and compares:

    def test_any_run_of_steps_is_as_in_process(store: SlotStore, clock: MovedClock) -> None:
        run_machine(lambda: SlotMachine(store, clock))

Needs     pytest and hypothesis. For readable failures call `pytest.register_assert_rewrite("offprompt.testing")` in
          the conftest.py, before the suites are imported.
"""

from __future__ import annotations

from offprompt.testing.coordinator_suite import CoordinatorSuite
from offprompt.testing.face_memories import FaceMemories
from offprompt.testing.face_scopes import FaceScopes
from offprompt.testing.face_slots import FaceSlots
from offprompt.testing.memory_adds import MemoryAdds
from offprompt.testing.memory_extraction import MemoryExtraction
from offprompt.testing.memory_joins import MemoryJoins
from offprompt.testing.memory_life import MemoryLife
from offprompt.testing.memory_loads import MemoryLoads
from offprompt.testing.portable_suite import SlotPortableSuite, StoreSuite
from offprompt.testing.session_suite import SessionStoreSuite
from offprompt.testing.slot_events import SlotEvents
from offprompt.testing.slot_guards import SlotGuards
from offprompt.testing.slot_life import SlotLife
from offprompt.testing.slot_moves import SlotMoves
from offprompt.testing.slot_names import SlotNames
from offprompt.testing.slot_puts import SlotPuts
from offprompt.testing.spaces import MemorySpaces, SlotSpaces
from offprompt.testing.vector_queue import VectorQueue
from offprompt.testing.vector_suite import VectorIndexSuite
from offprompt.testing.word_suite import WordIndexSuite

__all__ = [
    "CoordinatorSuite",
    "FaceSuite",
    "MemoryStoreSuite",
    "SessionStoreSuite",
    "SlotPortableSuite",
    "SlotStoreSuite",
    "StoreSuite",
    "VectorIndexSuite",
    "VectorQueueSuite",
    "WordIndexSuite",
]


class SlotStoreSuite(SlotPuts, SlotNames, SlotLife, SlotGuards, SlotMoves, SlotEvents, SlotSpaces):
    """All that `protocols.SlotStore` promises; give it a `store` fixture that takes the `clock` fixture."""


class MemoryStoreSuite(MemoryAdds, MemoryLife, MemoryJoins, MemoryLoads, MemoryExtraction, MemorySpaces):
    """All that `protocols.MemoryStore` promises; give it a `store` fixture that takes the `clock` fixture.

    The store's `events` are read as a SlotStore's.
    """


class VectorQueueSuite(VectorQueue):
    """What a MemoryStore keeps for a vector index outside; give it a `store` fixture of a store that has a queue."""


class FaceSuite(FaceScopes, FaceSlots, FaceMemories):
    """All that an opened memory promises, here or by its server; give it an `opened` fixture, see `FaceKit`."""
