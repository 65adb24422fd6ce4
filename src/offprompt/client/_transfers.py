"""Memories out and in: files of this machine, as streams; and reindexing, which takes as long."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from offprompt.client._answers import error_of, record_of
from offprompt.client._bodies import Importing
from offprompt.client._requests import Asking, Request, asked, path_of
from offprompt.errors import BackendError, UsageError
from offprompt.records import WITHIN, Within
from offprompt.records.imported import Imported, Reindexed
from offprompt.records.values import checked_choice


class TransferCalls:
    """The part of the calls of memories that are streams."""

    _headers: Mapping[str, str]

    @asked
    def export(self, path: str | os.PathLike[str], *, within: Within = "subtree", secrets: bool = False) -> Asking[int]:
        """Write the memories to a private file of this machine, JSON Lines, and return how many."""
        checked_choice("within", within, WITHIN)
        query = {"within": within, "secrets": secrets or None}
        lines = yield Request("GET", path_of("v1", "export"), query=query, headers=self._headers, download=Path(path))
        return int(lines) - 1

    @asked
    def import_file(
        self, path: str | os.PathLike[str], *, rescope: bool = False, derive: Literal["rules", "none"] = "rules"
    ) -> Asking[Imported]:
        """Store what a file of this machine holds: our export, one of mem0, a chat log; once more, it changes nothing.

        Raises   BackendError where it broke off, with how far it got; the same call goes on.
        """
        checked_choice("derive", derive, ("rules", "none"))
        file = Path(path)
        try:
            file.open("rb").close()
        except OSError as exc:
            raise UsageError(f"{path} cannot be read: {exc.strerror or exc}; correct the path") from exc
        query = {"rescope": rescope or None, "derive": derive}
        headers = {**self._headers, "Offprompt-File": quote(file.name)}
        done = Importing(str(path))
        is_whole = yield Request(
            "POST", path_of("v1", "import"), query=query, headers=headers, upload=file, on_line=done.take
        )
        return done.result(is_whole=is_whole)

    @asked
    def reindex(self, *, progress: Callable[[int], object] | None = None) -> Asking[Reindexed]:
        """Give the memories of this scope and those below it vectors of the embedder in use."""
        reports: list[Reindexed] = []

        def take(report: Any) -> None:
            if "code" in report:
                raise error_of(report)
            reports.append(record_of(report, Reindexed))
            if progress is not None and not reports[-1].embedder:
                progress(reports[-1].done)

        is_whole = yield Request("POST", path_of("v1", "reindex"), headers=self._headers, on_line=take)
        if not is_whole:
            raise BackendError(f"the reindex broke off after {reports[-1].done} memories; reindex once more")
        return reports[-1]
