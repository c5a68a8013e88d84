"""What operators edit in the admin: boards, rosters, members; and what keeps them from locking themselves out."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.urls import reverse

from boards.models import Board, Event, Member, Role, RosterEntry, User
from tests.admin.conftest import Cast
from tests.cast import chain_of, filed


def form_of(client: Client, address: str) -> dict[str, Any]:
    """What the page's form would send as it stands."""
    page = client.get(address)
    assert page.status_code == 200, address
    context = page.context
    forms = [
        context["adminform"].form,
        *[f for inline in context["inline_admin_formsets"] for f in inline.formset.forms],
    ]
    sent = {}
    for inline in context["inline_admin_formsets"]:
        forms.append(inline.formset.management_form)
    for form in forms:
        for bound in form:
            value = bound.value()
            sent[bound.html_name] = "" if value is None else value
            if bound.field.show_hidden_initial:
                sent[bound.html_initial_name] = sent[bound.html_name]
    return {name: value for name, value in sent.items() if value is not False}


def board_address(board: Board) -> str:
    return reverse("admin:boards_board_change", args=[board.pk])


def test_a_board_is_edited_and_the_log_says_by_whom(cast: Cast) -> None:
    operator = cast.client(cast.operator)
    form = form_of(operator, board_address(cast.board)) | {"concurrency": "7"}
    assert operator.post(board_address(cast.board), form).status_code == 302
    assert Board.objects.get(pk=cast.board.pk).concurrency == 7
    event = Event.objects.get(kind="board.edited")
    assert (event.actor, event.data) == ("Olga", {"fields": ["concurrency"]})


def test_a_roster_entry_has_to_name_a_registered_worker(cast: Cast) -> None:
    operator = cast.client(cast.operator)
    form = form_of(operator, board_address(cast.board)) | {"roster-0-config": '{"worker": "no.such"}'}
    page = operator.post(board_address(cast.board), form)
    assert page.status_code == 200
    assert "Name a registered function" in page.content.decode()


def test_a_name_may_be_worked_from_outside(cast: Cast) -> None:
    operator = cast.client(cast.operator)
    form = form_of(operator, board_address(cast.board)) | {"roster-0-kind": "pull", "roster-0-config": "{}"}
    assert operator.post(board_address(cast.board), form).status_code == 302
    assert RosterEntry.objects.filter(board=cast.board, kind="pull").count() == 1


def test_a_name_with_open_tasks_stays_on_the_roster(cast: Cast) -> None:
    filed(cast.board, chain_of(cast.member))
    operator = cast.client(cast.operator)
    RosterEntry.objects.filter(board=cast.board).update(config={"worker": "demo.writer"})
    form = form_of(operator, board_address(cast.board)) | {"roster-0-DELETE": "on"}
    page = operator.post(board_address(cast.board), form)
    assert "1 open tasks are assigned to writer" in page.content.decode()
    assert RosterEntry.objects.filter(board=cast.board, name="writer").exists()


def test_whether_filed_work_keeps_a_task_open_is_said_on_the_roster(cast: Cast) -> None:
    operator = cast.client(cast.operator)
    RosterEntry.objects.filter(board=cast.board).update(config={"worker": "demo.writer"})
    form = form_of(operator, board_address(cast.board))
    assert form.pop("roster-0-filed_work_keeps_open") is True
    assert operator.post(board_address(cast.board), form).status_code == 302
    assert not RosterEntry.objects.get(board=cast.board, position=0).filed_work_keeps_open
    assert Event.objects.get(kind="board.edited").data == {"fields": ["roster"]}


def test_how_a_board_is_partitioned_is_fixed_once_a_task_was_filed(cast: Cast) -> None:
    operator = cast.client(cast.operator)
    RosterEntry.objects.filter(board=cast.board).update(config={"worker": "demo.writer"})
    form = form_of(operator, board_address(cast.board))
    assert operator.post(board_address(cast.board), form | {"partition_by": "user"}).status_code == 302
    board = Board.objects.get(pk=cast.board.pk)
    assert board.partition_by == "user"
    filed(board, chain_of(cast.member))
    page = operator.post(board_address(board), form | {"partition_by": "none"})
    assert "cannot be changed once a task was filed" in page.content.decode()
    assert Board.objects.get(pk=board.pk).partition_by == "user"
    assert operator.post(board_address(board), form | {"partition_by": "user", "concurrency": "7"}).status_code == 302


def test_a_member_or_a_stranger_edits_no_board(cast: Cast) -> None:
    for who in (cast.member, cast.stranger):
        answer = cast.client(who).post(board_address(cast.board), {"name": "Mine"}, follow=True)
        assert answer.status_code in {403, 404, 200}
        assert Board.objects.get(pk=cast.board.pk).name == cast.board.name


def test_an_operator_makes_another_one_who_then_gets_in(cast: Cast) -> None:
    operator = cast.client(cast.operator)
    address = reverse("admin:boards_member_change", args=[cast.member.pk])
    assert operator.post(address, {"role": Role.OPERATOR}).status_code == 302
    assert Member.objects.get(pk=cast.member.pk).role == Role.OPERATOR
    assert User.objects.get(pk=cast.member.user_id).is_staff


def test_the_last_operator_of_a_space_stays_one(cast: Cast) -> None:
    operator = cast.client(cast.operator)
    address = reverse("admin:boards_member_change", args=[cast.operator.pk])
    page = operator.post(address, {"role": Role.VIEWER})
    assert "last operator" in page.content.decode()
    assert (
        operator.post(reverse("admin:boards_member_delete", args=[cast.operator.pk]), {"post": "yes"}).status_code
        == 403
    )
    assert Member.objects.get(pk=cast.operator.pk).role == Role.OPERATOR


def test_an_operator_of_one_space_sets_nobodys_password(cast: Cast) -> None:
    operator = cast.client(cast.operator)
    assert operator.get(reverse("admin:boards_user_change", args=[cast.member.user_id])).status_code == 200
    assert operator.get(reverse("admin:auth_user_password_change", args=[cast.member.user_id])).status_code == 403


def test_the_due_time_of_agent_steps_is_a_setting_of_the_space(cast: Cast) -> None:
    operator, space = cast.client(cast.operator), cast.board.space
    address = reverse("admin:boards_space_change", args=[space.pk])
    refused = operator.post(address, form_of(operator, address) | {"agent_timeout_ms": "10"})
    assert refused.status_code == 200
    assert operator.post(address, form_of(operator, address) | {"agent_timeout_ms": "3600000"}).status_code == 302
    space.refresh_from_db()
    assert space.agent_timeout_ms == 3_600_000
    event = Event.objects.get(kind="space.edited")
    assert (event.actor, event.data) == ("Olga", {"fields": ["agent_timeout_ms"]})
    assert operator.post(address, form_of(operator, address) | {"agent_timeout_ms": ""}).status_code == 302
    space.refresh_from_db()
    assert space.agent_timeout_ms is None
