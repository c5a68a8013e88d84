"""Keys: made by members, shown once, kept as a hash, and refused from the moment they end (spec: 06 section 6)."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now
from django.test import RequestFactory
from django.views.debug import ExceptionReporter, SafeExceptionReporterFilter

from boards import actors, errors, keys, policy
from boards.keys import limits
from boards.keys.secrets import hash_of
from boards.masking import masked
from boards.models import AgentKey, CallCount, Event, Member, Role, Scope
from boards.queries import health
from tests import cast
from tests.api.cast import Caller, Desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(db: None) -> Desk:
    return Desk()


def test_only_a_hash_of_it_is_kept(desk: Desk) -> None:
    key, secret = desk.key("read")
    assert secret.startswith(key.prefix)
    assert len(key.prefix) < len(secret) / 4
    assert key.secret_hash == hash_of(secret)
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'select count(*) from "{table}" as t where t::text like %s', [f"%{secret[12:]}%"])
            assert cursor.fetchone() == (0,), table


def test_it_stands_in_no_log_and_no_event(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        _, secret = desk.key("read")
        Caller(secret)("GET", "/boards")
        Caller(secret)("POST", "/boards/desk/tasks", {"goal": "x"})
        Caller(secret + "x")("GET", "/boards")
    assert secret not in caplog.text
    assert all(secret not in str(event.data) for event in Event.objects.all())
    assert masked(f"the key is {secret}.") == "the key is ork_…[masked]."


def test_making_rotating_and_revoking_are_events(desk: Desk) -> None:
    key, _ = desk.key("read", "file")
    keys.rotate(desk.chain, key)
    assert keys.revoke(desk.chain, key)
    assert not keys.revoke(desk.chain, key)
    found = Event.objects.filter(kind__startswith="key.").order_by("pk")
    assert [event.kind for event in found] == ["key.made", "key.rotated", "key.revoked"]
    assert found[0].data["scopes"] == ["read", "file"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["read", "rule"]}, "scopes"),
        ({"scopes": ["work", "decide"]}, "scopes"),
        ({"boards": []}, "boards"),
        ({"boards": [0]}, "boards"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(desk: Desk, wrong: dict[str, Any], field: str) -> None:
    fields: dict[str, Any] = {"name": "bot", "scopes": ["read"]}
    with pytest.raises(errors.InvalidInput) as refusal:
        keys.make(desk.chain, keys.KeyFields(**(fields | wrong)))
    assert refusal.value.facts["field"] == field
    assert not AgentKey.objects.exists()


def test_it_ends_at_a_time_that_lies_ahead(desk: Desk) -> None:
    now = Member.objects.annotate(db_now=Now()).values_list("db_now", flat=True)[0]
    with pytest.raises(errors.InvalidInput, match="lies ahead"):
        keys.make(desk.chain, keys.KeyFields("bot", ["read"], expires_at=now - timedelta(seconds=1)))
    key, secret = keys.make(desk.chain, keys.KeyFields("bot", ["read"], expires_at=now + timedelta(hours=1)))
    assert keys.find(secret) == key
    AgentKey.objects.update(expires_at=now)
    assert keys.find(secret) is None


def test_boards_of_another_space_are_none_to_choose(desk: Desk) -> None:
    theirs = cast.make_board(desk.mallory.space, "theirs")
    with pytest.raises(errors.InvalidInput):
        desk.key("read", boards=[theirs])
    with pytest.raises(errors.InvalidInput):
        desk.key("read", boards=[desk.board, theirs])


def test_a_viewer_and_an_agent_make_none(desk: Desk) -> None:
    with pytest.raises(errors.Forbidden):
        desk.key("read", of=desk.vera)
    made, _ = desk.key("read", "file", "decide", "admin")
    agent = actors.by_key(AgentKey.objects.get(pk=made.pk))
    for act in (
        lambda: keys.make(agent, keys.KeyFields("more", ["decide"])),
        lambda: keys.rotate(agent, made),
        lambda: keys.revoke(agent, made),
    ):
        with pytest.raises(errors.Forbidden):
            act()


def test_the_database_keeps_work_and_decide_apart(desk: Desk) -> None:
    key, _ = desk.key("work")
    for scopes in (["work", "decide"], [], ["rule"]):
        with pytest.raises(IntegrityError), transaction.atomic():
            AgentKey.objects.filter(pk=key.pk).update(scopes=scopes)


def test_a_replaced_secret_goes_on_for_a_day_or_ends_at_once(desk: Desk) -> None:
    key, first = desk.key("read")
    second = keys.rotate(desk.chain, key)
    assert keys.find(first) == keys.find(second) == key
    AgentKey.objects.update(old_until=Now() - timedelta(milliseconds=1))
    assert keys.find(first) is None
    third = keys.rotate(desk.chain, key, keep_old=False)
    assert (keys.find(second), keys.find(third)) == (None, key)
    fourth = keys.rotate(desk.chain, key)
    keys.revoke(desk.chain, key)
    assert (keys.find(third), keys.find(fourth)) == (None, None)
    with pytest.raises(errors.Refusal, match="revoked"):
        keys.rotate(desk.chain, key)


def test_others_keys_are_an_operators_to_revoke_and_nobodys_to_rotate(desk: Desk) -> None:
    key, secret = desk.key("read")
    for member in (desk.ben, desk.mallory):
        with pytest.raises(errors.NotFound):
            keys.revoke(cast.chain_of(member), key)
    with pytest.raises(errors.NotFound):
        keys.rotate(cast.chain_of(desk.olga), key)
    assert keys.find(secret)
    assert keys.revoke(cast.chain_of(desk.olga), key)
    assert AgentKey.objects.get().revoked_by_name == "Olga"
    assert keys.find(secret) is None


def test_its_last_use_is_written_seldom(desk: Desk) -> None:
    key, secret = desk.key("read")
    keys.find(secret)
    first = AgentKey.objects.get().last_used_at
    assert first is not None
    keys.find(secret)
    assert AgentKey.objects.get().last_used_at == first
    AgentKey.objects.update(last_used_at=Now() - timedelta(minutes=6))
    keys.find(secret)
    assert AgentKey.objects.get().last_used_at > first
    assert key.last_used_at is None


@pytest.mark.parametrize("role", Role.values)
def test_a_scope_adds_nothing_to_its_members_role(desk: Desk, role: str) -> None:
    made, _ = desk.key("read", "file", "decide", "admin")
    Member.objects.filter(pk=desk.anna.pk).update(role=role)
    person = cast.chain_of(Member.objects.get(pk=desk.anna.pk))
    agent = actors.by_key(AgentKey.objects.get(pk=made.pk))
    for action in policy.ROLE_ACTIONS:
        assert policy.allowed(person, action) or not policy.allowed(agent, action)
    for action in {*policy.LEND_ACTIONS, "tasks.withdraw"} - policy.ROLE_ACTIONS.keys():
        assert not policy.allowed(agent, action)


def test_every_scope_has_its_line_in_the_table() -> None:
    assert policy.SCOPE_ACTIONS.keys() == set(Scope.values)
    granted = set().union(*policy.SCOPE_ACTIONS.values())
    assert granted <= policy.ROLE_ACTIONS.keys()
    assert "keys.manage" not in granted


def test_calls_are_counted_by_the_minute(desk: Desk) -> None:
    assert [limits.seconds_to_wait("a", 2) for _ in range(2)] == [0, 0]
    assert 1 <= limits.seconds_to_wait("a", 2) <= 61
    assert limits.seconds_to_wait("b", 2) == 0
    CallCount.objects.filter(caller="a").update(begun_at=Now() - timedelta(seconds=61))
    assert limits.seconds_to_wait("a", 2) == 0
    CallCount.objects.update(begun_at=Now() - timedelta(hours=2))
    assert keys.forget_counts(10) == 2


def test_who_calls_too_often_is_told_when_to_come_again(desk: Desk, settings: Any) -> None:
    settings.API_CALLS_PER_MINUTE = 3
    for caller in (desk.by_key("read"), desk.signed_in()):
        answers = [caller("GET", "/boards") for _ in range(4)]
        assert [each.status for each in answers] == [200, 200, 200, 429]
        assert answers[-1].code == "too_many_calls"
        assert 1 <= int(answers[-1].headers["Retry-After"]) <= 61


def test_made_up_keys_are_counted_by_address_and_keep_no_true_one_out(desk: Desk) -> None:
    wrong = Caller("ork_" + "x" * 43)
    said = {wrong("GET", "/boards").status for _ in range(61)}
    assert said == {401, 429}
    assert desk.by_key("read")("GET", "/boards").status == 200


def test_a_report_of_an_error_hides_it(desk: Desk) -> None:
    _, secret = desk.key("read")
    request = RequestFactory().get("/api/v1/boards", headers={"Authorization": f"Bearer {secret}"})
    assert secret not in str(SafeExceptionReporterFilter().get_safe_request_meta(request))
    try:
        with patch("boards.keys.showing.hash_of", side_effect=RuntimeError("it broke")):
            keys.find(secret)
    except RuntimeError as error:
        report = ExceptionReporter(request, RuntimeError, error, error.__traceback__)
        told = report.get_traceback_text() + report.get_traceback_html()
    frames = told.split("Request information")[0]
    assert "it broke" in frames
    assert f"Bearer {secret}" not in told


def test_the_doctor_names_those_that_end_soon(desk: Desk) -> None:
    assert health.keys() == health.Finding("keys", True, "none ends within 7 days.")
    made, _ = desk.key("read", name="soon")
    desk.key("read", name="never")
    AgentKey.objects.filter(pk=made.pk).update(expires_at=Now() + timedelta(days=6))
    assert health.keys().ok
    assert f"soon ({made.prefix}…) at " in health.keys().sentence
    assert "never" not in health.keys().sentence
    keys.revoke(desk.chain, made)
    assert health.keys().sentence == "none ends within 7 days."
