"""The admin shows state and never sets it."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from boards import tasks
from boards.admin.window import Window
from boards.models import SERVER_ONLY_TASK_FIELDS, Attempt, Board, Debt, Event, FlowRun, Hold, Process, Space, Task
from tests.admin.conftest import Cast
from tests.cast import chain_of, claimed, filed, fresh

STATE = [Task, Attempt, Hold, FlowRun, Event, Debt, Process]


def address(page: str, *args: object) -> str:
    return reverse(f"admin:boards_{page}", args=args)


@pytest.mark.parametrize("model", STATE)
def test_no_row_that_carries_state_is_added_changed_or_deleted(cast: Cast, model: type) -> None:
    name = model._meta.model_name
    operator = cast.client(cast.operator)
    assert isinstance(admin.site.get_model_admin(model), Window)
    assert operator.get(address(f"{name}_changelist")).status_code == 200
    assert operator.get(address(f"{name}_add")).status_code == 403
    assert operator.post(address(f"{name}_add"), {}).status_code == 403


def test_a_task_page_shows_the_row_its_events_and_the_way_to_the_live_page(cast: Cast) -> None:
    task = filed(cast.board, chain_of(cast.member), "Write the notes", id="notes")
    page = cast.client(cast.operator).get(address("task_change", task.pk))
    text = page.content.decode()
    assert "task.filed" in text
    assert "Mia" in text
    assert reverse("web:task", args=["desk", "notes"]) in text
    assert "<select" not in text
    assert 'name="_save"' not in text


def test_posting_to_a_task_page_changes_nothing(cast: Cast) -> None:
    task = filed(cast.board, chain_of(cast.member))
    operator = cast.client(cast.operator)
    assert operator.post(address("task_change", task.pk), {"status": "completed"}).status_code == 403
    assert operator.post(address("task_delete", task.pk), {"post": "yes"}).status_code == 403
    assert fresh(task).status == "pending"
    assert fresh(task).revision == task.revision


def test_what_the_server_alone_may_know_is_not_on_the_page(cast: Cast) -> None:
    filed(cast.board, chain_of(cast.member))
    task = claimed(cast.board).task
    text = cast.client(cast.operator).get(address("task_change", task.pk)).content.decode()
    for name in SERVER_ONLY_TASK_FIELDS - {"key", "visit"}:
        assert name.replace("_", " ") not in text.lower().replace("_", " "), name


def test_hostile_words_stay_words(cast: Cast) -> None:
    task = filed(cast.board, chain_of(cast.member), '<img src=x onerror="alert(1)">', title="<b>bold</b>")
    operator = cast.client(cast.operator)
    for page in (address("task_changelist"), address("task_change", task.pk), address("event_changelist")):
        text = operator.get(page).content.decode()
        assert "<img src=x" not in text
        assert "<b>bold" not in text


def test_every_page_carries_the_strict_policy_and_no_inline_script_or_style(cast: Cast) -> None:
    task = filed(cast.board, chain_of(cast.member))
    operator = cast.client(cast.operator)
    for page in (reverse("admin:index"), address("task_changelist"), address("task_change", task.pk)):
        answer = operator.get(page)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert " style=" not in answer.content.decode()
        assert " onclick=" not in answer.content.decode()


class TestWhoGetsIn:
    def test_a_stranger_is_sent_to_the_one_sign_in(self, db: None) -> None:
        answer = Client().get(address("task_changelist"))
        assert answer.status_code == 302
        answer = Client().get(answer.headers["Location"])
        assert answer.headers["Location"].startswith(reverse("web:sign_in"))

    def test_to_a_member_it_does_not_exist(self, cast: Cast) -> None:
        answer = cast.client(cast.member).get(address("task_changelist"), follow=True)
        assert answer.status_code == 404

    def test_rows_of_other_spaces_do_not_exist(self, cast: Cast) -> None:
        task = filed(cast.board, chain_of(cast.member), id="notes")
        stranger = cast.client(cast.stranger)
        assert "notes" not in stranger.get(address("task_changelist")).content.decode()
        answer = stranger.get(address("task_change", task.pk), follow=True)
        assert "notes" not in answer.content.decode()
        assert "task.filed" not in answer.content.decode()

    def test_staff_who_operate_nothing_read_and_do_not_act(self, cast: Cast) -> None:
        filed(cast.board, chain_of(cast.member), id="notes")
        cast.member.user.is_staff = True
        cast.member.user.save()
        text = cast.client(cast.member).get(address("task_changelist")).content.decode()
        assert "notes" in text
        assert 'name="action"' not in text


def test_the_list_is_searched_and_filtered(cast: Cast) -> None:
    chain = chain_of(cast.member)
    filed(cast.board, chain, "Paint the hull", id="hull", labels=["yard"])
    filed(cast.board, chain, "Sew the sail", id="sail", labels=["loft"], assignee="reader")
    tasks.cancel(chain, tasks.get_task(chain, cast.board, "sail"))
    operator = cast.client(cast.operator)
    for query, shown, hidden in (
        ("q=paint", "hull", "sail"),
        ("q=label:loft", "sail", "hull"),
        ("status__exact=cancelled", "sail", "hull"),
        ("assignee=reader", "sail", "hull"),
    ):
        text = operator.get(f"{address('task_changelist')}?{query}").content.decode()
        assert f">{shown}<" in text
        assert f">{hidden}<" not in text


@pytest.mark.parametrize("page", ["task", "event", "hold", "flowrun", "board", "member"])
def test_filters_name_only_what_lies_in_the_readers_spaces(cast: Cast, page: str) -> None:
    Board.objects.filter(pk=cast.board.pk).update(name="Plans of ours")
    Space.objects.filter(pk=cast.board.space_id).update(name="Space of ours")
    theirs = cast.client(cast.stranger).get(address(f"{page}_changelist")).content.decode()
    assert "of ours" not in theirs
