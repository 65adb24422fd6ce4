"""What mem0's callers ask, as records: checked where they come in, with a word on each thing that is not used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, json

from offprompt.errors import UsageError

A = TypeVar("A", bound=Struct)

UNUSED: Final[Mapping[str, str]] = {
    "custom_categories": "categories are not guessed; give your own as metadata or tags",
    "custom_instructions": "set extract_instructions for the model that reads what users say",
    "agent_custom_instructions": "set extract_instructions for the model that reads what users say",
    "structured_data_schema": "memories are texts here; a slot holds structured values",
    "includes": "what is read from messages is the same for all; set extract_instructions",
    "excludes": "what is read from messages is the same for all; set extract_instructions",
    "enable_graph": "there is no graph; facts know their subject by themselves",
    "prompt_profile_id": "there are no prompt profiles",
    "temporal_reasoning": "times in a question always count",
    "keyword_search": "words always count",
}
"""What is taken and does nothing, with what does."""

MAX_WHOLE: Final = 2**53
MAX_CATEGORIES: Final = 16
Category = Annotated[str, Meta(min_length=1, max_length=64)]
Id = Annotated[str, Meta(min_length=1)]
TopK = Annotated[int, Meta(ge=1, le=1000)]
Share = Annotated[float, Meta(ge=0, le=1)]
Moment = float | str
Day = Annotated[str, Meta(extra_json_schema={"format": "date"})]
"""The last day, or a time in ISO 8601."""


class Add(Struct, kw_only=True, frozen=True):
    """Messages to remember; see mem0's `add`."""

    messages: list[dict[str, Any]] | dict[str, Any] | str
    user_id: Id | None = None
    agent_id: Id | None = None
    run_id: Id | None = None
    app_id: Id | None = None
    filters: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    infer: bool | None = None
    timestamp: Moment | None = None
    expiration_date: Day | None = None
    immutable: bool | None = None
    categories: Annotated[list[Category], Meta(max_length=MAX_CATEGORIES)] | None = None


class Search(Struct, kw_only=True, frozen=True):
    """A question, and which memories may answer it; see mem0's `search`."""

    query: str
    filters: dict[str, Any] | None = None
    top_k: TopK | None = None
    limit: TopK | None = None
    threshold: Share | None = None
    rerank: bool | None = None
    fields: list[str] | None = None
    categories: list[str] | None = None
    metadata: dict[str, Any] | None = None
    show_expired: bool | None = None
    reference_date: Moment | None = None
    latest_only: bool | None = None


class Listing(Struct, kw_only=True, frozen=True):
    """Which memories are listed; see mem0's `get_all`."""

    filters: dict[str, Any] | None = None
    show_expired: bool | None = None
    start_date: Moment | None = None
    end_date: Moment | None = None
    categories: list[str] | None = None
    fields: list[str] | None = None
    keywords: str | list[str] | None = None
    metadata: dict[str, Any] | None = None
    latest_only: bool | None = None


class Change(Struct, kw_only=True, frozen=True):
    """What becomes of a memory; what is left out stays. expiration_date: null takes it away."""

    text: str | None = None
    metadata: dict[str, Any] | None = None
    timestamp: Moment | None = None
    expiration_date: Day | UnsetType | None = UNSET


class OneChange(Change, kw_only=True, frozen=True):
    """The same of one among others."""

    memory_id: Id


class OneId(Struct, kw_only=True, frozen=True):
    """One memory among others."""

    memory_id: Id


class Feedback(Struct, kw_only=True, frozen=True):
    """What somebody thinks of a memory; see mem0's `feedback`."""

    memory_id: Id
    feedback: Literal["POSITIVE", "NEGATIVE", "VERY_NEGATIVE"] | None = None
    feedback_reason: str | None = None


class Export(Struct, kw_only=True, frozen=True):
    """Which memories are exported, and in which shape."""

    schema: dict[str, Any] | str | None = None
    filters: dict[str, Any] | None = None
    user_id: Id | None = None
    agent_id: Id | None = None
    run_id: Id | None = None
    app_id: Id | None = None


class ExportWanted(Struct, kw_only=True, frozen=True):
    """Which export: by its id, or by the filters that it has."""

    memory_export_id: Id | None = None
    filters: dict[str, Any] | None = None
    user_id: Id | None = None
    agent_id: Id | None = None
    run_id: Id | None = None
    app_id: Id | None = None


def asked(given: Mapping[str, Any], kind: type[A]) -> tuple[A, list[str]]:
    """A body as a record, and what of it is not used, in words.

    Raises   UsageError for what is missing or of another type.
    """
    try:
        whole = {name: _whole(value) for name, value in given.items()}
        record = json.decode(json.encode(whole), type=kind)  # as it comes over the wire: dates are texts
    except (ValueError, TypeError) as exc:
        raise UsageError(f"the request does not fit: {str(exc).replace('`$.', '`')}; see mem0's reference") from None
    unused = [name for name in given if name not in kind.__struct_fields__]
    return record, [f"{name} is not used here: {UNUSED.get(name, 'it is not known')}" for name in unused]


def _whole(value: Any) -> Any:
    """A number as JSON means it: there 3.0 is a whole one."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < MAX_WHOLE else value
