"""A worker that loses its task while it files another from it: nothing is filed in the name of who works it now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models.functions import Now

from boards import tasks
from boards.models import BoardCounter, Task
from boards.tasks import filing
from tests import cast
from tests.api.cast import Desk
from tests.api.work_cast import Worker, put_outside, work_of
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker(desk: Desk) -> Worker:
    put_outside(desk.board)
    return Worker(desk)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Has something happen once within a filing: its caller was looked at, and nothing is locked yet."""

    def happens(job: Callable[[], Any]) -> None:
        plain = filing.budgets.take_ids

        def take_ids(*args: Any) -> Any:
            monkeypatch.setattr(filing.budgets, "take_ids", plain)
            at_once(job)
            return plain(*args)

        monkeypatch.setattr(filing.budgets, "take_ids", take_ids)

    return happens


@pytest.mark.parametrize("key", ["", "once"])
def test_nothing_is_filed_once_another_has_taken_the_task(
    desk: Desk, worker: Worker, meanwhile: Callable[[Callable[[], Any]], None], key: str
) -> None:
    task, other = work_of(desk), Worker(desk, "other")
    ticket = worker.begins()

    def take_over() -> None:
        Task.objects.filter(pk=task.pk).update(lease_until=Now())
        other.begins()

    meanwhile(take_over)
    told = worker("file_task", {"ticket": ticket, "filing": {"goal": "More"}}, key=key)
    assert (told.status, told.body["reason"], told.body["status_seen"]) == (409, "lost-claim", "in_progress")
    assert not Task.objects.filter(goal="More").exists()
    assert BoardCounter.objects.get(board=desk.board).filed_total == 1
    assert cast.fresh(task).attempts == 2


def test_nothing_is_filed_once_the_task_has_ended(
    desk: Desk, worker: Worker, meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    task = work_of(desk)
    ticket = worker.begins()
    meanwhile(lambda: tasks.cancel(desk.chain, task))
    told = worker("file_task", {"ticket": ticket, "filing": {"goal": "More"}})
    assert told.status == 409
    work_of(desk, "Another")
    ticket = worker.begins()
    meanwhile(lambda: worker("complete", {"ticket": ticket, "output": 1}))
    told = worker("file_task", {"ticket": ticket, "filing": {"goal": "More"}})
    assert (told.status, told.body["reason"], told.body["status_seen"]) == (409, "terminal", "completed")
    assert not Task.objects.filter(goal="More").exists()
