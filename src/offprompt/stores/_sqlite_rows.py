"""What statements on the SQLite tables have in common."""

from __future__ import annotations

from typing import Final

from offprompt.records import Scope

SLOT_ROWS: Final = (
    "SELECT s.app, s.user, s.agent, s.session, s.name, v.value, s.version, v.policy, v.trust, v.source, v.actor, "
    "s.created_at, v.written_at, v.bytes, s.expires_at, s.ttl_s, s.sliding, s.tags, s.importance, s.uses, s.used_at, "
    "s.schema, s.parts, s.forgotten_at, s.allow, s.locked, s.recent "
    "FROM slots s JOIN versions v USING (app, user, agent, session, folded, version) "
)
THE_SLOT: Final = "app = ? AND user = ? AND agent = ? AND session = ? AND folded = ?"
THE_SCOPE: Final = "app = ? AND user = ? AND agent = ? AND session = ?"
EVENT_COLUMNS: Final = (
    "at, app, user, agent, session, op, actor, name, version, bytes, outcome, why, duration_s"  # seq is SQLite's
)


def in_subtree(scope: Scope | None) -> tuple[str, list[str]]:
    """A condition that holds for the scope's subtree (None: for all), and its parameters."""
    if scope is None:
        return "1", []
    ids = zip(("user", "agent", "session"), scope.key[1:], strict=True)
    given = [("app", scope.app), *((kind, value) for kind, value in ids if value)]
    return " AND ".join(f"{kind} = ?" for kind, _ in given), [value for _, value in given]
