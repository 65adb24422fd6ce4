"""ETag, If-Match, If-None-Match."""

from __future__ import annotations

import pytest

from tests.rest.running import Running


def put(server: Running, user: str, value: str, **headers: str) -> tuple[int, str]:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    answer = server.ask("PUT", "/v1/slots/city", user=user, json={"value": value}, headers=named)
    return answer.status_code, answer.headers.get("etag", "")


def test_a_write_may_depend_on_the_version_that_is_there(server: Running) -> None:
    assert put(server, "v1", "a", If_Match='"1"')[0] == 412
    _, first = put(server, "v1", "a", If_None_Match="*")
    assert put(server, "v1", "b", If_None_Match="*")[0] == 412
    status, second = put(server, "v1", "b", If_Match=first)
    assert (status, second != first) == (200, True)
    assert put(server, "v1", "c", If_Match=first)[0] == 412
    assert put(server, "v1", "c", If_Match='"1"')[0] == 412
    assert put(server, "v1", "c", If_Match=f'"x", {second}')[0] == 200
    assert put(server, "v1", "d", If_Match='"3"')[0] == 200
    assert put(server, "v1", "e", If_Match="*")[0] == 200
    assert put(server, "v1", "f")[0] == 200
    refused = server.ask("PUT", "/v1/slots/city", user="v1", json={"value": 1}, headers={"If-Match": '"1"'}).json()
    assert (refused["status"], refused["code"]) == (412, "ConflictError")


@pytest.mark.parametrize("version", ["0", "-1", "03", "9" * 18, "9" * 19, "9" * 5000], ids=lambda given: given[:20])
def test_a_version_that_nothing_has_is_not_there(server: Running, version: str) -> None:
    user = f"v10 {version[:20]} {len(version)}"
    put(server, user, "a")
    put(server, user, "b")
    put(server, user, "c")
    assert put(server, user, "上海", If_Match=f'"{version}"')[0] == 412
    assert put(server, user, "上海", If_Match='"3"')[0] == 200


def test_a_write_where_nothing_is_makes_it(server: Running) -> None:
    assert [put(server, "v11", value)[0] for value in ("a", "b")] == [201, 200]
    server.ask("DELETE", "/v1/slots/city", user="v11")
    assert server.ask("GET", "/v1/slots/city", user="v11").status_code == 404
    status, tag = put(server, "v11", "重新开始")
    assert (status, tag.partition("-")[0]) == (201, '"3')
    assert put(server, "v11", "b", If_Match=tag)[0] == 200


def test_what_is_inherited_is_not_there_for_a_write(server: Running) -> None:
    put(server, "v2", "a")
    narrow = {"Offprompt-Session": "s", "If-Match": "*"}
    assert server.ask("PUT", "/v1/slots/city", user="v2", json={"value": "b"}, headers=narrow).status_code == 412
    narrow = {"Offprompt-Session": "s", "If-None-Match": "*"}
    assert server.ask("PUT", "/v1/slots/city", user="v2", json={"value": "b"}, headers=narrow).status_code == 201


def test_a_forget_may_depend_on_the_version_that_is_there(server: Running) -> None:
    _, tag = put(server, "v3", "a")
    assert server.ask("DELETE", "/v1/slots/city", user="v3", headers={"If-Match": '"7"'}).status_code == 412
    assert server.ask("DELETE", "/v1/slots/city", user="v3", headers={"If-Match": tag}).status_code == 200


def test_what_the_client_has_already_is_not_sent_again(server: Running) -> None:
    _, tag = put(server, "v4", "a")
    for given in (tag, f"W/{tag}", f'"x", {tag}', "*", '"1"'):
        same = server.ask("GET", "/v1/slots/city", user="v4", headers={"If-None-Match": given})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag), given
    with_commas = {"If-None-Match": f'"x,y" ,W/"z", {tag}'}
    assert server.ask("GET", "/v1/slots/city", user="v4", headers=with_commas).status_code == 304
    assert server.ask("GET", "/v1/slots/city", user="v4", headers={"If-None-Match": '"x"'}).status_code == 200
    put(server, "v4", "b")
    changed = server.ask("GET", "/v1/slots/city", user="v4", headers={"If-None-Match": tag})
    assert (changed.status_code, changed.json()["value"]) == (200, "b")


def test_a_slot_begun_anew_or_changed_without_a_version_has_another_tag(server: Running) -> None:
    _, tag = put(server, "v5", "a")
    locked = server.ask("POST", "/v1/slots/city/guard", user="v5", json={"locked": True})
    assert (locked.json()["locked"], locked.headers["etag"] != tag) == (True, True)
    server.ask("POST", "/v1/slots/city/erase", user="v5")
    _, anew = put(server, "v5", "b")
    assert anew.startswith('"1-')
    assert anew != tag


def test_uses_do_not_change_the_tag(server: Running) -> None:
    _, tag = put(server, "v6", "a")
    assert {server.ask("GET", "/v1/slots/city", user="v6").headers["etag"] for _ in range(3)} == {tag}


@pytest.mark.parametrize("given", ["1", '"a', "a, b", '"1" "2"'])
def test_what_is_no_tag_is_refused(server: Running, given: str) -> None:
    assert put(server, "v7", "a", If_Match=given)[0] == 400


def test_memories_have_tags_too(server: Running) -> None:
    told = {"what": "I moved to Shanghai", "derive": "none"}
    (made,) = server.ask("POST", "/v1/memories", user="v8", json=told).json()["remembered"]
    path = f"/v1/memories/{made['name']}"
    tag = server.ask("GET", path, user="v8").headers["etag"]
    assert server.ask("GET", path, user="v8", headers={"If-None-Match": tag}).status_code == 304
    changed = server.ask("PATCH", path, user="v8", json={"tags": ["home"]}, headers={"If-Match": tag})
    assert (changed.status_code, changed.headers["etag"] != tag) == (200, True)
    for method, body in (("PATCH", {"tags": ["x"]}), ("DELETE", None)):
        assert server.ask(method, path, user="v8", json=body, headers={"If-Match": tag}).status_code == 412
    assert server.ask("DELETE", path, user="v8", headers={"If-Match": changed.headers["etag"]}).status_code == 200
    assert server.ask("DELETE", path, user="v8", headers={"If-Match": "*"}).status_code == 412


def test_a_condition_is_never_passed_over(server: Running) -> None:
    put(server, "v9", "a")
    for method, path in (("POST", "/v1/slots/city/erase"), ("POST", "/mem/forget")):
        body = {"slot": "city"} if path == "/mem/forget" else None
        refused = server.ask(method, path, user="v9", json=body, headers={"If-Match": '"7"'})
        assert (refused.status_code, "looks at no if-match" in refused.text) == (400, True)
    assert server.ask("GET", "/v1/slots/city", user="v9").status_code == 200
