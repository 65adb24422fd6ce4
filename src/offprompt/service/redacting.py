"""Redaction in sessions: what is stored has marks in place of numbers and keys, what is sent has the words as given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from offprompt.records import Body, JournalEntry, Message, Scope, SessionChange, as_dict, as_list, compact
from offprompt.service.memory_access import MemoryAccess
from offprompt.service.sealing import Seal
from offprompt.wire.handles import find_handles
from offprompt.wire.payload import loaded
from offprompt.wire.shapes import Shape

WORDS: Final = ("user", "assistant")
ALL: Final = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class Redaction:
    """Takes out of one session's journal what may not be stored, and puts the client's own words back when they go out.

    Stored    with marks: the texts of user and model, and what stands in the arguments of calls; with `redact="all"`
              tools' results and bodies too. What is shown or read of slots stays: it is the slots' own.
    Sent      as the client gives it each time. Only where we send another form of a text than the client gave (a stub,
              a reply whose handles came back resolved) the marks stay in it.
    Again     deterministic and idempotent, so that a message is known again and each request repeats the last one.
    Sealed    kinds that are set for it leave handles in place of marks; `keep` writes what they stand for.
    nonce     marks the session's frames. scope: where it is sealed.
    """

    memories: MemoryAccess
    shape: Shape
    nonce: str
    scope: Scope
    everything: bool
    _seals: dict[str, Seal] = field(default_factory=dict[str, Seal])

    def text(self, text: str) -> str:
        """The text with marks; a frame of shown values as it is."""
        if text.startswith(f"<memory {self.nonce}>"):
            return text
        return self._clean(text)

    def message(self, message: Message) -> Message:
        """The message with marks in its texts and in its calls' arguments; the same object where there is nothing."""
        changed = self.shape.map_text(message, self.text)
        calls = {call.call_id: call.arguments for call in self.shape.calls(changed)}
        clean = {call_id: self._arguments(arguments) for call_id, arguments in calls.items()}
        fresh = {call_id: arguments for call_id, arguments in clean.items() if arguments != calls[call_id]}
        return self.shape.with_arguments(changed, fresh) if fresh else changed

    def given(self, entry: JournalEntry, message: Message) -> JournalEntry:
        """The entry as it is sent: in all its forms marks, but the client's words where it gives them once more."""
        if entry.kind not in self._kinds:
            return entry
        texts: list[str] = []
        self.shape.map_text(message, lambda text: texts.append(text) or text)
        words = {clean: text for text in texts if (clean := self.text(text)) != text}
        calls = {
            clean: call.arguments
            for call in self.shape.calls(message)
            if (clean := self._arguments(call.arguments)) != call.arguments
        }
        if entry.resolved is not None:
            # The model wrote a handle, and the client has its value: what goes out again is the handle.
            words = {clean: text for clean, text in words.items() if not find_handles(clean)}
            calls = {clean: text for clean, text in calls.items() if not find_handles(clean)}
        if not words and not calls:
            return entry
        return self._mapped(self.entry(entry), lambda form: self._restored(form, words, calls))

    def entry(self, entry: JournalEntry) -> JournalEntry:
        """The entry as it is stored."""
        if entry.kind not in self._kinds:
            return entry
        return replace(self._mapped(entry, self.message), text=self.text(entry.text))

    def change(self, change: SessionChange) -> SessionChange:
        """The change as it is stored; what is sealed out of it is written before it returns.

        Raises   BackendError if the store of slots fails.
        """
        self._seals.clear()
        changed = replace(
            change,
            journal=tuple(map(self.entry, change.journal)),
            bodies=tuple(map(self._body, change.bodies)) if self.everything else change.bodies,
        )
        if self.memories.sealer is not None:
            self.memories.sealer.keep(self.scope, self._seals.values())
        return changed

    def _clean(self, text: str) -> str:
        done = self.memories.cleaned(text, self.scope)
        self._seals.update((seal.name, seal) for seal in done.seals)
        return _as_json(text, done.text, self._clean) if done.taken else text

    @property
    def _kinds(self) -> Sequence[str]:
        return ALL if self.everything else WORDS

    def _body(self, body: Body) -> Body:
        return replace(body, text=self.text(body.text), label=self.text(body.label))

    def _restored(self, form: Message, words: Mapping[str, str], calls: Mapping[str, str]) -> Message:
        changed = self.shape.map_text(form, lambda text: words.get(text, text))
        given = {call.call_id: calls[call.arguments] for call in self.shape.calls(changed) if call.arguments in calls}
        return self.shape.with_arguments(changed, given) if given else changed

    def _mapped(self, entry: JournalEntry, change: Callable[[Message], Message]) -> JournalEntry:
        """The entry with each of its messages changed."""

        def forms(messages: Sequence[Mapping[str, Any]] | None) -> tuple[Message, ...] | None:
            return None if messages is None else tuple(change(dict(message)) for message in messages)

        return replace(
            entry,
            message=change(dict(entry.message)),
            resolved=None if entry.resolved is None else change(dict(entry.resolved)),
            live=forms(entry.live),
            settled=forms(entry.settled),
            stub=forms(entry.stub),
        )

    def _arguments(self, arguments: str) -> str:
        """A call's arguments with marks: in texts, keys, and whole numbers; what is no JSON is one text."""
        if not self.memories.cleaned(arguments, self.scope).taken:
            return arguments
        value = loaded(arguments)
        if isinstance(value, str) and value == arguments:
            return self._clean(arguments)
        changed = redacted_value(value, self._clean)
        return arguments if changed == value else compact(changed)


def _as_json(text: str, clean: str, redact: Callable[[str], str]) -> str:
    """The redacted text; of one that is JSON, JSON: a number that became a mark would stand there without quotes."""
    if text.lstrip()[:1] not in ("{", "["):
        return clean
    value = loaded(text)
    if isinstance(value, str) or not isinstance(loaded(clean), str):
        return clean
    return compact(redacted_value(value, redact))


def redacted_value(value: Any, redact: Callable[[str], str]) -> Any:
    """A JSON value with marks in its texts and keys, and in place of whole numbers that may not be stored."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, int) and not isinstance(value, bool):
        clean = redact(str(value))
        return value if clean == str(value) else clean
    if (members := as_dict(value)) is not None:
        return {redact(str(key)): redacted_value(item, redact) for key, item in members.items()}
    items = as_list(value)
    return value if items is None else [redacted_value(item, redact) for item in items]
