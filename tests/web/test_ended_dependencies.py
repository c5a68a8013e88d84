"""A dependency that ends without completing, over every surface: one rule, and what waited says why (fault 9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse

from boards import actors, errors, tasks
from boards.models import Task, User
from boards.queries.board import cards
from boards.tasks import Reason
from boards.templatetags.orchestra import render_card
from tests import cast
from tests.admin.test_acts import act
from tests.api.cast import Caller, Desk

pytestmark = pytest.mark.django_db(transaction=True)  # debts are paid after the commit


def _on_the_page(desk: Desk, verb: str, task: Task, **form: str) -> None:
    client = desk.signed_in().client
    client.handler.enforce_csrf_checks = False
    address = reverse("web:task_act", args=[task.board.slug, task.public_id, verb])
    assert client.post(address, form, headers={"hx-request": "true"}).status_code == 204


def _over_http(caller: Caller, task: Task) -> None:
    assert caller("POST", f"/boards/desk/tasks/{task.public_id}/cancel", {"reason": "Not wanted"}).status == 200


def _in_the_admin(desk: Desk, task: Task) -> None:
    User.objects.filter(pk=desk.olga.user_id).update(is_staff=True)
    client = desk.signed_in(desk.olga).client
    client.handler.enforce_csrf_checks = False
    assert "1 done." in act(client, "cancel", task)


def _fails(desk: Desk, task: Task) -> None:
    tasks.fail(cast.agent_chain(desk.board), task, "No", claim=cast.claimed(desk.board).ticket)


WAYS: dict[str, Callable[[Desk, Task], Any]] = {
    "failed by its worker": _fails,
    "cancelled on the page": lambda desk, task: _on_the_page(desk, "cancel", task),
    "skipped on the page": lambda desk, task: _on_the_page(desk, "skip", task, reason="Not wanted"),
    "cancelled by a key": lambda desk, task: _over_http(desk.by_key("file", "admin"), task),
    "cancelled over HTTP by a person": lambda desk, task: _over_http(desk.signed_in(), task),
    "cancelled in the admin": _in_the_admin,
    "cancelled by an edit": lambda desk, task: tasks.update_task(desk.chain, task, status="cancelled"),
    "withdrawn by its due time": lambda desk, task: tasks.withdraw(actors.service("flows", desk.space.pk), task),
}


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize("way", WAYS)
def test_what_waited_for_it_is_skipped_or_waits_on_and_says_why_with_the_ways_on(desk: Desk, way: str) -> None:
    first = desk.filed(goal="Sign the packages")
    waiting = [desk.filed(goal=f"Upload {n}", deps=[first.public_id], held=n == 1) for n in range(2)]
    below = desk.filed(goal="Tell everybody", deps=[waiting[0].public_id])
    WAYS[way](desk, first)

    withdrawn = way == "withdrawn by its due time"
    for task, held in ((waiting[0], False), (waiting[1], True)):
        row = cast.fresh(task)
        stays = "held" if held else "pending"
        assert row.status == (stays if withdrawn else "cancelled")
        assert row.unmet_deps == 1
        page = desk.signed_in().client.get(reverse("web:task", args=["desk", task.public_id])).content.decode()
        assert "Sign the packages" in page
        assert "start_anyway" in page
        card = render_card(cards(desk.board, [task.pk]).cards[0])
        assert "Sign the packages" in card
        if not withdrawn:
            assert (row.cancelled_via, "Sign the packages" in row.error) == ("cascade", True)
            assert tasks.retry(desk.chain, task).reason is Reason.DEPENDENCY_ENDED
    assert cast.fresh(below).status == ("pending" if withdrawn else "cancelled")

    with pytest.raises(errors.DependencyEnded):
        desk.filed(deps=[first.public_id])
    refused = desk.by_key("read", "file")("POST", "/boards/desk/tasks", {"goal": "Late", "deps": [first.public_id]})
    assert refused.code == "dependency_ended"

    _on_the_page(desk, "start_anyway", waiting[0])
    assert (cast.fresh(waiting[0]).status, cast.fresh(waiting[0]).unmet_deps) == ("pending", 0)
    assert [one.task.pk for one in _claimable(desk)] == [waiting[0].pk]


def _claimable(desk: Desk) -> list[tasks.Claimed]:
    return tasks.claim([tasks.Wanted(desk.board.pk, {cast.WRITER: 9})], limit=9, claimed_by=cast.HERE)


def test_what_waits_for_a_withdrawn_task_can_be_set_aside(desk: Desk) -> None:
    first = desk.filed()
    second = desk.filed(goal="Second", deps=[first.public_id])
    WAYS["withdrawn by its due time"](desk, first)
    _on_the_page(desk, "skip", second, reason="Nobody wants it any more")
    assert cast.fresh(second).status == "cancelled"
