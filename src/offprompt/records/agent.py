"""What an agent's run leaves behind: the answer, the tools that ran, what each request cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from offprompt.records.action import Receipt
from offprompt.records.ledger import LedgerEntry, Shown
from offprompt.records.recall import Remembered

Stopped: TypeAlias = Literal["", "rounds", "time"]
"""Why a run ended before its answer: the model went on calling tools, or the time was over. Empty: it did not."""


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One call of a tool that an agent answered.

    arguments  JSON text, handles resolved, as the function got them. result: what the model was told.
    ok         False: it was not run (bad arguments, an unknown tool), raised an exception, or was not done in time.
    seconds    how long it ran.
    """

    call_id: str
    name: str
    arguments: str
    result: str
    ok: bool = True
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentReply:
    """What `Agent.run` gives.

    text        the answer, handles resolved, without thinking. Empty where the model said nothing.
    tools       the calls of the application's tools, in the order in which the model wrote them.
    entries     the ledger's entries of this run's requests; none of those that memory trouble kept from being recorded.
    receipts    what memory did for the model. remembered: what became of the turn among the memories.
    warnings    those of all requests and replies, each once.
    stopped     why it ended without an answer of the model's own, or empty.
    prefill_s   seconds that the model read before it answered, of all requests: as the endpoint says (llama.cpp,
                Ollama), else of streams until the first chunk; None: nobody knows. Where tokens are free, this is the
                price.
    """

    text: str
    tools: tuple[ToolRun, ...] = ()
    entries: tuple[LedgerEntry, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    remembered: tuple[Remembered, ...] = ()
    warnings: tuple[str, ...] = ()
    stopped: Stopped = ""
    prefill_s: float | None = None

    @property
    def tokens_in(self) -> int:
        """Tokens of the requests, by the provider's counts where it gives them, else by ours."""
        return sum(each.sent.tokens if each.usage.input is None else each.usage.input for each in self.entries)

    @property
    def tokens_out(self) -> int:
        """Tokens of the replies, counted likewise."""
        return sum(each.out.tokens if each.usage.output is None else each.usage.output for each in self.entries)

    @property
    def price(self) -> float | None:
        """What the requests cost, in `currency`; None if one of them has no price sheet, or there was none."""
        known = [each.price for each in self.entries if each.price is not None]
        return sum(known) if known and len(known) == len(self.entries) else None

    @property
    def currency(self) -> str:
        """The price sheet's, or empty."""
        return self.entries[-1].currency if self.entries else ""

    @property
    def shown(self) -> tuple[Shown, ...]:
        """Values that the model was let to see, each once, with its reason."""
        return tuple({(one.name, one.why): one for each in self.entries for one in each.shown}.values())
