"""What `doctor` says of models for memory: a budget that is spent, calls without an answer, today."""

from __future__ import annotations

import datetime as dt

from offprompt.protocols import Clock, SessionStore
from offprompt.records import Finding
from offprompt.service.model_calls import SESSIONS, spent_in


def model_findings(sessions: SessionStore, clock: Clock) -> list[Finding]:
    """One finding, if models were asked today; none, if no model was. Cost: O(sessions)."""
    today = SESSIONS + dt.datetime.fromtimestamp(clock.now(), tz=dt.UTC).date().isoformat()
    found = [record for record in sessions.sessions() if record.scope.session == today]
    if not found:
        return []
    spent = [(record.scope.without_session(), spent_in(record)) for record in found]
    calls = sum(sum(one.calls.values()) for _, one in spent)
    what = f"{calls:,} calls for memory today, {sum(one.tokens for _, one in spent):,} tokens"
    over = [str(scope) for scope, one in spent if one.refused]
    failed = [(str(scope), one.failed) for scope, one in spent if one.failed]
    if over:
        return [
            Finding(
                "models",
                "warn",
                f"{what}; the day's budget is spent for {_some(over)}: no calls are made there, memory goes on without",
                "raise budget_tokens or budget_price, or wait for the next day (UTC)",
            )
        ]
    if failed:
        count = sum(number for _, number in failed)
        scopes = _some([scope for scope, _ in failed])
        way = f"see offprompt trace {today} with the scope's ids"
        return [Finding("models", "warn", f"{what}; {count:,} without an answer, for {scopes}", way)]
    return [Finding("models", "ok", what)]


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
