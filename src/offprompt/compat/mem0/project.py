"""The project in mem0's words: the app of a key. What is set for it stands in the server's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from offprompt.compat.mem0.reach import Reach
from offprompt.compat.mem0.views import fields_of
from offprompt.errors import NotFoundError, UnsupportedError, UsageError
from offprompt.service.access import check_app

ORGANISATION: Final = "offprompt"
_IDS: Final = ("org_id", "project_id")


class Project:
    """The one project that an identity sees."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    def ping(self) -> dict[str, Any]:
        """Who asks: what mem0's client wants to know first."""
        identity = self._reach.identity
        return {
            "status": "ok",
            "org_id": ORGANISATION,
            "project_id": identity.app,
            "user_email": identity.subject or None,
        }

    def check(self, organisation: str, project: str) -> None:
        """Raises NotFoundError for another organisation or project than the key's."""
        if (organisation, project) != (ORGANISATION, self._reach.identity.app):
            raise NotFoundError(f"no project {project[:40]!r} of organisation {organisation[:40]!r} for this key")

    def get(self, fields: Sequence[str] | None = None) -> dict[str, Any]:
        """What holds for it; fields: only these."""
        settings = self._reach.memory.parts.settings
        categories = [one.strip() for one in settings.extract_categories.split(",") if one.strip()]
        whole = {
            "id": self._reach.identity.app,
            "org_id": ORGANISATION,
            "project_id": self._reach.identity.app,
            "name": self._reach.identity.app,
            "description": None,
            "custom_instructions": settings.extract_instructions or None,
            "agent_custom_instructions": None,
            "custom_categories": [{one: ""} for one in categories] or None,
            "multilingual": True,
            "decay": False,
            "memory_depth": None,
            "usecase_setting": None,
            "members": [],
        }
        return fields_of(whole, fields)

    def update(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Say once more what holds already.

        Raises   UnsupportedError for what would have to change: it is the server's, where that is written.
        """
        check_app(self._reach.identity, role="admin")
        now = self.get()
        asked = {name: value for name, value in given.items() if name not in _IDS}
        if not asked:
            raise UsageError("nothing is to be changed; name a setting, such as multilingual")
        other = [name for name, value in asked.items() if (value or None) != (now.get(name) or None)]
        if other:
            raise UnsupportedError(
                f"{', '.join(map(repr, other))}: a project's settings are the server's here; set "
                "extract_instructions and extract_categories in its offprompt.toml and start it anew"
            )
        return {"message": "the project is so already"}

    def refused(self, what: str) -> NoReturn:
        """Raises UnsupportedError for what one server has not; what: in words."""
        check_app(self._reach.identity, role="admin")
        raise UnsupportedError(f"there are no {what} on a server of one's own; {_INSTEAD[what]}")


_INSTEAD: Final[Mapping[str, str]] = {
    "projects to make or delete": "make a key of another app: `offprompt key create NAME --app OTHER`",
    "members": "who may do what is said by keys: `offprompt key create NAME --role read`",
    "webhooks": "read /v1/events, which goes on from where you were",
}
