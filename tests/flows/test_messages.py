"""A person writes to a run: whoever works on it reads it, else the next turn starts (spec: 05 sections 2.5, 2.6)."""

from __future__ import annotations

import pytest

from boards import errors, flows
from boards.models import Task, TranscriptItem, User
from tests import cast
from tests.flows.cast import Stage, fresh, history, place, settle
from tests.flows.kinds_cast import open_task, started, work

pytestmark = pytest.mark.django_db

BOARD = """
- {key: backlog, name: Backlog, is_start_step: true, events: {on_turn_start: [move_to_next]}}
- key: doing
  name: In progress
  assignee: writer
  prompt: Do it.
  events: {on_enter: [auto_start], on_turn_complete: [move_to_next]}
- {key: review, name: Review, events: {on_turn_start: [move_to_previous]}}
- {key: shelf, name: Shelf}
"""


@pytest.fixture
def stage() -> Stage:
    return Stage()


def board(stage: Stage, agent: str = "") -> flows.FlowDefinition:
    return started(stage, BOARD, style="board", **({"agent": agent} if agent else {}))


def test_in_the_backlog_it_moves_the_card_and_starts_a_turn_with_the_message(stage: Stage) -> None:
    run = board(stage)
    assert flows.message(stage.anna, run, "Begin with {{ the }} menu.") == flows.TURN_STARTED
    settle()
    task = open_task("In progress")
    assert place(run) == "doing active"
    assert task.goal == "Do it.\n\nAnna wrote:\nBegin with {{ the }} menu."
    assert Task.objects.count() == 1  # the entry events of the step were not run beside it
    assert history(run)[-1] == "backlog > doing (on_turn_start, Anna)"


def test_in_review_it_puts_the_card_back_to_work(stage: Stage) -> None:
    run = board(stage)
    flows.move(stage.anna, run, "doing")
    settle()
    work(stage, "In progress")
    assert place(run) == "review active"
    flows.message(stage.anna, fresh(run), "Once more.")
    assert place(run) == "doing active"
    assert "Once more." in open_task("In progress").goal


def test_while_somebody_works_they_get_it_and_no_second_turn_starts(stage: Stage) -> None:
    run = board(stage)
    flows.move(stage.anna, run, "doing")
    settle()
    assert flows.message(stage.anna, fresh(run), "Mind the tests.") == "sent"
    assert [each["text"] for each in open_task("In progress").steers] == ["Mind the tests."]
    assert Task.objects.count() == 1


def test_in_a_step_that_nobody_works_it_is_said_and_the_card_waits(stage: Stage) -> None:
    run = board(stage)
    flows.move(stage.anna, run, "shelf")
    settle()
    flows.message(stage.anna, fresh(run), "For later.")
    assert (place(run), fresh(run).current_visit.phase) == ("shelf active", "waiting")
    assert TranscriptItem.objects.filter(session=run.session_id, text="Anna: For later.").exists()


@pytest.mark.parametrize("kind", ["approval", "archived", "completed", "cancelled"])
def test_where_it_can_start_nothing_it_is_refused_and_nothing_is_written(stage: Stage, kind: str) -> None:
    steps = "- {key: ask, name: Ask, kind: approval}\n- {key: next, name: Next}" if kind == "approval" else BOARD
    run = started(stage, steps, style="board")
    if kind == "archived":
        flows.archive(stage.anna, run)
    elif kind == "cancelled":
        flows.cancel_run(stage.anna, run)
    elif kind == "completed":
        flows.move(stage.anna, run, "shelf")
        flows.mark_complete(stage.anna, fresh(run))
    before = (place(run), Task.objects.count(), TranscriptItem.objects.count())
    with pytest.raises(errors.Refusal):
        flows.message(stage.anna, fresh(run), "Go on.")
    assert (place(run), Task.objects.count(), TranscriptItem.objects.count()) == before


def test_a_viewer_writes_nothing_and_a_blank_message_is_none(stage: Stage) -> None:
    run = board(stage)
    viewer = cast.chain_of(cast.make_member(stage.space, "vera", "viewer"))
    with pytest.raises(errors.Forbidden):
        flows.message(viewer, run, "Hello")
    with pytest.raises(errors.InvalidInput):
        flows.message(stage.anna, run, " \u200b ")


def test_the_page_sends_it(stage: Stage, client) -> None:
    run = board(stage)
    client.force_login(User.objects.get(pk=stage.anna.user_id))
    address = f"/f/{run.flow.key}/r/{run.number}/"
    assert "Write to the run" in client.get(address).content.decode()
    assert client.post(f"{address}message", {"message": "Begin."}).status_code == 302
    assert "Begin." in open_task("In progress").goal
