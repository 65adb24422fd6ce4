"""Users, agents, apps and runs, their profiles, exports and summaries as mem0's API has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from offprompt.compat.mem0.asked import Export, ExportWanted, asked
from offprompt.errors import UsageError
from offprompt.rest.endpoint import Call, Endpoint, Example
from offprompt.rest.mem0.shapes import Found, OfKind, body_of, endpoint, reach

if TYPE_CHECKING:
    from offprompt.compat.mem0.entities import Entities
    from offprompt.compat.mem0.making import Making

ALICE: Final = {"filters": {"user_id": "alice"}}


class ProfileJob(Struct, kw_only=True, frozen=True):
    """Whose profiles."""

    operation: str
    entity_type: str = "user"
    entity_id: str | None = None
    limit: int | None = None


class ProfileSettings(Struct, kw_only=True, frozen=True):
    """How profiles are made."""

    enabled: bool | None = None
    entities: dict[str, Any] | None = None


class Summary(Struct, kw_only=True, frozen=True):
    """Of which memories."""

    filters: dict[str, Any] | None = None


def _making(call: Call) -> Making:
    from offprompt.compat.mem0.making import Making  # noqa: PLC0415 - loads NumPy and the rules

    return Making(reach(call))


def _entities(call: Call) -> Entities:
    from offprompt.compat.mem0.entities import Entities  # noqa: PLC0415 - loads NumPy and the rules

    return Entities(reach(call))


def listed(call: Call) -> Found:
    """Those that the key reaches, by type and name."""
    return _entities(call).listed(call.query.type)


def delete(call: Call) -> Found:
    """For good: memories, slots, sessions. One that is not there has nothing."""
    return _entities(call).delete(call.path["type"], call.path["name"])


def profile(call: Call) -> Found:
    """What rules filled in as the user spoke."""
    return _entities(call).profile(call.path["user_id"])


def begin_job(call: Call) -> Found:
    """Done when it begins: rules fill profiles with each message."""
    given = asked(call.body, ProfileJob)[0]
    if given.entity_type != "user":
        raise UsageError(f"entity_type={given.entity_type[:40]!r}: profiles are of users; say 'user'")
    return _entities(call).profile_job(given.operation, given.entity_id, given.limit)


def job(call: Call) -> Found:
    """Counted anew each time."""
    return _entities(call).job(call.path["job_id"])


def settings(call: Call) -> Found:
    """Rules, always."""
    return _entities(call).profile_settings()


def set_settings(call: Call) -> Found:
    """What is so already may be said; all else is refused."""
    asked(call.body, ProfileSettings)
    return _entities(call).set_profile_settings(call.body)


def export(call: Call) -> Found:
    """Nothing is copied: it is made when it is asked for."""
    return _making(call).export(asked(call.body, Export)[0])


def exported(call: Call) -> Found:
    """In the shape of its schema where a model is set that fills it, else the memories as they are."""
    return _making(call).exported(asked(call.body, ExportWanted)[0])


def summary(call: Call) -> Found:
    """By a model where one is set, else the memories themselves; `made_by` says which."""
    return _making(call).summary(asked(call.body, Summary)[0].filters)


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    endpoint("GET", "/v1/entities/", "mem0_entities", listed, "List users, agents, apps and runs.", query=OfKind),
    endpoint(
        "DELETE",
        "/v2/entities/{type}/{name}/",
        "mem0_delete_entity",
        delete,
        "Wipe what is somebody's.",
        role="admin",
        example=Example(path={"type": "user", "name": "alice"}),
    ),
    endpoint(
        "GET",
        "/v2/entities/user/{user_id}/profile/",
        "mem0_profile",
        profile,
        "A user's profile.",
        example=Example(path={"user_id": "alice"}, before=("mem0_add",)),
    ),
    endpoint(
        "POST",
        "/v2/profiles/jobs/",
        "mem0_begin_profile_job",
        begin_job,
        "Make profiles.",
        body=body_of(ProfileJob),
        example=Example(body={"operation": "sample", "entity_type": "user", "limit": 3}),
    ),
    endpoint(
        "GET",
        "/v2/profiles/jobs/{job_id}/",
        "mem0_profile_job",
        job,
        "How a job of profiles stands.",
        example=Example(path={"job_id": "none"}, status=404),
    ),
    endpoint("GET", "/v2/profiles/settings/", "mem0_profile_settings", settings, "How profiles are made."),
    endpoint(
        "POST",
        "/v2/profiles/settings/",
        "mem0_set_profile_settings",
        set_settings,
        "Say how profiles are made.",
        role="admin",
        body=body_of(ProfileSettings),
        example=Example(body={"enabled": True}),
    ),
    endpoint(
        "POST",
        "/v1/exports/",
        "mem0_export",
        export,
        "Prepare an export.",
        body=body_of(Export),
        status=201,
        example=Example(body={"schema": {"type": "object"}, **ALICE}),
    ),
    endpoint(
        "POST",
        "/v1/exports/get/",
        "mem0_exported",
        exported,
        "An export.",
        body=body_of(ExportWanted),
        example=Example(body=ALICE),
    ),
    endpoint(
        "POST",
        "/v1/summary/",
        "mem0_summary",
        summary,
        "A summary of memories.",
        body=body_of(Summary),
        example=Example(body=ALICE),
    ),
)
