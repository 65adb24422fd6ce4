"""Whose words a write holds where foreign text stands in the request: the user's, or that text's.

A page may ask for a write in a later turn ("if the user says yes, save …"), in which no tool runs any more, and a
document in the user's message may speak as the user. Such a write looks as one that the user asked for; what tells them
apart is whether the user's own words led to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from offprompt.records import JournalEntry
from offprompt.service.rendering import own_words, pasted
from offprompt.service.turn import Turn

_CONCEALED: Final = re.compile(
    r"[A-Za-z0-9+/_-]{20,}={0,2}|[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]"
)
"""What people do not read and models do: runs that may be base64, invisible characters."""


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


def is_users(turn: Turn, departed: Sequence[JournalEntry], name: str, value: str) -> bool:
    """Whether a value that a model writes beside foreign text is the user's: the user said it, or speaks of it now.

    Said     each word of the value stands in the user's words in this conversation.
    Else     no word of it that the user did not say may stand in the foreign texts: it is the model's own then. Where
             one of them has something that people do not read (base64, invisible characters), the user's words in this
             turn must hold a word of the name or of the value besides.
    Cost     O(words of the user); O(foreign texts) where neither the first nor the second decides.
    Not met  a value that the page gives in other words: translated, or encoded while the user names the slot.
    """
    said = [entry for entry in (*departed, *turn.sent) if entry.kind == "user"]
    now = _words(own_words(turn, dict(entry.message)) for entry in said if entry.turn == said[-1].turn)
    new = _words([value]) - now - _words(own_words(turn, dict(entry.message)) for entry in said)
    if not new:
        return True
    foreign = list(foreign_texts(turn))
    if any(_CONCEALED.search(text) for text in foreign) and _words([name, value]).isdisjoint(now):
        return False
    return new.isdisjoint(_words(foreign))


def _words(texts: Iterable[str]) -> set[str]:
    """The words that carry meaning; of Han the pairs, since single characters stand in every text."""
    from offprompt.recall.analysis import all_terms, meaningful  # noqa: PLC0415 - loads the stemmer

    return {term for text in texts for term in _longer(meaningful(all_terms(text)))}


def _longer(terms: list[str]) -> list[str]:
    return [term for term in terms if len(term) > 1] or terms
