"""What a worker's turn files by the engine's own functions is judged under its claim (spec: 02 section 4.2)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from boards import actors, errors, tasks
from boards.actors import Chain
from boards.models import AgentCheck, Board, Task
from boards.tasks import Claimed, Filing, LostClaim
from boards.tasks.current import working_under
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)

GOING_ON = "Part"


def one(turn: Claimed) -> list[Task]:
    return [tasks.file_task(cast.agent_chain(turn.task.board), turn.task.board, goal=GOING_ON, assignee="reader")]


def one_that_names_its_parent(turn: Claimed) -> list[Task]:
    chain = cast.agent_chain(turn.task.board)
    return [
        tasks.file_task(chain, turn.task.board, goal=GOING_ON, assignee="reader", filed_by_task=cast.fresh(turn.task))
    ]


def many(turn: Claimed) -> list[Task]:
    filings = [Filing(goal=f"{GOING_ON} {n}", assignee="reader") for n in range(2)]
    return tasks.file_tasks(cast.agent_chain(turn.task.board), turn.task.board, filings)


def again(turn: Claimed) -> list[Task]:
    old = Task.objects.get(goal="Too late")
    return [tasks.file_again(cast.agent_chain(turn.task.board), old)]


FILES: dict[str, Callable[[Claimed], list[Task]]] = {
    "file_task": one,
    "file_task with filed_by_task": one_that_names_its_parent,
    "file_tasks": many,
    "file_again": again,
}


@pytest.fixture
def turn(board: Board, anna: Chain) -> Claimed:
    old = cast.filed(board, anna, "Too late", assignee="reader")
    tasks.withdraw(actors.service("flows", board.space_id), old)
    cast.filed(board, anna, "Whole")
    return cast.claimed(board)


def handed_back(turn: Claimed) -> None:
    tasks.hand_back(cast.agent_chain(turn.task.board), turn.task, claim=turn.ticket)


def taken_by_another(turn: Claimed) -> None:
    handed_back(turn)
    cast.claimed(turn.task.board)


def done(turn: Claimed) -> None:
    tasks.complete(cast.agent_chain(turn.task.board), turn.task, None, claim=turn.ticket)


def kept_open(turn: Claimed) -> None:
    with working_under(turn.ticket):
        tasks.file_task(cast.agent_chain(turn.task.board), turn.task.board, goal="First", assignee="reader")
    done(turn)
    assert cast.fresh(turn.task).kept_open_by == "filed"


def gone(turn: Claimed) -> None:
    Task.objects.get(pk=turn.task.pk).delete()


@pytest.mark.parametrize("files", FILES)
def test_it_is_filed_by_the_task_while_the_claim_stands(files: str, turn: Claimed) -> None:
    with working_under(turn.ticket):
        made = FILES[files](turn)
    assert {cast.fresh(task).filed_by_task_id for task in made} == {turn.task.pk}


LOSES = (handed_back, taken_by_another, done, kept_open)


@pytest.mark.parametrize(
    ("files", "loses"),
    # A parent that is gone can be named by nobody.
    [*itertools.product(FILES, LOSES), *((files, gone) for files in FILES if "filed_by_task" not in files)],
)
def test_nothing_is_filed_once_it_is_lost(files: str, loses: Callable[[Claimed], None], turn: Claimed) -> None:
    loses(turn)
    before = Task.objects.count()
    with working_under(turn.ticket), pytest.raises(LostClaim):
        FILES[files](turn)
    assert Task.objects.count() == before


@pytest.mark.parametrize("files", FILES)
def test_nothing_is_filed_under_a_lease_that_ran_out(files: str, turn: Claimed, lapse: Callable[[Task], None]) -> None:
    lapse(turn.task)
    before = Task.objects.count()
    with working_under(turn.ticket), pytest.raises(LostClaim):
        FILES[files](turn)
    assert Task.objects.count() == before


@pytest.mark.parametrize("files", FILES)
def test_a_cancelled_parent_keeps_its_own_code(files: str, turn: Claimed, anna: Chain) -> None:
    tasks.cancel(anna, turn.task)
    with working_under(turn.ticket), pytest.raises(errors.ParentCancelled):
        FILES[files](turn)


def test_code_outside_of_any_turn_files_whatever_became_of_one(turn: Claimed, anna: Chain) -> None:
    handed_back(turn)
    made = tasks.file_task(anna, turn.task.board, goal="Beside", assignee="reader")
    assert cast.fresh(made).filed_by_task_id is None


def test_a_debt_that_is_paid_in_a_workers_thread_is_not_in_its_turn(
    turn: Claimed, board: Board, anna: Chain, payers: dict[str, Any]
) -> None:
    """The hand-in of another task asks its checker, by a task: that is filed right after the commit, by nobody's turn
    and under nobody's claim."""
    seen: list[object] = []
    pay = payers["late_check"]

    def looking(debt: Any) -> bool:
        seen.append(tasks.current_claim())
        return pay(debt)

    payers["late_check"] = looking
    other = cast.filed(board, anna, "Other", assignee="reader", checker=cast.WRITER)
    got = cast.claimed(board, "reader")
    handed_back(turn)
    with working_under(turn.ticket):
        tasks.complete(cast.agent_chain(board, "reader"), other, {"n": 1}, claim=got.ticket)
        assert tasks.current_claim() == turn.ticket
    assert seen == [None]
    check = AgentCheck.objects.get(task=other).check_task
    assert check is not None
    assert check.filed_by_task_id is None
