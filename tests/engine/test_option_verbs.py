"""Every verb that takes options, over one table: what each of them softens, and the receipt that each leaves.

The options are `if_allowed`, `claim` and `write` (spec: 02 sections 5.1 and 6); the field writes take none of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from boards import actors, errors, tasks
from boards.actors import Chain
from boards.models import Board, Event, Task
from boards.states import Status
from boards.tasks import Reason, Recorded, TaskWriteOutcome, Ticket
from tests import cast


@dataclass
class Scene:
    """A task with everybody who may do something to it; `ticket` is of its open attempt, if there is one."""

    board: Board
    anna: Chain
    task: Task
    ticket: Ticket | None = None

    @property
    def worker(self) -> Chain:
        return cast.agent_chain(self.board)

    @property
    def flows(self) -> Chain:
        return actors.service("flows", self.board.space_id)

    @property
    def claim(self) -> Ticket:
        assert self.ticket is not None
        return self.ticket


def ready(board: Board, anna: Chain, **fields: Any) -> Scene:
    return Scene(board, anna, cast.filed(board, anna, **fields))


def held(board: Board, anna: Chain) -> Scene:
    return ready(board, anna, held=True)


def working(board: Board, anna: Chain, **fields: Any) -> Scene:
    scene = ready(board, anna, **fields)
    scene.ticket = cast.claimed(board).ticket
    return scene


def done(board: Board, anna: Chain) -> Scene:
    scene = working(board, anna)
    tasks.complete(scene.worker, scene.task, {"n": 1}, claim=scene.claim)
    return scene


def stuck(board: Board, anna: Chain) -> Scene:
    scene = working(board, anna)
    tasks.fail(scene.worker, scene.task, "No.", claim=scene.claim)
    return scene


def handed_in(board: Board, anna: Chain) -> Scene:
    scene = working(board, anna, checker="person")
    tasks.complete(scene.worker, scene.task, {"n": 1}, claim=scene.claim)
    return scene


def lost(board: Board, anna: Chain) -> Scene:
    """Its attempt was handed back and the next one is at work: the ticket is of the first."""
    scene = working(board, anna)
    tasks.hand_back(scene.worker, scene.task, claim=scene.claim)
    cast.claimed(board)
    return scene


Make = Callable[[Board, Chain], Scene]


@dataclass(frozen=True)
class Case:
    """`lands` and `refused` make a row that takes the move, and one that does not; `reason` is of the decline.

    `softens`: the option that makes a refused move decline; "" where the verb never raises.
    """

    call: Callable[..., TaskWriteOutcome]  # (scene, **options)
    lands: Make
    refused: Make
    reason: Reason
    softens: str = "if_allowed"


CASES: dict[str, Case] = {
    "complete": Case(
        lambda s, **o: tasks.complete(s.worker, s.task, {"n": 2}, claim=s.claim, **o),
        working,
        lost,
        Reason.LOST_CLAIM,
        "claim",
    ),
    "fail": Case(
        lambda s, **o: tasks.fail(s.worker, s.task, "No.", claim=s.claim, **o),
        working,
        lost,
        Reason.LOST_CLAIM,
        "claim",
    ),
    "end_for_good, errored": Case(
        lambda s, **o: tasks.end_for_good(s.worker, s.task, "No.", claim=s.claim, ending="errored", **o),
        working,
        lost,
        Reason.LOST_CLAIM,
        "claim",
    ),
    "end_for_good, cancelled": Case(
        lambda s, **o: tasks.end_for_good(s.worker, s.task, "No.", claim=s.claim, ending="cancelled", **o),
        working,
        lost,
        Reason.LOST_CLAIM,
        "claim",
    ),
    "hand_back": Case(
        lambda s, **o: tasks.hand_back(s.worker, s.task, claim=s.claim, **o), working, lost, Reason.LOST_CLAIM, "claim"
    ),
    "report_progress": Case(
        lambda s, **o: tasks.report_progress(s.worker, s.task, claim=s.claim, note="Half", **o),
        working,
        lost,
        Reason.LOST_CLAIM,
        "claim",
    ),
    "cancel": Case(lambda s, **o: tasks.cancel(s.anna, s.task, "No.", **o), ready, done, Reason.TERMINAL, ""),
    "retry": Case(lambda s, **o: tasks.retry(s.anna, s.task, **o), stuck, working, Reason.DISALLOWED, ""),
    "skip": Case(lambda s, **o: tasks.skip(s.anna, s.task, "No.", **o), stuck, working, Reason.DISALLOWED),
    "hold": Case(lambda s, **o: tasks.hold(s.anna, s.task, **o), ready, working, Reason.DISALLOWED),
    "release": Case(lambda s, **o: tasks.release(s.anna, s.task, **o), held, working, Reason.DISALLOWED),
    "accept": Case(lambda s, **o: tasks.accept(s.anna, s.task, **o), handed_in, working, Reason.DISALLOWED),
    "send_back": Case(
        lambda s, **o: tasks.send_back(s.anna, s.task, "More.", **o), handed_in, working, Reason.DISALLOWED
    ),
    "withdraw": Case(lambda s, **o: tasks.withdraw(s.flows, s.task, **o), ready, done, Reason.TERMINAL),
}
FIELD_WRITES: dict[str, Callable[[Chain, Task], TaskWriteOutcome]] = {
    "set_assignee": lambda chain, task: tasks.set_assignee(chain, task, cast.READER),
    "set_priority": lambda chain, task: tasks.set_priority(chain, task, 7),
    "add_label": lambda chain, task: tasks.add_label(chain, task, "new"),
    "remove_label": lambda chain, task: tasks.remove_label(chain, task, "old"),
    "patch_metadata": lambda chain, task: tasks.patch_metadata(chain, task, {"seen": True}),
}


def refusing(case: Case, scene: Scene, **options: Any) -> TaskWriteOutcome:
    softened = {"if_allowed": True} if case.softens == "if_allowed" else {}
    return case.call(scene, **softened, **options)


@pytest.mark.parametrize("name", CASES)
def test_a_write_that_landed_left_its_receipt(name: str, board: Board, anna: Chain) -> None:
    case = CASES[name]
    scene = case.lands(board, anna)
    before = cast.fresh(scene.task)
    token = tasks.begin_task_write(before)
    assert tasks.did_write_land(before, token) is False
    assert case.call(scene, write=token.id).result is Recorded.RECORDED
    after = cast.fresh(scene.task)
    assert after.write_log == [{"id": token.id, "revision": before.revision + 1}]
    assert (after.revision, after.write_log_truncated) == (before.revision + 1, False)
    tasks.patch_metadata(anna, scene.task, {"later": True})
    assert tasks.did_write_land(cast.fresh(scene.task), token) is True
    assert tasks.did_write_land(None, token) is None


@pytest.mark.parametrize("name", CASES)
def test_a_write_that_declined_left_nothing(name: str, board: Board, anna: Chain) -> None:
    case = CASES[name]
    scene = case.refused(board, anna)
    before, told = cast.fresh(scene.task), Event.objects.count()
    token = tasks.begin_task_write(before)
    outcome = refusing(case, scene, write=token.id)
    assert (outcome.result, outcome.reason, outcome.status) == (Recorded.DECLINED, case.reason, before.status)
    after = cast.fresh(scene.task)
    assert (after.revision, after.write_log, Event.objects.count()) == (before.revision, [], told)
    assert tasks.did_write_land(after, token) is False
    tasks.patch_metadata(anna, scene.task, {"later": True})
    assert tasks.did_write_land(cast.fresh(scene.task), token) is False  # nothing was ever dropped
    Task.objects.filter(pk=scene.task.pk).update(
        write_log=[{"id": "another", "revision": before.revision + 1}], write_log_truncated=True
    )
    assert tasks.did_write_land(cast.fresh(scene.task), token) is None  # it may have been dropped


@pytest.mark.parametrize("name", CASES)
def test_without_options_a_refused_move_raises_and_writes_nothing(name: str, board: Board, anna: Chain) -> None:
    case = CASES[name]
    scene = case.refused(board, anna)
    before = cast.fresh(scene.task).revision
    if case.softens != "if_allowed":
        assert case.call(scene).result is Recorded.DECLINED  # by its ticket, or since it only asks
    else:
        with pytest.raises(errors.IllegalTaskTransition) as refused:
            case.call(scene)
        assert refused.value.from_status == cast.fresh(scene.task).status
    assert cast.fresh(scene.task).revision == before


@pytest.mark.parametrize("name", CASES)
def test_a_missing_task_is_softened_by_nothing(name: str, board: Board, anna: Chain) -> None:
    case = CASES[name]
    scene = case.lands(board, anna)
    Task.objects.filter(pk=scene.task.pk).delete()
    with pytest.raises(errors.TaskNotFound):
        refusing(case, scene)


@pytest.mark.parametrize("name", ["skip", "hold", "release", "accept", "withdraw"])
def test_a_repeat_is_unchanged_keeps_its_reason_and_leaves_no_receipt(name: str, board: Board, anna: Chain) -> None:
    case = CASES[name]
    scene = case.lands(board, anna)
    case.call(scene)
    row = cast.fresh(scene.task)
    token = tasks.begin_task_write(row)
    assert case.call(scene, write=token.id).result is Recorded.UNCHANGED
    again = case.call(scene, if_allowed=True)
    if row.status in {Status.COMPLETED, Status.CANCELLED}:
        assert (again.result, again.reason) == (Recorded.DECLINED, Reason.TERMINAL)
    else:
        assert again.result is Recorded.UNCHANGED
    after = cast.fresh(scene.task)
    assert (after.revision, after.error, after.write_log) == (row.revision, row.error, [])
    assert tasks.did_write_land(after, token) is False


@pytest.mark.parametrize("name", FIELD_WRITES)
def test_a_field_write_raises_the_revision_and_leaves_no_receipt(name: str, board: Board, anna: Chain) -> None:
    task = cast.filed(board, anna, labels=["old"])
    before = cast.fresh(task)
    token = tasks.begin_task_write(before)
    assert FIELD_WRITES[name](anna, task).result is Recorded.RECORDED
    after = cast.fresh(task)
    assert (after.revision, after.write_log, after.write_log_truncated) == (before.revision + 1, [], False)
    assert tasks.did_write_land(after, token) is False


def test_tokens_ride_on_the_verbs_that_take_options_and_on_no_others() -> None:
    named = {name.partition(",")[0] for name in CASES}
    takes = {name for name in tasks.__all__ if inspect.isfunction(getattr(tasks, name)) and _takes(name, "write")}
    assert takes == named
    assert not {name for name in tasks.__all__ if _takes(name, "if_allowed")} - named - {"withdraw_many"}
    for name in FIELD_WRITES:
        assert not any(_takes(name, option) for option in ("if_allowed", "claim", "write"))


def _takes(name: str, option: str) -> bool:
    thing = getattr(tasks, name)
    return inspect.isfunction(thing) and option in inspect.signature(thing).parameters
