"""A task that handed in stays open until the tasks it filed in that turn have ended (spec: 03 section 4.5, 07 2.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from boards import actors, errors, people, states, sweeping, tasks
from boards.actors import Chain
from boards.debts import operating, paying
from boards.debts.kinds import Undeliverable
from boards.models import Attempt, Board, Debt, Event, RosterEntry, Task
from boards.tasks import Claimed, Filing, Recorded, notices, recording, settling_parents
from boards.tasks.current import working_under
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)


def statements(turn: Turn) -> list[str]:
    """What a hand-in asks of the database."""
    with CaptureQueriesContext(connection) as seen:
        assert turn.hands_in({"n": 1}).status == "completed"
    return [query["sql"] for query in seen.captured_queries]


class Turn:
    """Writer works a task, and files others in that turn."""

    def __init__(self, board: Board, task: Task) -> None:
        self.board, self.chain = board, cast.agent_chain(board)
        self.claimed: Claimed = cast.claimed(board, task.assignee)
        assert self.claimed.task.pk == task.pk
        self.task, self.ticket = task, self.claimed.ticket

    def files(self, goal: str, **fields: Any) -> Task:
        with working_under(self.ticket):
            filing = Filing(**{"goal": goal, "assignee": cast.READER, **fields})
            return tasks.file_task(self.chain, self.board, filing, allow_same=True)

    def hands_in(self, output: Any = None) -> tasks.TaskWriteOutcome:
        return tasks.complete(self.chain, self.task, output, claim=self.ticket)


def end(board: Board, task: Task, output: Any = None) -> None:
    """The reader works its next task, which is this one."""
    turn = Turn(board, task)
    assert turn.hands_in(output).status == "completed"


@pytest.fixture
def parent(board: Board, anna: Chain) -> Task:
    return cast.filed(board, anna, "Parent")


@pytest.fixture
def turn(board: Board, parent: Task) -> Turn:
    return Turn(board, parent)


def look(task: Task) -> tuple[str, str]:
    row = cast.fresh(task)
    return row.status, row.kept_open_by


KEPT, DONE = ("in_progress", "filed"), ("completed", "")


def test_it_stays_open_without_lease_or_slot_and_keeps_what_was_handed_in(turn: Turn) -> None:
    turn.files("Child")
    outcome = turn.hands_in({"n": 1})
    assert (outcome.result, outcome.status) == (Recorded.RECORDED, "in_progress")
    row = cast.fresh(turn.task)
    assert look(row) == KEPT
    assert (row.lease_until, row.output, row.output_is_checkpoint) == (None, {"n": 1}, True)
    assert Attempt.objects.get(task=row).ended_at is None
    assert not Debt.objects.exists()
    told = Event.objects.filter(task=row).latest("pk")
    assert (told.kind, told.data, told.from_status) == ("task.progressed", {"kept_open_by": "filed"}, "in_progress")


def test_the_last_of_them_to_end_completes_it_with_what_was_handed_in(board: Board, turn: Turn) -> None:
    first, second = turn.files("First"), turn.files("Second")
    turn.hands_in({"n": 1})
    end(board, first)
    assert look(turn.task) == KEPT
    end(board, second)
    row, attempt = cast.fresh(turn.task), Attempt.objects.get(task=turn.task)
    assert (*look(row), row.output, row.output_is_checkpoint) == (*DONE, {"n": 1}, False)
    assert (attempt.ending, attempt.output) == ("completed", {"n": 1})
    assert not Debt.objects.exists()
    told = Event.objects.filter(task=row, kind="task.completed").get()
    assert (told.actor, told.from_status, told.to_status) == ("writer", "in_progress", "completed")


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("fails", lambda board, anna, child: _fail(board, child)),
        ("is cancelled", lambda board, anna, child: tasks.cancel(anna, child)),
        ("is skipped", lambda board, anna, child: tasks.skip(anna, child, "no use")),
        ("is withdrawn", lambda board, anna, child: tasks.withdraw(actors.service("flows", board.space_id), child)),
    ],
)
def test_however_it_ends_a_filed_task_holds_no_longer(
    board: Board, anna: Chain, turn: Turn, name: str, ends: Callable[[Board, Chain, Task], Any]
) -> None:
    child = turn.files(f"One that {name}")
    turn.hands_in("done")
    ends(board, anna, child)
    assert cast.fresh(child).is_ended
    assert look(turn.task) == DONE


def _fail(board: Board, task: Task) -> None:
    work = Turn(board, task)
    tasks.fail(work.chain, task, "no", claim=work.ticket)


def test_one_that_has_a_try_left_or_needs_a_check_has_not_ended(board: Board, anna: Chain, turn: Turn) -> None:
    child = turn.files("Child", max_attempts=2, checker="person")
    turn.hands_in()
    _fail(board, child)
    assert look(turn.task) == KEPT
    work = Turn(board, child)
    work.hands_in()
    assert (cast.fresh(child).status, look(turn.task)) == ("needs_check", KEPT)
    tasks.accept(anna, child)
    assert look(turn.task) == DONE


def test_what_had_ended_before_the_hand_in_holds_nothing(board: Board, turn: Turn) -> None:
    end(board, turn.files("Child"))
    assert turn.hands_in().status == "completed"


def test_a_task_that_filed_nothing_costs_no_more_statements(board: Board, anna: Chain, turn: Turn) -> None:
    # One that filed something is looked at once more, whatever became of it.
    end(board, turn.files("Child"))
    assert len(statements(turn)) == len(statements(Turn(board, cast.filed(board, anna, "Alone")))) + 1


def test_a_roster_entry_may_let_its_tasks_end_with_open_filed_work(board: Board, turn: Turn) -> None:
    RosterEntry.objects.filter(board=board, name="writer").update(filed_work_keeps_open=False)
    child = turn.files("Child")
    assert turn.hands_in().status == "completed"
    end(board, child)
    assert not Debt.objects.exists()


def test_the_default_worker_decides_for_a_task_of_nobody(board: Board, anna: Chain) -> None:
    Board.objects.filter(pk=board.pk).update(default_worker="writer")
    RosterEntry.objects.filter(board=board, name="writer").update(filed_work_keeps_open=False)
    turn = Turn(board, cast.filed(board, anna, "Of nobody", assignee=""))
    turn.files("Child")
    assert turn.hands_in().status == "completed"


def test_an_error_fails_the_attempt_at_once_and_the_filed_tasks_run_on(board: Board, turn: Turn) -> None:
    child = turn.files("Child")
    tasks.fail(turn.chain, turn.task, "broken", claim=turn.ticket)
    assert (look(turn.task), look(child)) == (("errored", ""), ("pending", ""))
    end(board, child)
    assert look(turn.task) == ("errored", "")
    assert not Debt.objects.exists()


def test_what_an_earlier_attempt_filed_does_not_hold_a_later_one(board: Board, anna: Chain) -> None:
    parent = cast.filed(board, anna, "Parent", max_attempts=2)
    first = Turn(board, parent)
    child = first.files("Child")
    tasks.fail(first.chain, parent, "broken", claim=first.ticket)
    second = Turn(board, parent)
    assert second.hands_in().status == "completed"
    end(board, child)
    assert not Debt.objects.exists()


def test_its_checker_and_those_who_record_its_ending_come_last(
    board: Board, anna: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setitem(recording.RECORDERS, board.slug, lambda row, ending: seen.append((row.public_id, ending.name)))
    turn = Turn(board, cast.filed(board, anna, "Parent", checker="person"))
    child = turn.files("Child")
    turn.hands_in({"n": 1})
    assert seen == []
    end(board, child)
    assert (cast.fresh(turn.task).status, seen[-1]) == ("needs_check", (turn.task.public_id, "handed_in"))
    tasks.accept(anna, turn.task)
    assert cast.fresh(turn.task).output == {"n": 1}


def test_its_dependents_start_when_it_ends(board: Board, anna: Chain, turn: Turn) -> None:
    after = cast.filed(board, anna, "After", deps=[turn.task.public_id])
    child = turn.files("Child")
    turn.hands_in()
    assert cast.fresh(after).unmet_deps == 1
    end(board, child)
    assert cast.fresh(after).unmet_deps == 0


def test_a_filed_task_that_keeps_itself_open_keeps_its_filer_open(board: Board, turn: Turn) -> None:
    child = turn.files("Child")
    turn.hands_in("parent")
    below = Turn(board, child)
    grandchild = below.files("Grandchild")
    assert below.hands_in("child").status == "in_progress"
    assert look(turn.task) == KEPT
    end(board, grandchild)
    assert (look(child), look(turn.task)) == (DONE, DONE)


def test_one_that_depends_on_its_filer_does_not_hold_it(board: Board, turn: Turn) -> None:
    after = turn.files("After", deps=[turn.task.public_id])
    turn.files("After that", deps=[after.public_id])
    assert turn.hands_in().status == "completed"
    end(board, after)


def test_one_that_depends_on_its_filer_and_one_that_does_not(board: Board, turn: Turn) -> None:
    turn.files("After", deps=[turn.task.public_id])
    before = turn.files("Before")
    late = turn.files("Late", deps=[before.public_id])
    assert turn.hands_in().status == "in_progress"
    end(board, before)
    assert look(turn.task) == KEPT
    end(board, late)
    assert look(turn.task) == DONE


def test_a_follow_up_of_the_filer_waits_for_it_and_does_not_hold_it(board: Board, turn: Turn) -> None:
    follow_up = turn.files("More of it", assignee="", follow_up_of=turn.task.public_id)
    assert turn.hands_in().status == "completed"
    end(board, follow_up)


def test_a_follow_up_of_a_filed_task_holds_only_whoever_filed_it(board: Board, anna: Chain, turn: Turn) -> None:
    child = turn.files("Child")
    turn.hands_in()
    end(board, child)
    assert look(turn.task) == DONE
    tasks.file_task(anna, board, Filing(goal="More", follow_up_of=child.public_id))
    assert look(turn.task) == DONE


def test_two_that_wait_for_each_other_by_what_they_filed_do_not_wait_for_ever(board: Board, turn: Turn) -> None:
    child = turn.files("Child")
    turn.hands_in()
    below = Turn(board, child)
    below.files("Grandchild", deps=[turn.task.public_id])
    assert below.hands_in().status == "completed"
    assert look(turn.task) == DONE


def test_one_that_came_to_wait_for_its_filer_afterwards_is_found_by_the_sweeper(
    board: Board, anna: Chain, turn: Turn
) -> None:
    child = turn.files("Child", held=True)
    turn.hands_in()
    tasks.update_task(anna, child, deps=[turn.task.public_id])
    assert look(turn.task) == KEPT
    assert tasks.settle_kept() == 1
    assert look(turn.task) == DONE
    assert tasks.settle_kept() == 0


def test_the_sweeper_leaves_alone_what_still_waits(board: Board, turn: Turn) -> None:
    turn.files("Child")
    turn.hands_in()
    assert tasks.settle_kept() == 0
    assert look(turn.task) == KEPT


def test_a_roster_entry_that_says_otherwise_by_now_lets_it_end(board: Board, turn: Turn) -> None:
    turn.files("Child", held=True)
    turn.hands_in()
    RosterEntry.objects.filter(board=board, name="writer").update(filed_work_keeps_open=False)
    assert tasks.settle_kept() == 1
    assert look(turn.task) == DONE


# What else may happen to it while it is kept open.


@pytest.mark.parametrize("cancel_filed", [True, False])
def test_a_cancel_ends_it_and_stops_nobody(board: Board, anna: Chain, turn: Turn, cancel_filed: bool) -> None:
    child = turn.files("Child")
    turn.hands_in({"n": 1})
    tasks.cancel(anna, turn.task, "enough", cancel_filed=cancel_filed)
    row = cast.fresh(turn.task)
    assert (*look(row), row.output) == ("cancelled", "", {"n": 1})
    assert not Debt.objects.exists(), "no worker is at it that would have to be stopped, none to be told"
    assert cast.fresh(child).status == ("cancelled" if cancel_filed else "pending")
    if not cancel_filed:
        end(board, child)
    assert look(turn.task) == ("cancelled", "")
    assert Event.objects.filter(task=turn.task, kind="task.cancelled").count() == 1


def test_a_withdraw_takes_the_filed_tasks_with_it(board: Board, turn: Turn) -> None:
    child = turn.files("Child")
    turn.hands_in()
    tasks.withdraw(actors.service("flows", board.space_id), turn.task)
    assert (look(turn.task), look(child)) == (("cancelled", ""), ("cancelled", ""))
    assert not Debt.objects.exists()


def test_a_retry_of_it_begins_anew(board: Board, anna: Chain, turn: Turn) -> None:
    child = turn.files("Child")
    turn.hands_in("first")
    tasks.cancel(anna, turn.task)
    assert tasks.retry(anna, turn.task).landed
    again = Turn(board, turn.task)
    assert again.hands_in("second").status == "completed"
    end(board, child)
    assert cast.fresh(turn.task).output == "second"


def test_a_filed_task_that_is_retried_meanwhile_holds_it_again(board: Board, anna: Chain, turn: Turn) -> None:
    first, second = turn.files("First"), turn.files("Second")
    turn.hands_in()
    _fail(board, first)
    assert tasks.retry(anna, first).landed
    again = Turn(board, first)
    end(board, second)
    assert look(turn.task) == KEPT
    again.hands_in()
    assert look(turn.task) == DONE


def test_a_retry_of_a_filed_task_after_its_end_changes_nothing_about_it(board: Board, anna: Chain, turn: Turn) -> None:
    child = turn.files("Child")
    turn.hands_in()
    _fail(board, child)
    assert look(turn.task) == DONE
    tasks.retry(anna, child)
    end(board, child)
    assert Event.objects.filter(task=turn.task, kind="task.completed").count() == 1


def test_handing_in_again_keeps_what_was_handed_in_first(board: Board, turn: Turn) -> None:
    child = turn.files("Child")
    turn.hands_in("first")
    revision = cast.fresh(turn.task).revision
    assert turn.hands_in("second").result is Recorded.UNCHANGED
    assert cast.fresh(turn.task).revision == revision
    end(board, child)
    assert cast.fresh(turn.task).output == "first"
    assert turn.hands_in("third").reason == "terminal"


@pytest.mark.parametrize(
    "says",
    [
        lambda turn: tasks.report_progress(turn.chain, turn.task, claim=turn.ticket, output="later"),
        lambda turn: tasks.fail(turn.chain, turn.task, "no", claim=turn.ticket),
        lambda turn: tasks.fail(turn.chain, turn.task, "no", claim=turn.ticket, for_good=True),
        lambda turn: tasks.hand_back(turn.chain, turn.task, claim=turn.ticket),
        lambda turn: tasks.end_for_good(turn.chain, turn.task, "no", claim=turn.ticket, ending="cancelled"),
        lambda turn: people.suspend(turn.ticket),
    ],
    ids=["report", "fail", "for good", "hand back", "cancel", "suspend"],
)
def test_nothing_that_its_worker_says_later_changes_it(
    board: Board, turn: Turn, says: Callable[[Turn], tasks.TaskWriteOutcome]
) -> None:
    child = turn.files("Child")
    turn.hands_in("handed in")
    revision = cast.fresh(turn.task).revision
    outcome = says(turn)
    assert (outcome.landed, outcome.reason, cast.fresh(turn.task).revision) == (False, "disallowed", revision)
    end(board, child)
    assert (look(turn.task), cast.fresh(turn.task).output) == (DONE, "handed in")


def test_nothing_is_asked_any_more_once_the_turn_is_over(turn: Turn) -> None:
    turn.files("Child")
    turn.hands_in()
    with pytest.raises(tasks.LostClaim):
        people.open_hold(turn.chain, claim=turn.ticket, kind="question", prompt="Which?")
    assert look(turn.task) == KEPT


def test_it_takes_no_message_any_more(anna: Chain, turn: Turn) -> None:
    tasks.steer(anna, turn.task, "Be short.")
    turn.files("Child")
    turn.hands_in()
    with pytest.raises(errors.MessageNotSupported):
        tasks.update_task(anna, turn.task, message="And quick.")
    assert len(cast.fresh(turn.task).steers) == 1


def test_one_that_waits_on_a_person_is_suspended_first_and_kept_open_later(
    board: Board, anna: Chain, turn: Turn
) -> None:
    child = turn.files("Child")
    hold = people.open_hold(turn.chain, claim=turn.ticket, kind="question", prompt="Which?")
    assert not tasks.complete(turn.chain, turn.task, "early", claim=turn.ticket, if_allowed=True).landed
    people.suspend(turn.ticket)
    assert look(turn.task) == ("in_progress", "suspended")
    people.answer_hold(anna, hold.pk, text="this one")
    resumed = cast.claimed(board)
    assert resumed.resumed
    assert tasks.complete(turn.chain, turn.task, "late", claim=resumed.ticket).status == "in_progress"
    assert look(turn.task) == KEPT
    end(board, child)
    assert (look(turn.task), cast.fresh(turn.task).output) == (DONE, "late")


def test_an_answered_turn_that_hands_in_under_its_old_grant_is_not_taken_up_again(
    board: Board, anna: Chain, turn: Turn
) -> None:
    child = turn.files("Child")
    hold = people.open_hold(turn.chain, claim=turn.ticket, kind="question", prompt="Which?")
    people.suspend(turn.ticket)
    people.answer_hold(anna, hold.pk, text="this one")
    turn.hands_in("done")
    assert (look(turn.task), cast.fresh(turn.task).resume_ready_at) == (KEPT, None)
    assert not tasks.claim([tasks.Wanted(board.pk, {"writer": 5})], limit=5, claimed_by=cast.HERE)
    end(board, child)
    assert look(turn.task) == DONE


def test_it_holds_no_slot_of_its_roster_entry(board: Board, anna: Chain, turn: Turn) -> None:
    RosterEntry.objects.filter(board=board, name="writer").update(max_running=1)
    turn.files("Child")
    turn.hands_in()
    other = cast.filed(board, anna, "Other")
    assert cast.claimed(board).task.pk == other.pk


def test_neither_a_claim_nor_a_reclaim_nor_the_sweeper_takes_it(board: Board, olga: Chain, turn: Turn) -> None:
    turn.files("Child")
    turn.hands_in()
    assert not tasks.claim([tasks.Wanted(board.pk, {"writer": 5})], limit=5, claimed_by=cast.HERE)
    assert not tasks.reclaim(olga, turn.task).landed
    assert tasks.abandon_spent() == 0
    assert look(turn.task) == KEPT


def test_many_that_end_at_once_leave_one_look_for_each_filer(board: Board, turn: Turn) -> None:
    children = [turn.files(f"Child {n}") for n in range(5)]
    turn.hands_in()
    works = [Turn(board, child) for child in children]
    owed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paying, "pay_in_line", owed.append)
        tasks.settle_many(
            [
                tasks.Settlement(states.Verb.COMPLETE, work.chain, work.task.pk, tasks.Options(claim=work.ticket))
                for work in works
            ]
        )
    assert len(owed) == Debt.objects.filter(kind="settle_parent", task=turn.task).count() == 1
    paying.pay_due()
    assert look(turn.task) == DONE


def test_a_filer_and_the_last_it_filed_that_hand_in_together_both_end(board: Board, turn: Turn) -> None:
    child = Turn(board, turn.files("Child"))
    outcomes = tasks.settle_many(
        [
            tasks.Settlement(states.Verb.COMPLETE, work.chain, work.task.pk, tasks.Options(claim=work.ticket))
            for work in (turn, child)
        ]
    )
    assert [outcome.status for outcome in outcomes] == ["in_progress", "completed"]
    assert look(turn.task) == DONE


def test_the_sweeper_looks_as_it_tidies_up_and_one_that_cannot_be_looked_at_stops_no_other(
    board: Board, anna: Chain, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn.files("Child", held=True)
    turn.hands_in()
    other = Turn(board, cast.filed(board, anna, "Other"))
    other.files("Child", held=True)
    other.hands_in()
    RosterEntry.objects.filter(board=board).update(filed_work_keeps_open=False)
    settle = settling_parents.settle

    def breaks_once(settlement: tasks.Settlement) -> tasks.TaskWriteOutcome:
        if settlement.task_key == turn.task.pk:
            raise RuntimeError("the line was cut")
        return settle(settlement)

    with monkeypatch.context() as patch:
        patch.setattr(settling_parents, "settle", breaks_once)
        assert "kept tasks looked at" in sweeping.sweep_once().failed
    assert (look(turn.task), look(other.task)) == (KEPT, DONE)
    assert sweeping.sweep_once(tidies=False).done["kept tasks looked at"] == 0
    assert sweeping.sweep_once().done["kept tasks looked at"] == 1
    assert look(turn.task) == DONE


def test_a_payment_twice_changes_nothing(board: Board, turn: Turn) -> None:
    child = turn.files("Child")
    turn.hands_in()
    end(board, child)
    revision = cast.fresh(turn.task).revision
    debt = Debt(kind="settle_parent", task=turn.task, data={"child": child.pk})
    assert settling_parents.settle_parent(debt)
    assert cast.fresh(turn.task).revision == revision


# Notices: an ending counts once it has reached the session.


@pytest.fixture
def ear() -> Iterator[list[str]]:
    """The ids of the tasks whose endings were told; who tells is registered by `hears`."""
    before = dict(notices.HANDLERS)
    notices.HANDLERS.clear()
    yield []
    notices.HANDLERS.clear()
    notices.HANDLERS.update(before)


def hears(heard: list[str], answer: Callable[[], Any]) -> None:
    def told(notice: tasks.Notice) -> Any:
        said = answer()
        heard.append(notice.task_id)
        return said

    notices.HANDLERS.clear()
    tasks.on_task_settled()(told)


def down() -> Any:
    raise ConnectionError("the session is away")


def gone() -> Any:
    raise Undeliverable("the session is gone")


def due() -> None:
    Debt.objects.update(due_at=Now())
    paying.pay_due()


def test_it_ends_when_the_last_notice_has_reached_the_session(board: Board, turn: Turn, ear: list[str]) -> None:
    hears(ear, down)
    child = turn.files("Child")
    turn.hands_in()
    end(board, child)
    assert look(turn.task) == KEPT
    hears(ear, lambda: None)
    due()
    assert (ear.count(child.public_id), look(turn.task)) == (1, DONE)


def test_what_ended_in_its_turn_is_told_when_the_turn_is_over_and_then_it_ends(
    board: Board, turn: Turn, ear: list[str]
) -> None:
    hears(ear, lambda: None)
    child = turn.files("Child")
    end(board, child)
    assert ear == []
    turn.hands_in("result")
    assert (ear[0], look(turn.task)) == (child.public_id, DONE)


def test_a_notice_that_can_never_be_delivered_holds_nothing(board: Board, turn: Turn, ear: list[str]) -> None:
    hears(ear, gone)
    child = turn.files("Child")
    turn.hands_in()
    end(board, child)
    assert look(turn.task) == DONE
    assert Debt.objects.filter(kind="notice", task=child, state="undeliverable").exists()


def test_a_lost_notice_that_an_operator_has_sent_again_holds_nothing_and_loses_no_look(
    board: Board, olga: Chain, turn: Turn, ear: list[str]
) -> None:
    hears(ear, gone)
    first, second = turn.files("First"), turn.files("Second")
    turn.hands_in()
    end(board, first)
    lost = Debt.objects.get(kind="notice", task=first)
    hears(ear, down)
    operating.pay_again(olga, lost.pk)
    end(board, second)
    assert look(turn.task) == KEPT, "the second one's has not reached it"
    hears(ear, lambda: None)
    due()
    assert look(turn.task) == DONE


def test_a_notice_that_its_own_turn_took_and_cleared_has_reached_the_session(
    board: Board, turn: Turn, ear: list[str]
) -> None:
    hears(ear, lambda: None)
    child = turn.files("Child")
    end(board, child)
    with working_under(turn.ticket):
        taken = tasks.take_owed_notice(child)
        assert taken
        tasks.clear_notice(taken)
    assert turn.hands_in().status == "completed"
    assert not Debt.objects.exists()


def test_what_an_operator_drops_holds_nothing(board: Board, olga: Chain, turn: Turn, ear: list[str]) -> None:
    hears(ear, down)
    child = turn.files("Child")
    turn.hands_in()
    end(board, child)
    Debt.objects.filter(kind="notice").update(state="undeliverable")
    operating.drop(olga, Debt.objects.get(kind="notice").pk)
    assert look(turn.task) == DONE


def test_an_undeliverable_notice_lets_go_in_the_same_transaction(
    board: Board, turn: Turn, ear: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed right after it loses nothing: the look is due."""
    hears(ear, down)
    child = turn.files("Child")
    turn.hands_in()
    end(board, child)
    monkeypatch.setattr(paying, "pay_after_commit", lambda ids: None)
    monkeypatch.setattr(paying, "_tell_given_up", lambda debt: None)
    paying.note_failure(Debt.objects.get(kind="notice").pk, Undeliverable("gone"))
    assert look(turn.task) == KEPT
    paying.pay_due()
    assert look(turn.task) == DONE
