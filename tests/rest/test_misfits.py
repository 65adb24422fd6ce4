"""What a request that does not fit is told."""

from __future__ import annotations

from typing import Any

import pytest

from offprompt.rest.endpoint import Shape
from offprompt.rest.problems import RequestError
from offprompt.rest.reading import BodyReader
from tests.rest.test_skeleton import USER, client

__all__ = ["client"]


class Inner(Shape, frozen=True):
    role: str = ""


class Outer(Shape, frozen=True):
    several: list[Inner] | None = None
    one: Inner | str = ""


@pytest.mark.parametrize(
    ("method", "path", "body", "told"),
    [
        ("POST", "/mem/write", {"name": "city", "value": 1}, "unknown field `name`; there is slot, value; see"),
        ("GET", "/mem/read?name=city", None, "unknown field `name`; there is slot; see"),
        ("GET", "/v1/slots?within=all", None, "'all' - at `$.within`; there is 'exact', 'inherit', 'subtree'; see"),
        ("POST", "/mem/write", {"slot": 5, "value": 1}, "Expected `str`, got `int` - at `$.slot`; see"),
        ("POST", "/mem/write", {"slot": "城市"}, "missing required field `value`; see"),
    ],
)
def test_who_names_what_there_is_not_is_told_what_there_is(
    client: Any, method: str, path: str, body: Any, told: str
) -> None:
    assert told in client(method, path, json=body, headers=USER).json()["detail"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('{"several": [{}, {"rôle": "a"}]}', "`rôle` - at `$.several[1]`; there is role; see"),
        ('{"several": [{"role": "a"}], "on": 1}', "unknown field `on`; there is several, one; see"),
        ('{"one": {"roles": []}}', "`roles` - at `$.one`; there is role; see"),
        ('{"one": 1}', "got `int` - at `$.one`; see"),
    ],
)
def test_so_is_who_names_it_further_in(body: str, told: str) -> None:
    with pytest.raises(RequestError) as refused:
        BodyReader(Outer).read(body.encode())
    assert told in str(refused.value)
