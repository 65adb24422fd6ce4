"""Tables and times."""

from __future__ import annotations

import pytest

from offprompt.cli.render import moment, seconds_of, table
from offprompt.errors import UsageError


def test_columns_line_up_whatever_the_script() -> None:
    lines = table(["名称", "bytes"], [["城市", "1,024"], ["reply_style", "9"]]).splitlines()
    assert lines == [
        "名称         bytes",
        "-----------  -----",
        "城市         1,024",
        "reply_style      9",
    ]


def test_names_that_look_like_signs_stand_to_the_left() -> None:
    assert table(["name", "n"], [["x", "-"], ["-", "3"]]).splitlines()[2:] == ["x     -", "-     3"]


def test_nothing_is_cut() -> None:
    assert "y" * 500 in table(["name"], [["y" * 500]])


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-02", 86400.0),
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T08:00:00+08:00", 0.0),
        ("12.5", 12.5),
        (None, None),
    ],
)
def test_times_are_utc_unless_they_say(text: str | None, at: float | None) -> None:
    assert seconds_of(text, "--since") == at


def test_what_is_no_time_names_the_option() -> None:
    with pytest.raises(UsageError, match="--until 'soon' is no time"):
        seconds_of("soon", "--until")


def test_a_moment_is_readable() -> None:
    assert moment(0.0) == "1970-01-01 00:00:00Z"
    assert moment(None) == ""


def test_a_time_that_no_calendar_has_is_shown_in_seconds() -> None:
    assert [moment(at) for at in (None, 0.0, 1e300, -1e15)] == ["", "1970-01-01 00:00:00Z", "1e+300", "-1e+15"]
