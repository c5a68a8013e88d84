"""Acts on rows of a list: asked once, done by the verbs, answered row by row."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from boards import tasks
from boards.actors import service
from boards.debts import owing
from boards.models import Debt, Event, Role, Task
from tests.admin.conftest import Cast
from tests.cast import chain_of, claimed, filed, fresh

LIST = "admin:boards_task_changelist"


def act(client: Client, name: str, *rows: Task, query: str = "", **more: Any) -> str:
    """Choose rows, choose the act, confirm; answers the page of results."""
    choice = {"action": name, "_selected_action": [row.pk for row in rows], **more}
    address = reverse(LIST) + query
    asked = client.post(address, {**choice, "index": "0"})
    assert asked.status_code == 200
    assert 'name="confirmed"' in asked.content.decode()
    return text_of(client.post(address, {**choice, "confirmed": "yes"}))


def text_of(answer: Any) -> str:
    return answer.getvalue().decode() if answer.streaming else answer.content.decode()


def stuck(cast: Cast, goal: str = "Write the notes") -> Task:
    task = filed(cast.board, chain_of(cast.member), goal)
    held = claimed(cast.board)
    tasks.fail(chain_of(cast.operator), task, "The printer is out of paper.", claim=held.ticket, for_good=True)
    return fresh(task)


def test_nothing_is_done_before_it_was_confirmed(cast: Cast) -> None:
    task = filed(cast.board, chain_of(cast.member))
    operator = cast.client(cast.operator)
    page = operator.post(reverse(LIST), {"action": "cancel", "_selected_action": [task.pk], "index": "0"})
    assert "one row is selected" in page.content.decode()
    assert fresh(task).status == "pending"


def test_a_cancel_says_how_many_more_it_hits(cast: Cast) -> None:
    chain = chain_of(cast.member)
    first = filed(cast.board, chain, "First", id="first")
    filed(cast.board, chain, "Second", deps=["first"])
    page = cast.client(cast.operator).post(
        reverse(LIST), {"action": "cancel", "_selected_action": [first.pk], "index": "0"}
    )
    assert "1 task that depends on them is skipped with them." in page.content.decode()


def test_a_retry_goes_through_the_verb_in_the_operators_name(cast: Cast) -> None:
    task = stuck(cast)
    text = act(cast.client(cast.operator), "retry", task)
    assert "1 done." in text
    assert fresh(task).status == "pending"
    event = Event.objects.filter(task=task, kind="task.retried").get()
    assert event.actor == "Olga"


def test_each_row_has_its_result_and_declined_ones_say_why(cast: Cast) -> None:
    good, bad = stuck(cast), filed(cast.board, chain_of(cast.member), "Sew the sail")
    text = act(cast.client(cast.operator), "retry", good, bad)
    assert "1 done, 1 declined." in text
    row = text[text.index("Sew the sail") :]
    assert "declined" in row[: row.index("</tr>")]
    assert fresh(bad).status == "pending"


def test_skip_and_reassign_want_words(cast: Cast) -> None:
    task = stuck(cast)
    operator = cast.client(cast.operator)
    page = operator.post(reverse(LIST), {"action": "skip", "_selected_action": [task.pk], "confirmed": "yes"})
    assert "Fill in the field below." in page.content.decode()
    assert fresh(task).status == "errored"
    act(operator, "skip", task, words="Nobody needs it any more.")
    assert fresh(task).status == "cancelled"
    assert fresh(task).error == "Nobody needs it any more."


def test_a_task_is_reassigned_only_to_a_name_on_its_roster(cast: Cast) -> None:
    task = filed(cast.board, chain_of(cast.member))
    operator = cast.client(cast.operator)
    assert "is not on the roster" in act(operator, "set_assignee", task, words="nobody")
    assert "1 done." in act(operator, "set_assignee", task, words="reader")
    assert fresh(task).assignee == "reader"


def test_all_that_match_the_filter_are_taken_and_the_filter_is_kept(cast: Cast) -> None:
    chain = chain_of(cast.member)
    rows = [filed(cast.board, chain, f"Paint plank {number}", labels=["hull"]) for number in range(120)]
    other = filed(cast.board, chain, "Sew the sail")
    query = "?q=label%3Ahull"
    operator = cast.client(cast.operator)
    text = act(operator, "cancel", rows[0], query=query, select_across="1", words="The boat is sold.")
    assert "120 done." in text
    assert f'href="{reverse(LIST)}{query}"' in text
    assert set(Task.objects.filter(labels=["hull"]).values_list("status", flat=True)) == {"cancelled"}
    assert fresh(other).status == "pending"


@pytest.mark.parametrize("role", [Role.MEMBER, Role.VIEWER])
def test_staff_without_the_right_cannot_act(cast: Cast, role: Role) -> None:
    task = filed(cast.board, chain_of(cast.operator))
    cast.member.role = role
    cast.member.save()
    cast.member.user.is_staff = True
    cast.member.user.save()
    cast.client(cast.member).post(
        reverse(LIST), {"action": "cancel", "_selected_action": [task.pk], "confirmed": "yes"}
    )
    assert fresh(task).status == "pending"


def test_rows_of_another_space_cannot_be_named(cast: Cast) -> None:
    task = filed(cast.board, chain_of(cast.member))
    cast.client(cast.stranger).post(
        reverse(LIST), {"action": "cancel", "_selected_action": [task.pk], "confirmed": "yes"}
    )
    assert fresh(task).status == "pending"


def test_hostile_titles_stay_words_on_the_result_page(cast: Cast) -> None:
    task = filed(cast.board, chain_of(cast.member), title="<script>alert(1)</script>")
    assert "<script>alert" not in act(cast.client(cast.operator), "hold", task)
    assert fresh(task).status == "held"


def test_a_debt_that_failed_for_good_is_paid_again_or_dropped(cast: Cast) -> None:
    task = filed(cast.board, chain_of(cast.member))
    stop = owing.owe("session_stop", "stop", task=task, payer="drain:gone")
    lost = owing.owe("resume", "lost", task=task, payer="drain")
    Debt.objects.update(state="undeliverable")
    client, address = cast.client(cast.operator), reverse("admin:boards_debt_changelist")

    def answer(name: str, debt: Debt) -> str:
        chosen = {"action": name, "_selected_action": [debt.pk], "index": "0", "confirmed": "yes"}
        return text_of(client.post(address, chosen))

    assert "never dropped" in answer("drop", stop)
    assert "Only a drain can pay this" in answer("pay", stop)
    assert "1 done" in answer("drop", lost)
    assert [(debt.kind, debt.state) for debt in Debt.objects.all()] == [("session_stop", "owed")]


def test_a_withdrawn_task_is_left_alone_by_every_act_and_each_says_why(cast: Cast) -> None:
    task = filed(cast.board, chain_of(cast.member))
    tasks.withdraw(service("flows", cast.board.space_id), task)
    before = fresh(task)
    operator = cast.client(cast.operator)
    for name in ("retry", "cancel", "release"):
        assert "The due time passed" in act(operator, name, task), name
    row = fresh(task)
    assert (row.status, row.withdrawn, row.revision) == ("cancelled", before.withdrawn, before.revision)
