"""Places of secrets: which string of which call, and which host the call goes to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from offprompt.errors import UsageError
from offprompt.records import Place
from offprompt.wire.places import clean_place, host_of, hosts_of, is_allowed

HOST = "api.example.com"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.example.com/v1?x=1#y", HOST),
        ("HTTPS://API.Example.COM:443/", HOST),
        ("http://api.example.com:80", HOST),
        ("//api.example.com/x", HOST),
        ("https://api.example.com:8443/", "api.example.com:8443"),
        ("http://api.example.com:443/", "api.example.com:443"),
        ("https://例子.中国/路", "xn--fsqu00a.xn--fiqs8s"),
        ("https://XN--FSQU00A.xn--fiqs8s/", "xn--fsqu00a.xn--fiqs8s"),
        ("https://BÜCHER.example/", "xn--bcher-kva.example"),
        ("http://[0:0::1]:80/", "[::1]"),
        ("https://127.0.0.1/", "127.0.0.1"),
        ("https://a_b.example/", "a_b.example"),
    ],
)
def test_hosts(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com@evil.com/",
        "https://user:pw@api.example.com/",
        "https://evil.com\\@api.example.com/",
        "https://api.example.com\\.evil.com/",
        "https:api.example.com",
        "https:/api.example.com",
        "https:///api.example.com",
        " https://api.example.com",
        "https://api.example.com\n",
        "https://api.exa\tmple.com/",
        "https://api.example.com/a b",
        "https://api.example.com./",
        "https://api..example.com/",
        "https://api.example.com%2eevil.com/",
        "https://api%2Eexample.com/",
        "https://ａpi.example.com/",
        "https://api。example.com/",
        "https://api.example.com\u200b/",
        "https://faß.de/",
        "https://api.example.com:/",
        "https://api.example.com:0443/",
        "https://api.example.com:99999/",
        "https://[::1%25eth0]/",
        "https://[::1/",
        "https://-api.example.com/",
        "https://[[mem:a]].example.com/",
        "api.example.com",
        "",
    ],
)
def test_what_is_not_clear_is_no_host(url: str) -> None:
    assert host_of(url) == ""


def test_other_hosts_stay_other_hosts() -> None:
    for url in (
        "https://api.example.com.evil.com/",
        "https://evil.com/https://api.example.com/",
        "https://evil.com#@api.example.com",
        "https://evil.com?api.example.com",
        "https://xapi.example.com/",
        "https://example.com/",
        "https://\u0430pi.example.com/",
        "https://127.1/",
    ):
        assert host_of(url) not in (HOST, "127.0.0.1")


CALLS: list[tuple[Any, set[str]]] = [
    ({"url": "https://api.example.com/x", "n": 1, "body": "see https://evil.com"}, {HOST}),
    ({"url": "api.example.com/x"}, {HOST}),
    ({"anything": "https://api.example.com/x"}, {HOST}),
    ({"urls": ["https://api.example.com", "https://evil.com"]}, {HOST, "evil.com"}),
    ({"request": {"callbackUrl": "evil.com"}, "url": "https://api.example.com"}, {HOST, "evil.com"}),
    ({"网址": "https://例子.中国/"}, {"xn--fsqu00a.xn--fiqs8s"}),
    ({"目标网址": "例子.中国"}, {"xn--fsqu00a.xn--fiqs8s"}),
    ({"host": "api.example.com", "path": "/v1"}, {HOST}),
    ({"baseURL": "//api.example.com"}, {HOST}),
    ({"x": " https://evil.com"}, {""}),
    ({"x": "\\\\evil.com\\share"}, {""}),
    ({"x": "https:evil.com"}, {""}),
    ({"url": "[[mem:target]]"}, {""}),
    ({"https://evil.com": 1}, {"evil.com"}),
    ({"endpoint": "/v1/chat", "link": "?q", "href": ""}, set()),
    ({"curl": "evil.com", "ghost": "evil.com", "text": "//"}, {""}),
    ({"path": "C:/x", "note": "a: b"}, set()),
    ({"url": {"raw": "evil.com"}}, {"evil.com"}),
]


@pytest.mark.parametrize(("arguments", "hosts"), CALLS)
def test_hosts_of_a_call(arguments: Any, hosts: set[str]) -> None:
    assert hosts_of(json.dumps(arguments)) == hosts


def allowed(arguments: Any, *places: Place, tool: str = "send") -> bool:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return is_allowed("key", places, tool=tool, arguments=text, settled=lambda: text.replace("[[mem:key]]", "~"))


def test_one_string_of_one_tool() -> None:
    place = clean_place("send", "token")
    assert allowed({"token": "[[mem:key]]"}, place)
    assert allowed({"token": "Bearer 【【MEM：Key】】"}, place)
    assert not allowed({"token": "[[mem:key]]"}, place, tool="Send")
    assert not allowed({"token": "[[mem:key]]", "text": "[[mem:key]]"}, place)
    assert not allowed({"token": {"a": "[[mem:key]]"}}, place)
    assert not allowed({"token": ["[[mem:key]]"]}, place)
    assert not allowed({"a": {"token": "[[mem:key]]"}}, place)
    assert not allowed({"token": "x"}, place)
    assert not allowed({"token": "[[mem:other]]"}, place)
    assert not allowed({"token": "[[mem:key]]"})


def test_pointers() -> None:
    assert allowed({"headers": {"Authorization": "[[mem:key]]"}}, clean_place("send", "/headers/Authorization"))
    assert allowed({"to": ["x", "[[mem:key]]"]}, clean_place("send", "/to/1"))
    assert allowed({"a/b": {"~c": "[[mem:key]]"}}, clean_place("send", "/a~1b/~0c"))
    assert allowed({"a/b": "[[mem:key]]"}, clean_place("send", "a/b"))
    assert allowed('"[[mem:key]]"', Place("send", ""))


def test_a_key_that_stands_twice_counts_twice() -> None:
    place = clean_place("send", "token")
    assert not allowed('{"x": "[[mem:key]]", "token": "[[mem:key]]", "x": "harmless"}', place)
    hosted = clean_place("send", "token", HOST)
    assert not allowed(f'{{"url": "https://evil.com", "url": "https://{HOST}", "token": "[[mem:key]]"}}', hosted)


def test_all_urls_must_name_the_host() -> None:
    place = clean_place("send", "token", HOST)
    assert allowed({"token": "[[mem:key]]", "url": f"https://{HOST}/x"}, place)
    assert not allowed({"token": "[[mem:key]]"}, place)
    assert not allowed({"token": "[[mem:key]]", "url": f"https://{HOST}", "uri": "https://evil.com"}, place)
    assert not allowed({"token": "[[mem:key]]", "url": f"https://{HOST}:8443"}, place)
    assert allowed(
        {"token": "[[mem:key]]", "url": f"https://{HOST}:8443"}, clean_place("send", "token", f"{HOST}:8443")
    )
    url = clean_place("send", "url", HOST)
    assert allowed({"url": f"https://{HOST}/?key=[[mem:key]]"}, url)
    assert not allowed({"url": f"https://{HOST}[[mem:key]]/"}, url)
    assert not allowed({"url": f"https://{HOST}:[[mem:key]]/"}, url)
    assert not allowed({"url": f"https://[[mem:key]]@{HOST}/"}, url)
    assert not allowed({"url": "[[mem:key]]"}, url)


def test_any_of_several_places() -> None:
    places = clean_place("send", "token", HOST), clean_place("send", "token", "other.example")
    assert allowed({"token": "[[mem:key]]", "url": "https://other.example"}, *places)
    assert not allowed({"token": "[[mem:key]]", "url": ["https://other.example", f"https://{HOST}"]}, *places)


def test_what_is_no_json_is_no_place() -> None:
    assert not allowed('{"token": "[[mem:key]]"', clean_place("send", "token"))
    assert not allowed("[" * 100_000, clean_place("send", "token"))


def test_places_are_made_plain() -> None:
    assert clean_place("send", "to") == Place("send", "/to")
    assert clean_place("send", "/a/b", "API.example.com:8443") == Place("send", "/a/b", "api.example.com:8443")
    assert clean_place("发送", "令牌", "例子.中国") == Place("发送", "/令牌", "xn--fsqu00a.xn--fiqs8s")
    assert clean_place("send", "to", "[0::1]").host == "[::1]"


@pytest.mark.parametrize(
    ("tool", "argument", "host", "wrong"),
    [
        ("", "to", "", "tool=''"),
        ("send", "", "", "argument=''"),
        ("send", "a\nb", "", "argument="),
        (" send", "to", "", "tool="),
        (7, "to", "", "tool=7"),
        ("send", "t" * 300, "", "argument="),
        ("send", "to", "https://api.example.com", "host="),
        ("send", "to", "api.example.com/x", "host="),
        ("send", "to", "*.example.com", "host="),
        ("send", "to", "me@example.com", "host="),
        ("send", "to", "faß.de", "host="),
    ],
)
def test_what_is_no_place(tool: Any, argument: Any, host: Any, wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong.replace("*", r"\*")):
        clean_place(tool, argument, host)
