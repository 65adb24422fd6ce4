"""Python functions as tools of a model: their schema from signature and docstring, their arguments checked."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_type_hints

import msgspec

from offprompt.errors import UsageError
from offprompt.records import MEMORY_ACTIONS, as_dict, as_list
from offprompt.wire.shapes import ToolSpec

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What both OpenAI and Anthropic take as a tool's name."""

MAX_DESCRIPTION_CHARS: Final = 1000
_SPHINX: Final = re.compile(r":param\s+(?:[^:\n]*\s)?(\w+):\s*(.*(?:\n(?!\s*:)(?!\s*$).*)*)")
_SECTION: Final = re.compile(
    r"^(?:(?:Args|Arguments|Parameters|Returns|Raises|Yields|Examples?):\s*$"
    r"|(?:Parameters|Returns|Raises|Yields|Examples?)\n-{3,}|:\w+)",
    re.MULTILINE,
)
_ARGUMENTS: Final = re.compile(r"^(?:(?:Args|Arguments|Parameters):[ \t]*\n|Parameters\n-{3,}\n)", re.MULTILINE)
_ENTRY: Final = re.compile(r"^(\w+)\s*(?:\([^)\n]*\))?\s*:(.*)$")


class ArgumentsError(ValueError):
    """Arguments that the tool does not take: a sentence for the model."""


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A function that a model may call.

    spec       its name, description and parameters' JSON Schema. arguments: the msgspec type that reads them.
    is_async   the function is a coroutine function.
    """

    function: Callable[..., Any]
    spec: ToolSpec
    arguments: type[msgspec.Struct]

    @property
    def is_async(self) -> bool:
        """Whether a call has to be awaited."""
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004 - whether it is a coroutine function, not whether it is
        )

    def read(self, arguments: str) -> dict[str, Any]:
        """A call's arguments as the function takes them: dataclasses made, texts that hold numbers read as such.

        Raises   ArgumentsError with a sentence that says what is wrong, and what the tool takes.
        """
        try:
            given = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as exc:
            raise ArgumentsError(f"the arguments are not JSON: {exc}; {self.takes()}") from exc
        if as_dict(given) is None:
            raise ArgumentsError(f"the arguments are not an object; {self.takes()}")
        try:
            read = msgspec.convert(given, self.arguments, strict=False)
        except (msgspec.ValidationError, ValueError) as exc:
            raise ArgumentsError(f"{worded(str(exc))}; {self.takes()}") from exc
        return {
            name: getattr(read, name) for name in read.__struct_fields__ if getattr(read, name) is not msgspec.UNSET
        }

    def takes(self) -> str:
        """What the tool takes, in a few words."""
        wanted = as_dict(self.spec.parameters.get("properties")) or {}
        needed = as_list(self.spec.parameters.get("required")) or []
        named = [f"{name}{'' if name in needed else ' (optional)'}: {_kind(part)}" for name, part in wanted.items()]
        return f"{self.spec.name} takes {', '.join(named) or 'no arguments'}"


def function_tool(function: Callable[..., Any]) -> FunctionTool:
    """A function as a tool.

    Schema     of each parameter by its annotation: text, numbers, bool, None, Literal, Enum, lists, dicts, unions,
               Annotated with msgspec.Meta, dates, dataclasses, TypedDict, NamedTuple; a default makes it optional.
    Docstring  its text is the description; `Args:`, `Parameters` with a line under it, or `:param x:` describe the
               parameters.
    Raises     UsageError for what cannot be described: no annotation, *args, a type without a JSON form, a bad name.
    """
    if not callable(function):
        raise UsageError(f"the tool {function!r} is not a function; pass the function itself")
    name = getattr(function, "__name__", type(function).__name__)
    if not NAME.fullmatch(name):
        raise UsageError(
            f"a tool is called {name!r}; names are 1 to 64 ASCII letters, digits, _ and -: give it a name with def"
        )
    if name in MEMORY_ACTIONS:
        raise UsageError(f"a tool is called {name!r}, a name of Offprompt's own; call it something else")
    text, described = _documented(inspect.getdoc(function) or "")
    try:
        arguments = msgspec.defstruct(
            name,
            [_field(each, kind, described.get(each.name, "")) for each, kind in _parameters(function, name)],
            kw_only=True,
            forbid_unknown_fields=True,
        )
        schema = _plain(msgspec.json.schema(arguments), {})
    except (TypeError, ValueError) as exc:
        if isinstance(exc, UsageError):
            raise
        raise UsageError(
            f"the tool {name!r} cannot be described as JSON Schema: {exc}; use text, numbers, lists, dicts, Literal or "
            "dataclasses"
        ) from exc
    for parameter in inspect.signature(function).parameters.values():
        part = schema["properties"][parameter.name]
        if parameter.default is not inspect.Parameter.empty and (value := _as_json(parameter.default)) is not ...:
            part["default"] = value
    return FunctionTool(function, ToolSpec(name, text or name.replace("_", " "), schema), arguments)


def function_tools(functions: Sequence[Callable[..., Any]]) -> dict[str, FunctionTool]:
    """Functions as tools, by name.

    Raises   UsageError as `function_tool`, and for two of one name.
    """
    tools: dict[str, FunctionTool] = {}
    for function in functions:
        tool = function_tool(function)
        if tool.spec.name in tools:
            raise UsageError(f"two tools are called {tool.spec.name!r}; give each a name of its own")
        tools[tool.spec.name] = tool
    return tools


def _parameters(function: Callable[..., Any], name: str) -> list[tuple[inspect.Parameter, Any]]:
    """The parameters with their types."""
    try:
        signature = inspect.signature(function)
        target = function if inspect.isroutine(function) else type(function).__call__
        hints = get_type_hints(target, include_extras=True)
    except (TypeError, ValueError, NameError) as exc:
        raise UsageError(
            f"the signature of the tool {name!r} cannot be read: {exc}; annotate it with types that its module knows"
        ) from exc
    found: list[tuple[inspect.Parameter, Any]] = []
    for each in signature.parameters.values():
        if each.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise UsageError(
                f"the tool {name!r} has the parameter {str(each)!r}; a model gives arguments by name: write them out"
            )
        if each.name not in hints:
            raise UsageError(
                f"the parameter {each.name!r} of the tool {name!r} has no type; annotate it, such as {each.name}: str"
            )
        found.append((each, hints[each.name]))
    return found


def _field(parameter: inspect.Parameter, kind: Any, described: str) -> tuple[str, Any] | tuple[str, Any, Any]:
    typed = Annotated[kind, msgspec.Meta(description=described)] if described else kind
    if parameter.default is inspect.Parameter.empty:
        return parameter.name, typed
    # Left out, the function's own default is used, whatever it is.
    return parameter.name, typed | msgspec.UnsetType, msgspec.UNSET


def _plain(schema: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with its references in place: not every server follows them. One that holds itself stays named."""
    known = as_dict(schema.get("$defs")) or known
    return _inlined({key: value for key, value in schema.items() if key != "$defs"}, known, ())


def _inlined(part: Any, known: Mapping[str, Any], within: tuple[str, ...]) -> Any:
    if (items := as_list(part)) is not None:
        return [_inlined(item, known, within) for item in items]
    members = as_dict(part)
    if members is None:
        return part
    reference = members.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in within:
            raise TypeError(f"{name} holds itself")
        rest = {key: value for key, value in members.items() if key != "$ref"}
        return _inlined({**known[name], **rest}, known, (*within, name))
    kept = {key: _inlined(value, known, within) for key, value in members.items() if not _is_title(key, value)}
    alternatives = as_list(kept.get("anyOf"))
    return (
        {**{key: value for key, value in kept.items() if key != "anyOf"}, **alternatives[0]}
        if (alternatives is not None and len(alternatives) == 1)
        else kept
    )


def _is_title(key: str, value: Any) -> bool:
    """Whether it is a schema's title, which says nothing to a model; a property of that name is an object."""
    return key == "title" and isinstance(value, str)


def _as_json(value: Any) -> Any:
    """The value as JSON, or `...` if it has no such form."""
    try:
        return msgspec.to_builtins(value)
    except (TypeError, ValueError):
        return ...


def _documented(text: str) -> tuple[str, dict[str, str]]:
    """A docstring's description, and what it says of each parameter."""
    first = _SECTION.search(text)
    head = (text if first is None else text[: first.start()]).strip()
    described = {name: " ".join(words.split()) for name, words in _SPHINX.findall(text)}
    section = _ARGUMENTS.search(text)
    if section is not None:
        described |= _entries(text[section.end() :].splitlines())
    return head[:MAX_DESCRIPTION_CHARS], {name: words for name, words in described.items() if words}


def _entries(lines: Sequence[str]) -> dict[str, str]:
    """The parameters of a section: `name: words` set in, or `name : type` with the words below it."""
    found: dict[str, list[str]] = {}
    depth, name = None, ""
    for line in lines:
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        depth = indent if depth is None else depth
        entry = _ENTRY.match(line.strip()) if indent == depth else None
        if entry is not None:
            # Under a ruled heading what stands behind the colon is the type.
            name, words = entry[1], "" if depth == 0 else entry[2].strip()
            found[name] = [words] if words else []
        elif indent > depth and name:
            found[name].append(line.strip())
        else:
            break
    return {name: " ".join(words) for name, words in found.items()}


def worded(error: str) -> str:
    """What a validation says, in a model's words."""
    error = re.sub(r"Object contains unknown field (`[^`]*`)", r"it has no argument \1", error)
    error = re.sub(r"Object missing required field (`[^`]*`)", r"the argument \1 is missing", error)
    return error.replace(" - at `$.", " in `").replace(" - at `$`", "")


def _kind(part: Any) -> str:
    """A parameter's type in a word."""
    members = as_dict(part) or {}
    if "enum" in members:
        return " or ".join(json.dumps(each, ensure_ascii=False) for each in members["enum"])
    if "anyOf" in members:
        return " or ".join(dict.fromkeys(_kind(each) for each in members["anyOf"]))
    return str(members.get("type", "any value"))
