"""Whose words a write holds where foreign text stands in the request: the user's, or that text's.

A page may ask for a write in a later turn ("if the user says yes, save …"), in which no tool runs any more, and a
document in the user's message may speak as the user. Such a write looks as one that the user asked for; what tells them
apart is whether the user's own words led to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from offprompt.records import JournalEntry
from offprompt.service.rendering import own_words, pasted
from offprompt.service.turn import Turn
from offprompt.wire.encoded import decoded_runs

_READ: Final = {
    **dict.fromkeys([0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF]),
    **{0xE0000 + code: code for code in range(0x20, 0x7F)},
}
"""How a model reads characters that people do not see: some as if they were not there, tag characters as the ASCII that
they stand for."""


def foreign_texts(turn: Turn) -> Iterator[str]:
    """Texts in the request, of this turn or earlier ones, that are of neither the user nor the application.

    What tools answered, what the user pasted, and what was shown of either before.
    """
    shape = turn.model.shape
    for entry in turn.sent:
        message = dict(entry.message)
        if entry.kind == "user":
            yield from pasted(shape, turn.kit.tokenizer, message).values()
        if entry.kind == "tool":
            # As it was sent: our own values in it stand there as handles.
            yield "\n".join(shape.text(dict(form)) for form in entry.live or (message,))
        if any(turn.is_foreign(shown.name) for shown in entry.shown):
            yield "\n".join(shape.text(dict(form)) for form in entry.live or (message,))


def is_users(turn: Turn, departed: Sequence[JournalEntry], value: str) -> bool:
    """Whether a value that a model writes beside foreign text is the user's, or the model's own, and not that text's.

    Said     each word of the value stands in the user's words in this conversation.
    Else     no word of it that the user did not say may stand in the foreign texts, nor in what they say in base64,
             hexadecimal or invisible characters: it is the model's own then.
    Cost     O(words of the user); O(foreign texts) where neither the first nor the second decides.
    Not met  a value that the page gives in other words, such as translated ones, or in another code.
    """
    said = [entry for entry in (*departed, *turn.sent) if entry.kind == "user"]
    new = _words([value]) - _words(own_words(turn, dict(entry.message)) for entry in said)
    return not new or new.isdisjoint(_words(form for text in foreign_texts(turn) for form in _read(text)))


def _read(text: str) -> Iterator[str]:
    """A text, and what else a model may read in it."""
    yield text
    plain = text.translate(_READ)
    if plain != text:
        yield plain
    for run in decoded_runs(plain.encode("utf-8", "surrogatepass")):
        yield run.raw.decode("utf-8", "ignore")


def _words(texts: Iterable[str]) -> set[str]:
    """The words that carry meaning; of Han the pairs, since single characters stand in every text."""
    from offprompt.recall.analysis import all_terms, meaningful  # noqa: PLC0415 - loads the stemmer

    return {term for text in texts for term in _longer(meaningful(all_terms(text)))}


def _longer(terms: list[str]) -> list[str]:
    return [term for term in terms if len(term) > 1] or terms
