"""Projects, members and webhooks as mem0's API has them: one server has the project of the key, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from msgspec import Struct

from offprompt.compat.mem0.asked import asked
from offprompt.rest.endpoint import Call, Endpoint, Example
from offprompt.rest.mem0.shapes import Fields, Found, Member, body_of, endpoint, reach

if TYPE_CHECKING:
    from offprompt.compat.mem0.project import Project

PROJECTS: Final = "/api/v1/orgs/organizations/{org_id}/projects/"
PROJECT: Final = PROJECTS + "{project_id}/"
HOOKS: Final = "/api/v1/webhooks/"
OURS: Final = {"org_id": "offprompt", "project_id": "default"}


class NewProject(Struct, kw_only=True, frozen=True):
    """A project's name."""

    name: str
    description: str | None = None


class Settings(Struct, kw_only=True, frozen=True):
    """What is to hold for a project."""

    custom_instructions: str | None = None
    agent_custom_instructions: str | None = None
    custom_categories: list[Any] | None = None
    multilingual: bool | None = None
    decay: bool | None = None
    memory_depth: str | None = None
    usecase_setting: Any = None


class OneMember(Struct, kw_only=True, frozen=True):
    """Who is what in a project."""

    email: str
    role: str = "READER"


class Hook(Struct, kw_only=True, frozen=True):
    """What is told where."""

    url: str | None = None
    name: str | None = None
    event_types: list[str] | None = None


def _project(call: Call) -> Project:
    from offprompt.compat.mem0.project import Project  # noqa: PLC0415 - loads NumPy and the rules

    project = Project(reach(call))
    if "project_id" in call.path:
        project.check(call.path.get("org_id", OURS["org_id"]), call.path["project_id"])
    return project


def ping(call: Call) -> Found:
    """Whom the key stands for: its app is the project."""
    return _project(call).ping()


def get(call: Call) -> Found:
    """What holds for it; `fields`: only these."""
    return _project(call).get(call.query.fields)


def update(call: Call) -> Found:
    """What is so already may be said; all else stands in the server's own settings."""
    asked(call.body, Settings)
    return _project(call).update(call.body)


def no_projects(call: Call) -> NoReturn:
    """A key of another app is another project."""
    _project(call).refused("projects to make or delete")


def members(call: Call) -> Found:
    """There are none: keys say who may what."""
    _project(call)
    return {"members": []}


def no_members(call: Call) -> NoReturn:
    """Keys say who may what."""
    _project(call).refused("members")


def hooks(call: Call) -> list[Found]:
    """There are none."""
    _project(call)
    return []


def no_hooks(call: Call) -> NoReturn:
    """Events are read, not sent."""
    _project(call).refused("webhooks")


REFUSED: Final = Example(path=OURS, status=501)
NEW: Final = {"name": "n"}
WHO: Final = {"email": "ann@example.com", "role": "READER"}
HOOK: Final = {"url": "https://example.com/hook", "name": "n", "event_types": ["memory_add"]}

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    endpoint("GET", "/v1/ping/", "mem0_ping", ping, "Who asks."),
    endpoint("GET", PROJECT, "mem0_project", get, "The project.", query=Fields, example=Example(path=OURS)),
    endpoint(
        "PATCH",
        PROJECT,
        "mem0_update_project",
        update,
        "Say what holds for the project.",
        role="admin",
        body=body_of(Settings),
        example=Example(path=OURS, body={"multilingual": True}),
    ),
    endpoint(
        "POST",
        PROJECTS,
        "mem0_create_project",
        no_projects,
        "Not here: make a project.",
        role="admin",
        body=body_of(NewProject),
        example=Example(path={"org_id": "offprompt"}, body=NEW, status=501),
    ),
    endpoint(
        "DELETE",
        PROJECT,
        "mem0_delete_project",
        no_projects,
        "Not here: delete the project.",
        role="admin",
        example=REFUSED,
    ),
    endpoint("GET", PROJECT + "members/", "mem0_members", members, "The members: none.", example=Example(path=OURS)),
    endpoint(
        "POST",
        PROJECT + "members/",
        "mem0_add_member",
        no_members,
        "Not here: add a member.",
        role="admin",
        body=body_of(OneMember),
        example=Example(path=OURS, body=WHO, status=501),
    ),
    endpoint(
        "PUT",
        PROJECT + "members/",
        "mem0_update_member",
        no_members,
        "Not here: change a member.",
        role="admin",
        body=body_of(OneMember),
        example=Example(path=OURS, body=WHO, status=501),
    ),
    endpoint(
        "DELETE",
        PROJECT + "members/",
        "mem0_remove_member",
        no_members,
        "Not here: remove a member.",
        role="admin",
        query=Member,
        example=REFUSED,
    ),
    endpoint(
        "GET",
        HOOKS + "projects/{project_id}/",
        "mem0_webhooks",
        hooks,
        "The webhooks: none.",
        answer=list[Found],
        example=Example(path={"project_id": "default"}),
    ),
    endpoint(
        "POST",
        HOOKS + "projects/{project_id}/",
        "mem0_create_webhook",
        no_hooks,
        "Not here: make a webhook.",
        role="admin",
        body=body_of(Hook),
        example=Example(path={"project_id": "default"}, body=HOOK, status=501),
    ),
    endpoint(
        "PUT",
        HOOKS + "{webhook_id}/",
        "mem0_update_webhook",
        no_hooks,
        "Not here: change a webhook.",
        role="admin",
        body=body_of(Hook),
        example=Example(path={"webhook_id": "1"}, body={"name": "n"}, status=501),
    ),
    endpoint(
        "DELETE",
        HOOKS + "{webhook_id}/",
        "mem0_delete_webhook",
        no_hooks,
        "Not here: delete a webhook.",
        role="admin",
        example=Example(path={"webhook_id": "1"}, status=501),
    ),
)
