"""What mem0 makes of memories with a language model: exports in a shape of one's own, and summaries.

With a model for `summarize` (or `extract`) it does so here too, counted like all of its calls. Without one the memories
themselves are given, as they are, and the answer says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from offprompt.compat.mem0 import tokens, views
from offprompt.compat.mem0.asked import Export, ExportWanted, Listing
from offprompt.compat.mem0.reach import Reach
from offprompt.compat.mem0.records import Records
from offprompt.errors import NotFoundError, UsageError
from offprompt.recall.extract.prompting import language_of, summary_prompt
from offprompt.records import Memory, as_dict
from offprompt.service.exporting import secret_hider
from offprompt.service.model_calls import CountedModel

EXPORT: Final = "export"
SUMMARY_WORDS: Final = 120
ROOM_TOKENS: Final = 8000
SHAPE: Final = (
    "Fill the JSON schema from these memories of one person or agent. What they do not say is null or left out."
)


class Making:
    """For one identity."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    def export(self, given: Export) -> dict[str, Any]:
        """An id under which the export is made when it is asked for: of what is there then; nothing is copied.

        Raises   UsageError, ForbiddenError.
        """
        schema = given.schema
        if isinstance(schema, str):
            try:
                schema = as_dict(json.loads(schema))
            except (ValueError, RecursionError):
                schema = None
            if schema is None:
                raise UsageError("schema is a text that is no JSON object; give a JSON schema")
        filters = _filters(given)
        self._reach.roots(self._reach.wanted(filters).bounds)
        what = {"filters": filters, "schema": schema}
        return {
            "message": "the export is made when it is asked for",
            "id": tokens.issue(self._reach, EXPORT, what),
        }

    def exported(self, given: ExportWanted) -> dict[str, Any]:
        """The export: in the shape of its schema where a model fills that, else `memories` as they are.

        Raises   NotFoundError for an id that was not issued here; ForbiddenError; what the model raises.
        """
        what: Mapping[str, Any] | None = {"filters": _filters(given), "schema": None}
        if given.memory_export_id is not None:
            what = tokens.read(self._reach, EXPORT, given.memory_export_id)
            if what is None:
                raise NotFoundError(f"no export {given.memory_export_id[:40]!r} here; create_memory_export makes one")
        rows = self._rows(what["filters"])
        model = self._model()
        if what["schema"] and model is not None and rows:
            texts = self._texts(rows, model)
            messages = [{"role": "system", "content": SHAPE}, {"role": "user", "content": texts}]
            answer = model.complete(rows[0].scope, messages, schema=what["schema"], max_tokens=2048)
            if answer.data is not None:
                return dict(as_dict(answer.data) or {"data": answer.data})
        shown: dict[str, Any] = {"memories": [views.item(row) for row in rows]}
        if what["schema"]:
            shown["warnings"] = ["the schema is not filled: no model is set for it, or it gave no JSON of that shape"]
        return shown

    def summary(self, filters: Mapping[str, Any] | None) -> dict[str, Any]:
        """What the memories say together: by a model, else each of them, the newest first, up to ROOM_TOKENS."""
        rows = self._rows(filters)
        model = self._model()
        said = {"memories": len(rows), "made_by": "memories"}
        if model is None or not rows:
            return {"summary": self._texts(rows, None), **said}
        texts = self._texts(rows, model)
        language = self._reach.memory.parts.settings.language or language_of(texts)
        _, system = summary_prompt(language, SUMMARY_WORDS)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": texts}]
        answer = model.complete(rows[0].scope, messages, max_tokens=SUMMARY_WORDS * 4)
        return {"summary": answer.text.strip(), "memories": len(rows), "made_by": model.name}

    def _rows(self, filters: Mapping[str, Any] | None) -> list[Memory]:
        return Records(self._reach).matching(Listing(filters=None if filters is None else dict(filters)))

    def _model(self) -> CountedModel | None:
        models = self._reach.memory.parts.models
        return None if models is None else models.of("summarize")

    def _texts(self, rows: Sequence[Memory], model: CountedModel | None) -> str:
        """The memories' texts, a line each, the newest first, as far as they fit; secrets are handles for a model."""
        parts = self._reach.memory.parts
        window = parts.settings.context_tokens if model is None else model.context_tokens
        room = min(ROOM_TOKENS, (window or 2 * ROOM_TOKENS) // 2)
        lines: list[str] = []
        for row in reversed(rows):
            hide = str if model is None else secret_hider(parts.memories.kit, row.scope)
            line = hide(row.text)
            room -= parts.tokenizer.count(line) + 1
            if room < 0:
                break
            lines.append(line)
        return "\n".join(lines)


def _filters(given: Export | ExportWanted) -> dict[str, Any]:
    """Filters with the ids that stand beside them."""
    ids = {name: getattr(given, name) for name in ("user_id", "agent_id", "run_id", "app_id")}
    named = {name: value for name, value in ids.items() if value is not None}
    return {"AND": [named, given.filters]} if named and given.filters else named or dict(given.filters or {})
