"""What the calls of memories send, and what an import reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offprompt.client._answers import error_of
from offprompt.errors import BackendError, OffpromptError, UsageError
from offprompt.records import as_list
from offprompt.records.imported import Imported, Problem
from offprompt.wire.payload import plain


def given(body: Mapping[str, Any]) -> dict[str, Any]:
    """The members that are not None."""
    return {name: value for name, value in body.items() if value is not None}


def said(what: object) -> object:
    """What is to be remembered as JSON; SDK objects as their dicts."""
    listed = as_list(what)
    if listed is None:
        return _one(what, "what")
    return [_one(item, f"what[{at}]") for at, item in enumerate(listed)]


def _one(item: object, where: str) -> object:
    if item is None or isinstance(item, (str, bytes, int, float)):
        if isinstance(item, str):
            return item
        raise UsageError(f"{where} is no text but {type(item).__name__}; give a text, a message, or a list of them")
    return plain(item, where)


def conversation(query: object) -> object:
    """The conversation so far as JSON; what is no list is the server's to refuse."""
    listed = as_list(query)
    return query if listed is None else [plain(item, f"query[{at}]") for at, item in enumerate(listed)]


class Importing:
    """What an import did, of its reports: one for each batch, then one that says that it is done."""

    def __init__(self, path: str) -> None:
        self._path, self._done = path, Imported()

    def take(self, report: Any) -> None:
        """Raises   the error that ended it, with how far it got."""
        done = self._done
        if "code" in report:
            raise self._told(error_of(report))
        done.added, done.known = int(report["added"]), int(report["known"])
        done.refused += [Problem(self._path, int(one["line"]), str(one["why"])) for one in report["refused"]]

    def result(self, *, is_whole: bool) -> Imported:
        """Raises   BackendError if it broke off."""
        if not is_whole:
            raise self._told(BackendError(f"the connection broke off while {self._path} was imported"))
        return self._done

    def _told(self, error: OffpromptError) -> OffpromptError:
        counts = f"{self._done.added} were added and {self._done.known} known before that"
        error.args = (f"{error}; {counts}: import it once more, and what is stored is known",)
        return error
