"""What a request weighed, beside one that carries the same conversation in the traditional way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offprompt.protocols import Tokenizer
from offprompt.records import LedgerEntry, Message, Slot
from offprompt.service.comparison import HEAD_PARTS, NONCE
from offprompt.service.heads import shown_value
from offprompt.wire.head import frame
from offprompt.wire.shapes import Shape
from offprompt.wire.sizes import message_size

MEMORY_PARTS = (*HEAD_PARTS, "shown", "receipts", "notes")


@dataclass(frozen=True, slots=True)
class Weight:
    """Tokens of a request, by our own count.

    sent          of all that went out. memory: of what memory put in: head, shown values, receipts.
    traditional   the same system text and tools, every message of the conversation whole, all values in the system
                  text, and no memory tools.
    """

    sent: int
    memory: int
    traditional: int


def weigh(
    entry: LedgerEntry, messages: Sequence[Message], slots: Sequence[Slot], shape: Shape, tokenizer: Tokenizer
) -> Weight:
    """The weight of the request of that entry.

    messages   of the conversation that it carried, as the application holds them. slots: that the session sees.
    """
    own = sum(entry.parts[name].tokens for name in ("system", "tools") if name in entry.parts)
    values = [shown_value(slot) for slot in slots if slot.policy != "never" and not slot.parts]
    said = sum(message_size(message, shape, tokenizer).tokens for message in messages)
    pasted = tokenizer.count(frame(values, NONCE)) if values else 0
    memory = sum(size.tokens for name, size in entry.parts.items() if name in MEMORY_PARTS)
    return Weight(entry.sent.tokens, memory, own + said + pasted)
