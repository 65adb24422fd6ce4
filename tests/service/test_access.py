"""What a request names only narrows what its identity allows."""

from __future__ import annotations

from itertools import product

import pytest

from offprompt.errors import ForbiddenError, ScopeError, UsageError
from offprompt.records import ROLES, Identity, Role, Scope
from offprompt.service.access import actor_for, check_app, check_whole_app, scope_for

ANY = Identity()
ALICE = Identity(users=("alice",), key="k1")
TWO = Identity(users=("alice", "李雷"))
BILLING = Identity(agents=("billing",))
ADMIN = Identity(roles=frozenset({"admin"}))


def test_a_key_of_no_user_may_name_any() -> None:
    assert scope_for(ANY, user="bob") == Scope(user="bob")
    assert scope_for(ANY, user="bob", agent="a", session="s") == Scope(user="bob", agent="a", session="s")
    assert scope_for(ANY, agent="a") == Scope(agent="a")
    assert scope_for(ANY, session="s") == Scope(session="s")


def test_without_any_id_it_is_the_default_user_or_an_error_that_names_the_header() -> None:
    assert scope_for(Identity(default_user="alice")) == Scope(user="alice")
    assert scope_for(Identity(default_user="alice"), agent="a") == Scope(agent="a")
    with pytest.raises(ScopeError, match="Offprompt-User: alice"):
        scope_for(ANY)


def test_a_key_of_one_user_means_that_user_whatever_else_is_named() -> None:
    assert scope_for(ALICE) == Scope(user="alice")
    assert scope_for(ALICE, agent="a") == Scope(user="alice", agent="a")
    assert scope_for(ALICE, session="s") == Scope(user="alice", session="s")
    with pytest.raises(ForbiddenError, match="'bob'"):
        scope_for(ALICE, user="bob")
    with pytest.raises(ForbiddenError, match="'ALICE'"):
        scope_for(ALICE, user="ALICE")


def test_a_key_of_several_users_has_to_say_which() -> None:
    assert scope_for(TWO, user="李雷") == Scope(user="李雷")
    for agent, session in (("a", None), (None, "s"), (None, None)):
        with pytest.raises(ScopeError, match="Offprompt-User"):
            scope_for(TWO, agent=agent, session=session)


def test_an_id_is_compared_in_the_form_in_which_it_is_stored() -> None:
    key = Identity(users=("café",))
    assert scope_for(key, user="cafe\u0301") == Scope(user="café")
    assert scope_for(Identity(app="café"), app="cafe\u0301", user="a").app == "café"


def test_a_key_of_agents_never_sees_a_user_without_its_agent() -> None:
    assert scope_for(BILLING, user="alice") == Scope(user="alice", agent="billing")
    assert scope_for(BILLING) == Scope(agent="billing")
    with pytest.raises(ForbiddenError, match="agent='support'"):
        scope_for(BILLING, user="alice", agent="support")


def test_another_app_is_forbidden_and_the_own_one_may_be_named() -> None:
    assert scope_for(Identity(app="shop"), app="shop", user="a") == Scope("shop", user="a")
    assert scope_for(Identity(app="shop"), user="a") == Scope("shop", user="a")
    for app in ("default", "Shop"):
        with pytest.raises(ForbiddenError, match="another app"):
            scope_for(Identity(app="shop"), app=app, user="a")


@pytest.mark.parametrize("role", ROLES)
def test_each_role_is_its_own_and_admin_is_all(role: Role) -> None:
    for given in ROLES:
        identity = Identity(roles=frozenset({given}))
        if given in (role, "admin"):
            assert scope_for(identity, user="a", role=role) == Scope(user="a")
            assert check_app(identity, role=role) == "default"
        else:
            with pytest.raises(ForbiddenError, match=repr(role)):
                scope_for(identity, user="a", role=role)


def test_the_shared_scope_is_read_by_all_and_changed_by_an_admin_of_the_whole_app() -> None:
    for identity in (ANY, ALICE, TWO, BILLING, ADMIN):
        assert scope_for(identity, shared=True) == Scope(shared=True)
    assert scope_for(ADMIN, shared=True, role="write") == Scope(shared=True)
    for identity in (ANY, ALICE, BILLING, Identity(users=("alice",), roles=frozenset({"admin"}))):
        with pytest.raises(ForbiddenError):
            scope_for(identity, shared=True, role="write")
    with pytest.raises(ScopeError, match="stands alone"):
        scope_for(ANY, shared=True, user="alice")


def test_what_is_about_the_whole_app_needs_a_key_of_no_user() -> None:
    assert check_whole_app(ADMIN, role="admin") == "default"
    for identity in (
        Identity(users=("alice",), roles=frozenset({"admin"})),
        Identity(agents=("a",), roles=frozenset({"admin"})),
        ANY,
    ):
        with pytest.raises(ForbiddenError):
            check_whole_app(identity, role="admin")
    with pytest.raises(ForbiddenError, match="another app"):
        check_whole_app(ADMIN, "shop", role="admin")


def test_no_scope_is_ever_wider_than_the_key() -> None:
    ids = (None, "alice", "bob", "billing", "")
    for identity, user, agent, session in product((ALICE, TWO, BILLING), ids, ids, (None, "s")):
        try:
            scope = scope_for(identity, user=user, agent=agent, session=session)
        except UsageError:
            continue
        assert identity.users is None or scope.user in identity.users
        assert identity.agents is None or scope.agent in identity.agents


def test_a_key_of_a_user_does_not_see_what_lies_under_a_session_alone() -> None:
    whole = Scope("shop", "alice", "bot", "s1")
    own = actor_for(ALICE, "alice").view(whole)
    assert own == whole
    assert whole == own
    assert {whole: 1}[own] == 1
    assert hash(own) == hash(whole)
    hidden = set(whole.inherited()) - set(own.inherited())
    assert hidden == {Scope("shop", agent="bot", session="s1"), Scope("shop", session="s1")}
    assert own.narrow(session="s1").inherited() == own.inherited()
    assert own.without_session().inherited() == Scope("shop", "alice", "bot").inherited()
    assert actor_for(ANY, "alice").view(whole).inherited() == whole.inherited()
    assert actor_for(ALICE, None).view(Scope(shared=True)) == Scope(shared=True)


def test_an_actor_names_key_subject_and_for_whom() -> None:
    assert Identity().actor == "app"
    assert Identity(default_user="alice").acting_for("alice") == "app"
    assert Identity(key="k1").actor == "key:k1"
    assert Identity(key="k1", subject="svc").acting_for("alice") == "key:k1 subject:svc for:alice"
    assert Identity(subject="alice").acting_for("alice") == "subject:alice"
    assert Identity(subject="a key:other for:b").actor == "subject:a%20key:other%20for:b"
