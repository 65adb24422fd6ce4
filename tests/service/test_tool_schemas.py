"""Python functions as tools: what a model is told of them, and which arguments reach them."""

from __future__ import annotations

import datetime as dt
import enum
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest

from offprompt.errors import UsageError
from offprompt.service.tool_schemas import ArgumentsError, function_tool, function_tools
from offprompt.testing.strict_chat import chat_faults
from offprompt.wire.openai import OpenAIChat


@dataclass
class Place:
    """A place on earth."""

    city: str
    zip: int | None = None


@dataclass
class Tree:
    name: str
    below: list[Tree]


class Unit(enum.Enum):
    C = "c"
    F = "f"


class Span(TypedDict):
    start: dt.date
    days: int


def weather(place: Place, unit: Literal["c", "f"] = "c", *, span: Span | None = None, title: str = "") -> str:
    """The weather at a place.

    Asks the harbour office.

    Args:
        place: where, with
            its zip
        unit (str): of the degrees

    Returns:
        A text.
    """
    return f"{place.city} {unit} {span} {title}"


def sphinx(city: str, many: Annotated[int, msgspec.Meta(ge=1)] = 1, rest: Any = None, kind: Unit = Unit.C) -> None:
    """看天气。

    :param city: 哪个城市
    :param int many: how many
    :returns: nothing
    """


def ruled(city: str, days: list[str]) -> None:
    """Numpy's way.

    Parameters
    ----------
    city : str
        Which one.
    days : list
        Of the week,
        short.

    Returns
    -------
    None
    """


def test_a_signature_becomes_a_schema() -> None:
    schema = function_tool(weather).spec.parameters
    assert schema["required"] == ["place"]
    assert schema["additionalProperties"] is False
    place, unit = schema["properties"]["place"], schema["properties"]["unit"]
    assert place["properties"]["city"] == {"type": "string"}
    assert place["required"] == ["city"]
    assert (unit["enum"], unit["default"]) == (["c", "f"], "c")
    assert schema["properties"]["title"] == {"type": "string", "default": ""}
    assert "$ref" not in json.dumps(schema)


@pytest.mark.parametrize(
    ("function", "text", "described"),
    [
        (
            weather,
            "The weather at a place.\n\nAsks the harbour office.",
            {"place": "where, with its zip", "unit": "of the degrees"},
        ),
        (sphinx, "看天气。", {"city": "哪个城市", "many": "how many"}),
        (ruled, "Numpy's way.", {"city": "Which one.", "days": "Of the week, short."}),
    ],
)
def test_a_docstring_describes(function: Callable[..., Any], text: str, described: dict[str, str]) -> None:
    spec = function_tool(function).spec
    assert spec.description == text
    found = {name: part["description"] for name, part in spec.parameters["properties"].items() if "description" in part}
    assert found == described


def test_providers_take_the_tools() -> None:
    tools = [dict(OpenAIChat().tool(each.spec)) for each in function_tools([weather, sphinx, ruled]).values()]
    assert chat_faults({"model": "m", "messages": [{"role": "user", "content": "?"}], "tools": tools}) == []


def test_arguments_are_made_what_the_function_takes() -> None:
    tool = function_tool(weather)
    read = tool.read('{"place": {"city": "上海", "zip": "200000"}, "span": {"start": "2026-11-30", "days": 2}}')
    assert read == {"place": Place("上海", 200000), "span": {"start": dt.date(2026, 11, 30), "days": 2}}
    assert tool.function(**read).startswith("上海 c")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("{", "not JSON"),
        ("[1]", "not an object"),
        ("{}", "the argument `place` is missing"),
        ('{"place": {"city": "x"}, "unit": "k"}', "in `unit`"),
        ('{"place": {"city": 1}}', "in `place.city`"),
        ('{"place": {"city": "x"}, "town": "y"}', "it has no argument `town`"),
    ],
)
def test_bad_arguments_say_what_is_wrong_and_what_is_taken(arguments: str, why: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        function_tool(weather).read(arguments)
    assert why in str(caught.value)
    assert 'weather takes place: object, unit (optional): "c" or "f"' in str(caught.value)


def bare(city) -> None: ...  # pyright: ignore[reportMissingParameterType,reportUnknownParameterType]


def many(*cities: str) -> None: ...


def strange(what: Callable[[], None]) -> None: ...


def circle(tree: Tree) -> None: ...


def mem_write(slot: str) -> None: ...


def unknown(what: Nowhere) -> None: ...  # noqa: F821 # pyright: ignore[reportUndefinedVariable,reportUnknownParameterType]


REFUSED: list[tuple[Any, str]] = [
    (bare, "has no type; annotate it, such as city: str"),
    (many, "write them out"),
    (strange, "cannot be described as JSON Schema"),
    (circle, "Tree holds itself"),
    (mem_write, "a name of Offprompt's own"),
    (unknown, "cannot be read"),
    (lambda: None, "give it a name with def"),
    ("weather", "is not a function"),
]


@pytest.mark.parametrize(("function", "why"), REFUSED)
def test_what_cannot_be_described_is_refused(function: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        function_tool(function)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two tools are called 'weather'"):
        function_tools([weather, weather])


def test_methods_and_callable_objects_are_tools() -> None:
    class Desk:
        def send(self, text: str) -> str:
            """Send it."""
            return text

    tool = function_tool(Desk().send)
    assert list(tool.spec.parameters["properties"]) == ["text"]
    assert tool.function(**tool.read('{"text": "a"}')) == "a"
