"""Whoever asked can open its gate in no way at all; each try is refused (spec: 04 section 2.3; fault 17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from boards import actors, errors, people, tasks
from boards.actors import Chain, Hop
from boards.models import Hold, Task
from boards.states import Status
from boards.tasks import Claimed, Filing, HoldFiling, file_task
from boards.tasks.types import TaskWriteOutcome
from tests import cast
from tests.people.conftest import Desk

pytestmark = pytest.mark.django_db(transaction=True)

Way = Callable[[Chain, Hold, Task], Any]

WAYS: dict[str, Way] = {
    "answer yes": lambda chain, hold, task: people.answer_hold(
        chain, hold.pk, choice="approve", shown_hash=hold.draft_hash
    ),
    "answer no": lambda chain, hold, task: people.answer_hold(
        chain, hold.pk, choice="reject", shown_hash=hold.draft_hash
    ),
    "dismiss": lambda chain, hold, task: people.dismiss_hold(chain, hold.pk),
    "undo": lambda chain, hold, task: people.undo_hold(chain, hold.pk),
    "assign": lambda chain, hold, task: people.assign_hold(chain, hold.pk, cast.WRITER),
    "release": lambda chain, hold, task: tasks.release(chain, task),
    "retry": lambda chain, hold, task: tasks.retry(chain, task),
    "skip": lambda chain, hold, task: tasks.skip(chain, task, "Enough"),
    "start anyway": lambda chain, hold, task: tasks.start_anyway(chain, task),
    "reassign": lambda chain, hold, task: tasks.update_task(chain, task, assignee=cast.READER),
    "edit the checker": lambda chain, hold, task: tasks.update_task(chain, task, checker="none"),
    "edit the goal": lambda chain, hold, task: tasks.update_task(chain, task, goal="Something else"),
    "set the status": lambda chain, hold, task: tasks.update_task(chain, task, status=Status.PENDING),
    "accept": lambda chain, hold, task: tasks.accept(chain, task),
    "claim as a person": lambda chain, hold, task: tasks.claim_for_person(chain, task),
    "settle at once": lambda chain, hold, task: people.set_settle_time(chain, 0),
}


def as_agent(desk: Desk, hold: Hold) -> Chain:
    return cast.agent_chain(desk.board)


def as_agent_in_its_session(desk: Desk, hold: Hold) -> Chain:
    return actors.agent(cast.WRITER, desk.space.pk, hold.asker_session_id)


def as_agent_for_anna(desk: Desk, hold: Hold) -> Chain:
    return desk.anna.then(Hop("agent", cast.WRITER, cast.WRITER))


def as_drain(desk: Desk, hold: Hold) -> Chain:
    return actors.service("drain", desk.space.pk)


def as_flows(desk: Desk, hold: Hold) -> Chain:
    return actors.service("flows", desk.space.pk)


WHO = [as_agent, as_agent_in_its_session, as_agent_for_anna, as_drain, as_flows]


def state(hold: Hold, task: Task) -> tuple[Any, ...]:
    now, row = Hold.objects.get(pk=hold.pk), Task.objects.get(pk=task.pk)
    return (now.state, now.answer, now.assignee_id, row.status, row.assignee, row.checker, row.goal, row.open_holds)


def is_refused(way: Way, chain: Chain, hold: Hold, task: Task) -> bool:
    """Whether a way raised a refusal, or answered that nothing was written."""
    try:
        answer = way(chain, hold, task)
    except errors.Refusal:
        return True
    return isinstance(answer, TaskWriteOutcome) and not answer.landed


@pytest.mark.parametrize("who", WHO, ids=lambda who: who.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_a_running_worker_opens_its_own_gate_in_no_way(desk: Desk, way: str, who: Any) -> None:
    hold = desk.asked()
    task = cast.fresh(hold.task)
    before = state(hold, task)
    assert is_refused(WAYS[way], who(desk, hold), hold, task)
    assert state(hold, task) == before


@pytest.mark.parametrize("who", WHO, ids=lambda who: who.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_what_stands_before_the_start_is_opened_by_no_worker(desk: Desk, way: str, who: Any) -> None:
    filing = Filing("Publish", assignee=cast.WRITER, held=True, holds=[HoldFiling("confirm", "Really?")])
    task = file_task(desk.anna, desk.board, filing)
    hold = task.holds.get()
    before = state(hold, task)
    assert is_refused(WAYS[way], who(desk, hold), hold, task)
    assert state(hold, task) == before


def test_each_try_is_logged(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    hold = desk.asked()
    with caplog.at_level("WARNING", logger="boards.policy"), pytest.raises(errors.NotFound):
        people.answer_hold(cast.agent_chain(desk.board), hold.pk, choice="approve", shown_hash=hold.draft_hash)
    assert "agent 'writer' may not holds.answer" in caplog.text


def test_with_its_ticket_it_neither_completes_nor_goes_on_while_it_asks(desk: Desk) -> None:
    got: Claimed = desk.working()
    worker = cast.agent_chain(desk.board)
    hold = people.open_hold(worker, claim=got.ticket, kind="approval", prompt="May I?", draft="This")
    assert not tasks.complete(worker, got.task, {"text": "Done"}, claim=got.ticket).landed
    assert not tasks.fail(worker, got.task, "No", claim=got.ticket).landed
    people.suspend(got.ticket)
    assert Hold.objects.get(pk=hold.pk).state == "open"
    assert cast.fresh(got.task).kept_open_by == "suspended"


def test_asking_the_same_again_with_another_draft_moves_neither_draft_nor_hash(desk: Desk) -> None:
    got = desk.working()
    worker = cast.agent_chain(desk.board)
    ask = {"claim": got.ticket, "kind": "gate", "prompt": "May I?", "dedup_key": "mail"}
    first = people.open_hold(worker, draft="Kind words", **ask)
    again = people.open_hold(worker, draft="Other words", **ask)
    assert (again.pk, again.draft, again.draft_hash) == (first.pk, "Kind words", first.draft_hash)
