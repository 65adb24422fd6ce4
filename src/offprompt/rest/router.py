"""Router: which endpoint a path and method mean. Paths are split before they are decoded: `%2F` is part of a name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from offprompt.rest.endpoint import Endpoint
from offprompt.rest.problems import RequestError

ANY: Final = "{}"


@dataclass(slots=True)
class _Node:
    """What is reached by the segments so far."""

    children: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    methods: dict[str, Endpoint] = field(default_factory=dict[str, Endpoint])

    @property
    def allowed(self) -> list[str]:
        """Its methods, with those that every path has."""
        return sorted({*self.methods, "OPTIONS", *(["HEAD"] if "GET" in self.methods else [])})


class Router:
    """All endpoints by path. Cost: O(segments of the path)."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = _Node()
        self._plain: dict[str, _Node] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        for endpoint in endpoints:
            node = self._root
            for segment in endpoint.path.split("/"):
                key = ANY if segment.startswith("{") else segment
                node = node.children.setdefault(key, _Node())
            if endpoint.method in node.methods:
                raise ValueError(f"{endpoint.method} {endpoint.path} is declared twice")
            node.methods[endpoint.method] = endpoint
            names = tuple(part[1:-1] for part in endpoint.path.split("/") if part.startswith("{"))
            self._names[endpoint.path] = names
            if not names:
                self._plain[endpoint.path] = node

    def find(self, method: str, raw_path: str) -> tuple[Endpoint, dict[str, str]]:
        """The endpoint, and the values of the path's named parts.

        Raises   RequestError 404 if there is no such path, 405 with Allow if it has other methods.
        """
        node, values = self._node(raw_path)
        endpoint = node.methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            allowed = ", ".join(node.allowed)
            raise RequestError(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"{method[:20]} is not among the methods of {raw_path[:80]!r}: {allowed}",
                {"allow": allowed},
            )
        return endpoint, dict(zip(self._names[endpoint.path], map(_decoded, values), strict=True)) if values else {}

    def methods(self, raw_path: str) -> list[str]:
        """The methods that the path has.

        Raises   RequestError 404 if there is no such path.
        """
        return self._node(raw_path)[0].allowed

    def _node(self, raw_path: str) -> tuple[_Node, list[str]]:
        plain = self._plain.get(raw_path)
        if plain is not None:
            return plain, []
        node, values = self._walk(self._root, raw_path.split("/"), 0, [])
        if node is None:
            raise RequestError(
                HTTPStatus.NOT_FOUND, f"no route {raw_path[:80]!r} here; /openapi.json lists what there is"
            )
        return node, values

    def _walk(self, node: _Node, segments: list[str], at: int, values: list[str]) -> tuple[_Node | None, list[str]]:
        if at == len(segments):
            return (node if node.methods else None), values
        segment = segments[at]
        if segment != ANY and (child := node.children.get(segment)) is not None:
            found = self._walk(child, segments, at + 1, values)
            if found[0] is not None:
                return found
        if segment and (child := node.children.get(ANY)) is not None:
            return self._walk(child, segments, at + 1, [*values, segment])
        return None, values


def _decoded(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeError as exc:
        raise RequestError(
            HTTPStatus.BAD_REQUEST, f"the path's part {segment[:80]!r} is not percent-encoded UTF-8; encode it so"
        ) from exc
