"""An edit that waits for the row while somebody else ends or starts the task: refused, never written (spec: 01, 4)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from boards import tasks
from boards.locks import engine_transaction
from boards.models import Event, Task
from boards.states import Status
from tests import cast
from tests.api.cast import Desk
from tests.racing import at_once, waiting
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def completes(desk: Desk, task: Task) -> Callable[[], object]:
    got = cast.claimed(desk.board)
    return lambda: tasks.complete(cast.agent_chain(desk.board), task, "done", claim=got.ticket)


def fails(desk: Desk, task: Task) -> Callable[[], object]:
    got = cast.claimed(desk.board)
    return lambda: tasks.fail(cast.agent_chain(desk.board), task, "No.", claim=got.ticket)


def cancels(desk: Desk, task: Task) -> Callable[[], object]:
    return lambda: tasks.cancel(cast.chain_of(desk.ben), task, "Ben's")


def starts(desk: Desk, task: Task) -> Callable[[], object]:
    return lambda: cast.claimed(desk.board)


TITLE, MESSAGE, CANCEL = {"title": "Late"}, {"message": "Late"}, {"status": "cancelled"}
HOLD, DEPS = {"status": "held"}, {"deps": ["other"]}
DECLINED, FINISHED = "terminal_task_write_declined", "task_finished"


@pytest.mark.parametrize(
    ("first", "fields", "code"),
    [
        # A cancel had passed the check; every other edit is checked by the write, under the lock.
        (completes, CANCEL, DECLINED),
        (fails, CANCEL, DECLINED),
        (cancels, CANCEL, DECLINED),
        (completes, MESSAGE, FINISHED),
        (fails, {"due_at": None}, FINISHED),
        (cancels, TITLE, FINISHED),
        (cancels, DEPS, FINISHED),
        (cancels, HOLD, FINISHED),
        (starts, TITLE, "field_locked_after_start"),
        (starts, DEPS, "field_locked_after_start"),
        (starts, HOLD, "field_locked_after_start"),
    ],
)
@pytest.mark.parametrize("door", ["process", "http"])
def test_what_happens_between_the_check_and_the_write_wins(
    desk: Desk, door: str, first: Callable[[Desk, Task], Callable[[], object]], fields: dict[str, Any], code: str
) -> None:
    task = desk.filed()
    desk.filed(goal="Other", id="other", assignee="reader")
    act, signed_in = first(desk, task), desk.signed_in()
    written, go = threading.Event(), threading.Event()

    @engine_transaction
    def somebody_else() -> None:
        act()
        written.set()
        assert go.wait(60)

    def edit() -> str:
        assert written.wait(60)
        if door == "http":
            return signed_in("PATCH", f"/boards/desk/tasks/{task.public_id}", fields).code
        tasks.update_task(desk.chain, task, **fields)
        return "written"

    def lets_go() -> None:
        assert written.wait(60)
        until(lambda: waiting() == 1, 20, what="the edit waits for the row")
        go.set()

    _, told, _ = at_once(somebody_else, edit, lets_go)
    assert (told if door == "http" else told.code) == code
    row = cast.fresh(task)
    assert (row.title, row.steers, row.unmet_deps) == ("", [], 0)
    assert row.status == (Status.IN_PROGRESS if first is starts else _ENDED[first])
    ended = Event.objects.filter(task=task, to_status__in=["completed", "errored", "cancelled"])
    assert ended.count() == int(first is not starts)
    assert not Event.objects.filter(task=task, kind__in=["task.edited", "task.steered", "task.held"]).exists()


_ENDED = {completes: Status.COMPLETED, fails: Status.ERRORED, cancels: Status.CANCELLED}
