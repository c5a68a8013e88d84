"""Branches of a `parallel` go on one by one and are joined by all, any or some of them (spec: 05 section 2.11)."""

from __future__ import annotations

import pytest

from boards import errors, flows, people, tasks
from boards.models import Branch, Event, FlowRun, Hold, StepChange, Task
from tests import cast
from tests.flows.cast import Stage, fresh, history, place, settle
from tests.flows.kinds_cast import answer, define, open_task, outcomes, output, started, withdraw, work
from tests.racing import at_once

pytestmark = pytest.mark.django_db


def flow(join: str = "all", more: str = "") -> str:
    return f"""
    - key: checks
      name: Checks
      kind: parallel
      join: {join}
      {more}
      branches:
        - {{key: tests, name: Tests, kind: agent, assignee: writer, prompt: Test.}}
        - {{key: safety, name: Safety, kind: task, assignee: reader, prompt: Look., timeout_ms: 60000}}
        - {{key: consent, name: Consent, kind: approval, prompt: "Is it fine?", draft: The whole text}}
    - {{key: ship, kind: agent, assignee: writer, prompt: "Ship {{{{ steps.checks.output.tests.text }}}}."}}
    """


def test_all_branches_begin_at_once_and_the_card_stays_in_its_column(stage: Stage) -> None:
    run = started(stage, flow())
    assert place(run) == "checks active"
    assert outcomes(run) == {"tests": "open", "safety": "open", "consent": "open"}
    assert list(Task.objects.values_list("title", flat=True).order_by("pk")) == [
        f"Tests: {run.name}",
        f"Safety: {run.name}",
    ]
    assert [task.assignee for task in Task.objects.order_by("pk")] == ["writer", "reader"]
    due = Branch.objects.get(key="safety")
    assert due.due_at is not None
    assert due.started_at is not None
    assert (due.due_at - due.started_at).total_seconds() == pytest.approx(60, abs=1)
    assert Hold.objects.get().branch == Branch.objects.get(key="consent")


def test_the_last_of_them_moves_the_run_on_with_all_their_outputs(stage: Stage) -> None:
    run = started(stage, flow())
    answer(stage, "Consent", "approve")
    work(stage, "Safety", {"found": 0}, who=cast.READER)
    assert place(run) == "checks active"
    work(stage, "Tests", {"text": "green"})
    assert place(run) == "ship active"
    told = output(run, "checks")
    assert (told["tests"], told["safety"], told["consent"]["approved"]) == ({"text": "green"}, {"found": 0}, True)
    assert open_task("Ship").goal == "Ship green."
    assert history(run)[-1] == "checks > ship (children_completed, Kinds)"


def test_any_moves_with_the_first_and_cancels_the_losers_because_of_the_join(stage: Stage) -> None:
    run = started(stage, flow("any"))
    safety, hold = open_task("Safety"), Hold.objects.get()
    work(stage, "Tests", {"text": "green"})
    assert place(run) == "ship active"
    assert cast.fresh(safety).status == "cancelled"
    assert Event.objects.get(task=safety, kind="task.cancelled").cause == "join"
    hold.refresh_from_db()
    assert hold.state == "discarded"
    assert outcomes(run) == {"tests": "completed", "safety": "cancelled", "consent": "cancelled"}
    with pytest.raises(errors.AlreadyAnswered):
        people.answer_hold(stage.anna, hold.pk, choice="approve", shown_hash=hold.draft_hash)


def test_some_of_them_are_enough_where_the_join_says_so(stage: Stage) -> None:
    run = started(stage, flow("2"))
    work(stage, "Tests", fails="Red.")
    assert place(run) == "checks active"
    answer(stage, "Consent", "approve")
    work(stage, "Safety", who=cast.READER)
    assert place(run) == "ship failed" or place(run) == "ship active"
    assert set(output(run, "checks")) == {"safety", "consent"}


def test_a_branch_that_fails_fails_the_step_once_the_join_can_no_longer_be_met(stage: Stage) -> None:
    run = started(stage, flow())
    safety = open_task("Safety")
    work(stage, "Tests", fails="Red.")
    assert (place(run), fresh(run).error) == ("checks failed", "The branch Tests did not complete: Red.")
    assert cast.fresh(safety).status == "cancelled"
    assert Event.objects.get(task=safety, kind="task.cancelled").cause == "failure"
    assert not Hold.objects.filter(state="open").exists()


def test_a_rejected_branch_has_not_completed(stage: Stage) -> None:
    run = started(stage, flow())
    answer(stage, "Consent", "reject", text="No.")
    assert fresh(run).error == "The branch Consent did not complete: Anna rejected it: No."


def test_a_withdrawn_branch_has_not_completed(stage: Stage) -> None:
    run = started(stage, flow())
    withdraw(stage, "Safety")
    assert fresh(run).error == "The branch Safety did not complete: The due time passed."
    assert Event.objects.get(run=run, kind="step.failed").cause == "timeout"


def test_a_branch_that_a_person_cancels_pauses_the_run(stage: Stage) -> None:
    run = started(stage, flow())
    tasks.cancel(stage.anna, open_task("Tests"), "Not now.")
    settle()
    visit = fresh(run).current_visit
    assert visit is not None
    assert (place(run), visit.phase) == ("checks active", "paused")
    assert not Task.objects.filter(visit__run=run, status="pending").exists(), "the others have ended too"


@pytest.mark.parametrize("flag", [False, True])
def test_a_cancel_of_the_whole_turn_is_judged_once_the_last_branch_has_ended(stage: Stage, flag: bool) -> None:
    run = started(stage, flow(more=f"cancel_triggers_turn_complete: {str(flag).lower()}"))
    answer(stage, "Consent", "approve")
    first, second = open_task("Tests"), open_task("Safety")
    tasks.cancel(stage.anna, first, "Stop.", cause="user_cancel")
    settle()
    assert place(run) == "checks active"
    assert cast.fresh(second).status == "pending", "one that ended does not decide for the others"
    tasks.cancel(stage.anna, second, "Stop.", cause="user_cancel")
    settle()
    visit = fresh(run).current_visit
    assert visit is not None
    if flag:
        assert visit.step_key == "ship", "the step's ordinary completion was evaluated"
        assert history(run)[-1].startswith("checks > ship (on_turn_complete")
    else:
        assert (place(run), visit.phase) == ("checks active", "paused")


def test_a_failed_branch_that_is_retried_and_completes_lets_the_run_go_on(stage: Stage) -> None:
    run = started(stage, flow("2"))
    failed = work(stage, "Tests", fails="Red.")
    answer(stage, "Consent", "reject", text="No.")
    assert place(run) == "checks failed"
    tasks.retry(stage.anna, failed)
    work(stage, "Tests")
    assert outcomes(run) == {"tests": "completed", "safety": "cancelled", "consent": "failed"}
    assert place(run) == "checks failed", "one of three is not two"


def test_the_question_of_one_branch_holds_up_no_other(stage: Stage) -> None:
    run = started(stage, flow("any"))
    assert Hold.objects.filter(state="open").count() == 1
    work(stage, "Safety", who=cast.READER)
    assert history(run)[-1].startswith("checks > ship")


def test_a_branch_that_cannot_begin_fails_the_step_and_leaves_nothing(stage: Stage) -> None:
    run = started(stage, flow().replace("assignee: reader", "assignee: nobody-here"))
    assert place(run) == "checks failed"
    assert not Task.objects.exists()
    assert not Hold.objects.exists()
    assert not Branch.objects.exists()


def test_a_move_away_ends_what_is_still_open(stage: Stage) -> None:
    run = started(stage, flow())
    flows.move(stage.anna, fresh(run), "ship")
    settle()
    assert fresh(run).current_visit.step_key == "ship"  # type: ignore[union-attr]
    left = Task.objects.filter(title__startswith="Tests") | Task.objects.filter(title__startswith="Safety")
    assert set(left.values_list("status", flat=True)) == {"cancelled"}
    assert set(Event.objects.filter(kind="task.cancelled").values_list("cause", flat=True)) == {"teardown"}


def test_a_working_branch_is_not_moved_away_from_unless_that_is_meant(stage: Stage) -> None:
    run = started(stage, flow())
    stage.claim()
    with pytest.raises(flows.IllegalRunMove, match="Its task is working"):
        flows.move(stage.anna, fresh(run), "ship")
    flows.move(stage.anna, fresh(run), "ship", cancel_turn=True)
    assert fresh(run).current_visit.step_key == "ship"  # type: ignore[union-attr]


def test_marking_complete_is_refused_while_branches_are_open(stage: Stage) -> None:
    run = started(stage, flow())
    with pytest.raises(flows.IllegalRunMove, match="Its task is ready"):
        flows.mark_complete(stage.anna, fresh(run))


def test_a_cancel_of_the_run_ends_every_branch(stage: Stage) -> None:
    run = started(stage, flow())
    flows.cancel_run(stage.anna, fresh(run))
    settle()
    assert set(outcomes(run).values()) == {"cancelled"}
    assert set(Task.objects.values_list("status", flat=True)) == {"cancelled"}
    assert set(Event.objects.filter(kind="task.cancelled").values_list("cause", flat=True)) == {"run_cancel"}


@pytest.mark.django_db(transaction=True)
def test_branches_that_end_at_once_join_once(stage: Stage) -> None:
    steps = """
    - key: checks
      kind: parallel
      branches:
        - {key: a, kind: agent, assignee: writer, prompt: A.}
        - {key: b, kind: agent, assignee: writer, prompt: B.}
        - {key: c, kind: agent, assignee: writer, prompt: C.}
        - {key: d, kind: agent, assignee: writer, prompt: D.}
    - {key: ship, kind: agent, assignee: reader, prompt: Ship.}
    """
    made = define(stage, steps)
    chain = cast.agent_chain(stage.board)
    for _ in range(5):
        run = flows.start(stage.anna, made, {})
        claims = [stage.claim() for _ in range(4)]
        ended = at_once(
            *[lambda got=got: tasks.complete(chain, got.task, {"n": 1}, claim=got.ticket) for got in claims]
        )
        assert all(getattr(outcome, "landed", False) for outcome in ended), ended
        settle()
        assert place(run) == "ship active"
        assert StepChange.objects.filter(run=run, to_step="ship").count() == 1
        assert len(output(FlowRun.objects.get(pk=run.pk), "checks")) == 4
