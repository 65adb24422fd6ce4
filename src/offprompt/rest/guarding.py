"""The guard of a server, made of its memory and settings."""

from __future__ import annotations

from collections.abc import Sequence

from offprompt.records import ROLES, Identity
from offprompt.rest.guards import Guard, check_guarded, is_loopback
from offprompt.service.keys import Keys
from offprompt.service.offprompt import Offprompt


def guard_for(memory: Offprompt, hosts: Sequence[str], *, token: str = "", user: str | None = None) -> Guard:
    """Who asks of a server: by keys of its store, and on the loopback by the token of this machine.

    hosts    the address that it listens on, last, and other names that it was given for it.
    user     whose memory is meant with that token where none is named; None: the memory's own default.
    Raises   UsageError off the loopback while nobody could show who asks.
    """
    keys = Keys(memory.parts.main, memory.parts.clock)
    check_guarded(keys, hosts[-1], has_issuer=False)
    local = Identity(memory.parts.settings.app, roles=frozenset(ROLES), default_user=user or memory.default_user)
    return Guard(keys, local=local, token=token, hosts=hosts if is_loopback(hosts[-1]) else None)
