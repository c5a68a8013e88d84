"""An answer that settles is first at once, and nothing follows from it before its author can no longer undo it."""

from __future__ import annotations

import pytest

from boards import errors, people, sweeping, tasks
from boards.debts import paying
from boards.models import Debt, Event, Hold, TranscriptItem
from boards.states import Status
from boards.tasks import Filing, HoldFiling, Wanted, claim, file_task
from tests import cast
from tests.flows.cast import Stage, open_hold
from tests.flows.conftest import stage  # noqa: F401 (a fixture)
from tests.people.conftest import Desk
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def claims(desk: Desk) -> list[int]:
    got = claim([Wanted(desk.board.pk, {cast.WRITER: 1})], limit=1, lease_ms=60_000, claimed_by=cast.HERE)
    return [one.task.pk for one in got]


def test_by_default_an_answer_is_final_and_its_run_goes_on_at_once(desk: Desk) -> None:
    hold = desk.answered(desk.asked())
    assert hold.settles_at is None
    assert claims(desk) == [hold.task_id]


def test_an_answer_that_settles_is_first_at_once_and_resumes_nothing_before_it_has_settled(desk, settled) -> None:
    desk.lets_settle("anna", 10)
    hold = desk.answered(desk.asked())
    assert (hold.state, hold.answered_by_name) == ("answered", "Anna")
    with pytest.raises(errors.AlreadyAnswered, match="Anna approved this at"):
        desk.answered(hold, "reject", by="ben")
    assert claims(desk) == []
    settled(hold)
    assert claims(desk) == [hold.task_id]


def test_its_author_takes_it_back_and_the_question_is_as_it_was(desk: Desk) -> None:
    desk.lets_settle("anna", 10)
    hold = desk.answered(desk.asked(), text="Fine")
    undone = people.undo_hold(desk.anna, hold.pk)
    task = cast.fresh(hold.task)
    assert (undone.state, undone.answer, undone.answered_by, undone.settles_at) == ("open", None, None, None)
    assert (task.open_holds, task.resume_ready_at, task.kept_open_by) == (1, None, "suspended")
    assert Event.objects.filter(kind="hold.undone", data__hold=hold.pk).count() == 1
    assert "Anna took the answer back." in TranscriptItem.objects.filter(task=task).last().text
    again = desk.answered(undone, "reject", by="ben")
    assert again.answer["choice"] == "reject"


def test_only_its_author_may_and_only_until_it_has_settled(desk: Desk, settled) -> None:
    desk.lets_settle("anna", 10)
    hold = desk.answered(desk.asked())
    with pytest.raises(errors.Forbidden, match="Only whoever answered"):
        people.undo_hold(desk.chain("olga"), hold.pk)
    settled(hold)
    with pytest.raises(errors.AlreadyAnswered, match="too late to take this back"):
        people.undo_hold(desk.anna, hold.pk)
    assert Hold.objects.get(pk=hold.pk).state == "answered"
    desk.lets_settle("anna", 0)
    final = desk.answered(desk.asked())
    with pytest.raises(errors.AlreadyAnswered, match="too late"):
        people.undo_hold(desk.anna, final.pk)


def test_a_gate_draft_settles_for_three_seconds_whatever_the_member_set(desk: Desk) -> None:
    hold = desk.answered(desk.asked("gate"), "send")
    assert (hold.settles_at - hold.answered_at).total_seconds() == pytest.approx(3, abs=0.01)
    desk.lets_settle("anna", 7)
    longer = desk.answered(desk.asked("gate"), "send")
    assert (longer.settles_at - longer.answered_at).total_seconds() == pytest.approx(7, abs=0.01)


@pytest.mark.parametrize("seconds", [-1, 11, "soon", None, 1.5])
def test_a_settle_time_is_from_0_to_10_seconds(desk: Desk, seconds: object) -> None:
    with pytest.raises(errors.InvalidInput):
        people.set_settle_time(desk.anna, seconds)


def test_a_task_does_not_start_before_the_yes_to_it_has_settled(desk: Desk, settled) -> None:
    desk.lets_settle("anna", 10)
    filing = Filing("Send the mail", assignee=cast.WRITER, holds=[HoldFiling("confirm", "Really?")])
    task = file_task(desk.anna, desk.board, filing)
    hold = desk.answered(task.holds.get(), "yes")
    assert claims(desk) == []
    people.undo_hold(desk.anna, hold.pk)
    settled(hold)
    assert claims(desk) == []  # it asks again, so nothing but an answer lets it start
    desk.answered(hold, "yes")
    settled(hold)
    assert claims(desk) == [task.pk]


def test_taking_back_a_no_releases_only_what_that_no_held(desk: Desk) -> None:
    desk.lets_settle("anna", 10)
    for held, expected in ((False, Status.PENDING), (True, Status.HELD)):
        filing = Filing("Send", assignee=cast.WRITER, held=held, holds=[HoldFiling("confirm", "Really?")])
        task = file_task(desk.anna, desk.board, filing, allow_same=True)
        hold = desk.answered(task.holds.get(), "no")
        assert cast.fresh(task).status == Status.HELD
        people.undo_hold(desk.anna, hold.pk)
        assert (cast.fresh(task).status, cast.fresh(task).open_holds) == (expected, 1)


def test_of_two_questions_the_run_waits_for_the_one_that_settles_last(desk: Desk, settled) -> None:
    desk.lets_settle("anna", 10)
    got = desk.working()
    worker = cast.agent_chain(desk.board)
    one = people.open_hold(worker, claim=got.ticket, kind="approval", prompt="One?", dedup_key="one")
    two = people.open_hold(worker, claim=got.ticket, kind="approval", prompt="Two?", dedup_key="two")
    people.suspend(got.ticket)
    desk.answered(one)
    desk.answered(two, by="ben")  # final at once, and the last
    assert claims(desk) == []
    settled(one)
    assert claims(desk) == [got.task.pk]


def test_a_turn_that_ends_while_an_answer_settles_waits_for_it_too(desk: Desk, settled) -> None:
    desk.lets_settle("anna", 10)
    got = desk.working()
    worker = cast.agent_chain(desk.board)
    hold = people.open_hold(worker, claim=got.ticket, kind="question", prompt="Which?", source="worker")
    desk.answered(hold, "", text="This")
    people.suspend(got.ticket)
    assert claims(desk) == []
    people.undo_hold(desk.anna, hold.pk)
    desk.answered(hold, "", text="That")
    settled(hold)
    assert claims(desk) == [got.task.pk]


def test_a_worker_hears_no_answer_that_may_still_be_taken_back(desk: Desk, settled) -> None:
    desk.lets_settle("anna", 10)
    hold = desk.asked("question", suspended=False, source="worker")
    desk.answered(hold, "", text="This")
    from boards.workers.briefing import beside
    from boards.workers.replay import answer_of

    def heard() -> list[str | None]:
        _, holds = beside([hold.task_id])
        return [answer and answer.text for answer in map(answer_of, holds[hold.task_id])]

    assert heard() == [None]
    settled(hold)
    assert heard() == ["This"]


def test_what_ended_meanwhile_is_not_asked_again(desk: Desk) -> None:
    desk.lets_settle("anna", 10)
    hold = desk.answered(desk.asked())
    tasks.cancel(desk.chain("ben"), hold.task_id, "Not needed")
    with pytest.raises(errors.AlreadyAnswered, match="too late"):
        people.undo_hold(desk.anna, hold.pk)


def test_a_flow_goes_on_only_once_the_answer_has_settled(stage: Stage, settled) -> None:  # noqa: F811
    people.set_settle_time(stage.anna, 10)
    run = stage.started()
    stage.complete()
    hold = open_hold(run)
    people.answer_hold(stage.anna, hold.pk, choice="approve", shown_hash=hold.draft_hash)
    sweeping.sweep_once()
    run.refresh_from_db()
    assert run.current_visit_id == hold.visit_id
    people.undo_hold(stage.anna, hold.pk)
    assert not Debt.objects.filter(unique_key__startswith=f"flow_advance:hold:{hold.pk}:").exists()
    settled(hold)
    sweeping.sweep_once()
    run.refresh_from_db()
    assert run.current_visit_id == hold.visit_id
    people.answer_hold(stage.anna, hold.pk, choice="approve", shown_hash=hold.draft_hash)
    settled(hold)
    assert paying.pay_due() == 1
    run.refresh_from_db()
    assert run.current_visit_id != hold.visit_id


def test_an_undo_and_a_claim_at_once_leave_either_a_resume_or_an_open_question(desk: Desk) -> None:
    desk.lets_settle("anna", 1)
    for _ in range(10):
        hold = desk.answered(desk.asked())

        def undo(hold: Hold = hold) -> object:
            return people.undo_hold(desk.anna, hold.pk)

        undone, *taken = at_once(undo, *[lambda: claims(desk)] * 3)
        task = cast.fresh(hold.task)
        assert isinstance(undone, Hold)
        assert (taken, task.open_holds) == ([[], [], []], 1)
        tasks.cancel(desk.anna, task.pk, "Enough")


@pytest.mark.parametrize("way", ["release", "edit", "retry", "start anyway"])
def test_no_way_to_let_a_task_go_passes_an_answer_that_may_still_be_taken_back(desk: Desk, settled, way: str) -> None:
    desk.lets_settle("anna", 10)
    first = cast.filed(desk.board, desk.anna, assignee="reader")
    filing = Filing(
        "Send the mail",
        assignee=cast.WRITER,
        held=way in {"release", "edit"},
        deps=[first.public_id] if way == "start anyway" else [],
        holds=[HoldFiling("confirm", "Really?")],
    )
    task = file_task(desk.anna, desk.board, filing)
    hold = desk.answered(task.holds.get(), "yes")
    if way == "release":
        tasks.release(desk.anna, task)
    elif way == "edit":
        tasks.update_task(desk.anna, task, status="pending")
    elif way == "retry":
        tasks.cancel(desk.anna, task)
        assert tasks.retry(desk.anna, task).landed
    else:
        tasks.cancel(desk.anna, first)
        assert cast.fresh(task).status == Status.CANCELLED
        assert tasks.start_anyway(desk.anna, task).landed
    assert cast.fresh(task).status == Status.PENDING
    assert claims(desk) == []
    settled(hold)
    assert claims(desk) == [task.pk]
