"""Values come back from their stored text as they went in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.records.json import compact
from offprompt.stores._rows import parsed

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(PLAIN, lambda one: st.lists(one) | st.dictionaries(st.text(), one), max_leaves=20)


@given(VALUES)
def test_a_value_is_read_as_json_loads_reads_it(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert compact(parsed(text)) == compact(json.loads(text))


@pytest.mark.parametrize("text", ["1e400", "-0", "-0.0", "123456789012345678901234567890", "5e-324", '"\\u0000"'])
def test_rare_values_are_read_so_too(text: str) -> None:
    assert repr(parsed(text)) == repr(json.loads(text))
