from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from offprompt.recall.docs import Doc, Query, analyse
from offprompt.recall.scope_index import ScopeIndex
from offprompt.recall.when import window_of

NOW = datetime(2024, 5, 15, 12, tzinfo=UTC).timestamp()  # a Wednesday


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("What did I do last week?", "2024-05-06", "2024-05-13"),
        ("Where was she in May 2023?", "2023-05-01", "2023-06-01"),
        ("What happened yesterday?", "2024-05-14", "2024-05-15"),
        ("Where did I hike last weekend?", "2024-05-11", "2024-05-13"),
        ("上周末我去了哪里？", "2024-05-11", "2024-05-13"),
        ("Who came on 8 March 2024?", "2024-03-08", "2024-03-09"),
        ("What did we plan in 2022?", "2022-01-01", "2023-01-01"),
        ("我上周做了什么？", "2024-05-06", "2024-05-13"),
        ("去年三月她在哪里？", "2023-03-01", "2023-04-01"),
        ("昨天谁来了", "2024-05-14", "2024-05-15"),
        ("2023年5月8日发生了什么", "2023-05-08", "2023-05-09"),
    ],
)
def test_time_words_are_windows(text: str, since: str, until: str) -> None:
    window = window_of(text, NOW, UTC)
    assert window is not None
    assert [datetime.fromtimestamp(end, UTC).date().isoformat() for end in window] == [since, until]


@pytest.mark.parametrize("text", ["What may I eat?", "她喜欢什么？", "Yesterday was great. Who won?", ""])
def test_no_time_is_asked_for(text: str) -> None:
    assert window_of(text, NOW, UTC) is None


def test_days_begin_where_the_user_lives() -> None:
    east = timezone(timedelta(hours=8))
    there, here = window_of("yesterday?", NOW, east), window_of("yesterday?", NOW, UTC)
    assert there is not None
    assert here is not None
    assert here[0] - there[0] == 8 * 3600


@pytest.mark.parametrize("question", ["What did I do last week?", "我上周做了什么？"])
def test_what_happened_then_is_found_without_a_common_word(question: str) -> None:
    made = ScopeIndex()
    for name, day in (("then", 8), ("now", 14)):
        at = datetime(2024, 5, day, tzinfo=UTC).timestamp()
        made.add([Doc(doc_id=name, content=analyse("Swam in the lake"), event_at=at)])
    found = made.search(Query(text=question, now=NOW))
    assert [hit.doc_id for hit in found.hits] == ["then"]
    assert found.window == window_of(question, NOW, UTC)
