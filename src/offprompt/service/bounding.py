"""A request while nothing can be kept outside of it: bounded all the same, and it says what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from offprompt.config import Settings
from offprompt.protocols import Tokenizer
from offprompt.records import Message
from offprompt.service.conversation import Forms, Placed, history_kind, sent_messages
from offprompt.service.history_choice import CUTTING, history_bounds, most_at_once
from offprompt.service.rendering import Place
from offprompt.service.session_kit import Model
from offprompt.wire.head import Language
from offprompt.wire.history import Bounds, History, Item, next_start, place
from offprompt.wire.options import HistoryPolicy
from offprompt.wire.sizes import messages_size
from offprompt.wire.stubs import cut_text, gone_line


@dataclass(frozen=True, slots=True)
class Bounding:
    """Makes the messages of such a request, by the bounds of a session's policy.

    What would become a stub at once stands with head and tail of it, and with a notice that the middle could not be
    kept; where all of it together is over the context, so does every long text, and then the oldest turns are left out
    with a line that says so. The client holds them all: once the store works, they come as always.
    Nothing   is left out under the policies by which nothing leaves. The user's own words are never cut.
    """

    model: Model
    tokenizer: Tokenizer
    settings: Settings
    policy: HistoryPolicy

    def bounded(
        self, placed: Sequence[Placed], forms: Forms, *, start: str, base: int, language: Language
    ) -> Sequence[Placed]:
        """The messages that may go out; the same ones where all of them may, as they are.

        start    the key of the oldest one that the last request sent. base: tokens in front of them.
        Cost     O(tokens of all messages).
        """
        if self.policy in ("off", "context_editing"):
            return placed
        bounds = history_bounds(self.model.context_tokens, self.settings, base)
        most, done = most_at_once(self.policy, self.settings.stub_tokens, bounds), list(placed)
        if most is not None:
            done = [self._cut(each, forms, most, language) if each.new else each for each in done]
        if sum(self._sizes(done, forms)) > bounds.limit:
            done = [self._cut(each, forms, self.settings.stub_tokens, language) for each in done]
        at = next((at for at, each in enumerate(done) if each.entry.key == start), 0)
        indices = self._indices(done, forms, at, bounds)
        if len(indices) < len(done):
            return [self._noted(done[indices[0]], forms, language), *(done[at] for at in indices[1:])]
        return placed if all(one is other for one, other in zip(done, placed, strict=True)) else done

    def _sizes(self, placed: Sequence[Placed], forms: Forms) -> list[int]:
        return [messages_size(sent_messages(each, forms), self.model.shape, self.tokenizer).tokens for each in placed]

    def _indices(self, placed: Sequence[Placed], forms: Forms, start: int, bounds: Bounds) -> Sequence[int]:
        """Places of the messages that are sent."""
        kinds = [history_kind(each.entry) for each in placed]
        sizes = zip(self._sizes(placed, forms), kinds, place(kinds), strict=True)
        history = History(Item(size, size, turn, group, kind) for size, kind, (turn, group) in sizes)
        high = bounds.high if self.policy in CUTTING else bounds.limit
        return history.indices(next_start(history, start, replace(bounds, high=high)))

    def _cut(self, placed: Placed, forms: Forms, most: int, language: Language) -> Placed:
        """The message with head and tail of each result or document over so many tokens."""
        sent = sent_messages(placed, forms)
        cut = [self._short(message, most, language) for message in sent]
        if all(one is other for one, other in zip(sent, cut, strict=True)):
            return placed
        return replace(placed, entry=replace(placed.entry, live=tuple(cut), settled=None, stub=None))

    def _short(self, message: Message, most: int, language: Language) -> Message:
        shape = self.model.shape

        def cut(texts: Iterable[tuple[Place, str]], kind: str) -> dict[Place, str]:
            long = [(at, text) for at, text in texts if self.tokenizer.count(text) > most]
            return {
                at: cut_text(text, kind=kind, language=language, tokens=self.settings.stub_tokens) for at, text in long
            }

        if shape.kind(message) == "user" and (documents := cut(shape.documents(message), "document")):
            message = shape.with_documents(message, documents)
        results = cut(((one.call_id, one.text) for one in shape.results(message) if one.plain), "tool")
        return shape.with_results(message, results) if results else message

    def _noted(self, first: Placed, forms: Forms, language: Language) -> Placed:
        """The oldest message that is sent, with the line that says that turns are missing."""
        line, own = gone_line(language, found=False), sent_messages(first, forms)
        if self.model.shape.kind(own[0]) == "user":
            own = [*self.model.shape.attach(line, own[0], self.model.profile.placement), *own[1:]]
        else:
            own = [{"role": "user", "content": line}, *own]
        return replace(first, entry=replace(first.entry, live=tuple(own), settled=None, stub=None))
