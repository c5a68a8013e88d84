"""What may be filed, under which key, and what a filing's questions have to be (spec: 01 section 3, 04 section 1)."""

from __future__ import annotations

import dataclasses
from datetime import datetime

import pytest

from boards import errors, people, tasks
from boards.actors import agent, service
from boards.models import Event, IdempotencyKey, Session, Task
from boards.tasks import Filing, HoldFiling, filing
from tests import cast
from tests.flows.cast import Stage, step_task

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_batch_may_be_one_long_chain_in_any_order():
    length = 5_000
    chain = {f"s{n}": Filing(goal="x", id=f"s{n}", deps=[f"s{n + 1}"]) for n in range(length)}
    filing._refuse_loops(chain | {f"s{length}": Filing(goal="x", id=f"s{length}")})
    with pytest.raises(errors.DependencyLoop, match=r"s0 → s1 → .* → s0"):
        filing._refuse_loops(chain | {f"s{length}": Filing(goal="x", id=f"s{length}", deps=["s0"])})


def test_a_loop_of_a_batch_is_told_by_its_path(board, anna):
    loop = [
        Filing(goal="1", id="a", deps=["b", "c"]),
        Filing(goal="2", id="b"),
        Filing(goal="3", id="c", deps=["b", "d"]),
        Filing(goal="4", id="d", deps=["c"]),
    ]
    with pytest.raises(errors.DependencyLoop, match="c → d → c"):
        tasks.file_tasks(anna, board, loop)
    with pytest.raises(errors.DependencyLoop, match="a → a"):
        tasks.file_task(anna, board, goal="x", id="a", deps=["a"])


@pytest.mark.parametrize("deps", ["t1", None, 7, [["t1"]], [7]])
def test_dependencies_are_a_list_of_ids(board, anna, deps):
    task = tasks.file_task(anna, board, goal="First", id="t1")
    with pytest.raises(errors.InvalidInput):
        tasks.file_task(anna, board, goal="x", deps=deps)
    with pytest.raises(errors.InvalidInput):
        tasks.update_task(anna, task, deps=deps)


NOBODYS = sorted(
    {field.name for field in Task._meta.concrete_fields}
    - {field.name for field in dataclasses.fields(Filing)}
    # What the caller names beside the filing: where it comes from.
    - {"board", "filed_by_task", "visit"}
    | {"pk", "spend", "checkpoint", "current", "nonsense"}
)


@pytest.mark.parametrize("name", NOBODYS)
def test_nobody_files_what_the_engine_writes(board, anna, name):
    with pytest.raises(errors.InvalidInput, match=name):
        tasks.file_task(anna, board, goal="x", **{name: 1})
    with pytest.raises(errors.InvalidInput, match=name):
        tasks.update_task(anna, cast.filed(board, anna), **{name: 1})


def test_a_key_is_its_callers_own_in_each_space(board):
    elsewhere = cast.make_board(cast.make_space("elsewhere"))
    first = tasks.file_task(agent("writer", board.space_id), board, goal="Once", idempotency_key="k")
    other = tasks.file_task(agent("writer", elsewhere.space_id), elsewhere, goal="Other", idempotency_key="k")
    assert (first.board_id, other.board_id) == (board.pk, elsewhere.pk)


def test_a_key_used_on_another_board_is_refused(board, space, anna):
    tasks.file_task(anna, board, goal="Once", idempotency_key="k")
    with pytest.raises(errors.KeyReused):
        tasks.file_task(anna, cast.make_board(space, "other"), goal="Once", idempotency_key="k")


def test_a_repeat_answers_the_first_result_whatever_changed_since(board, anna):
    first = tasks.file_task(anna, board, goal="Once", assignee="writer", idempotency_key="k")
    board.roster.all().delete()
    board.checker, board.max_total_tasks = "person", 1
    board.save()
    again = tasks.file_task(anna, board, goal="Once", assignee="writer", idempotency_key="k")
    assert (again.pk, Event.objects.count()) == (first.pk, 1)


def test_a_refused_filing_leaves_its_key_free(board, anna):
    with pytest.raises(errors.UnknownAssignee):
        tasks.file_task(anna, board, goal="x", assignee="nobody", idempotency_key="k")
    with pytest.raises(errors.DependencyNotOnBoard):
        tasks.file_task(anna, board, goal="x", deps=["t9"], idempotency_key="k")
    assert not IdempotencyKey.objects.exists()
    assert tasks.file_task(anna, board, goal="Other", idempotency_key="k").filed_by == "Anna"


def test_keys_that_differ_late_are_different_keys(board, anna):
    with pytest.raises(errors.InvalidInput, match="idempotency_key"):
        tasks.file_task(anna, board, goal="x", idempotency_key="k" * 201)


def test_a_repeat_whose_task_is_gone_says_so(board, anna):
    tasks.file_task(anna, board, goal="Once", idempotency_key="k").delete()
    with pytest.raises(errors.TaskNotFound):
        tasks.file_task(anna, board, goal="Once", idempotency_key="k")


def test_two_sessions_of_a_service_do_not_stop_its_filings(board):
    for _ in range(2):  # what two first filings at the same moment leave
        Session.objects.create(space=board.space, kind=Session.Kind.SERVICE, label="demo")
    assert tasks.file_task(service("demo", board.space_id), board, goal="x").filer.label == "demo"


def test_a_refused_filing_uses_up_no_cap(board, anna):
    board.max_total_tasks = 1
    board.save()
    with pytest.raises(errors.DependencyNotOnBoard):
        tasks.file_task(anna, board, goal="x", deps=["t9"])
    with pytest.raises(errors.UnknownAssignee):
        tasks.file_task(anna, board, goal="x", assignee="nobody")
    tasks.file_task(anna, board, goal="x")
    with pytest.raises(errors.TotalTaskCapExceeded):
        tasks.file_task(anna, board, goal="y")


def test_the_enqueued_cap_frees_as_rows_leave_pending(board, anna):
    board.max_enqueued_tasks = 1
    board.save()
    cast.filed(board, anna, "One")
    tasks.file_task(anna, board, goal="Held", held=True)
    with pytest.raises(errors.EnqueuedTaskCapExceeded):
        cast.filed(board, anna, "Two")
    cast.claimed(board)
    cast.filed(board, anna, "Two")


BAD_HOLDS = {
    "a default that is no choice": HoldFiling("confirm", "Sure?", default="banana"),
    "a default that no option has": HoldFiling(
        "question", "Which?", options=[{"value": "a", "label": "A"}, {"value": "b", "label": "B"}], default="c"
    ),
    "options without values": HoldFiling("question", "Which?", options=[{"label": "A"}, {"label": "B"}]),
    "options that are words": HoldFiling("question", "Which?", options=["a", "b"]),  # type: ignore[list-item]
    "two options of one value": HoldFiling("question", "Which?", options=[{"value": "a"}, {"value": "a"}]),
    "a value that is a number": HoldFiling("question", "Which?", options=[{"value": 1}, {"value": 2}]),  # type: ignore[dict-item]
    "options of a confirm": HoldFiling("confirm", "Sure?", options=[{"value": "a"}, {"value": "b"}]),
    "a due time without offset": HoldFiling("confirm", "Sure?", due_at=datetime(2030, 1, 1)),
    "an approval": HoldFiling("approval", "Sure?"),
    "nothing asked": HoldFiling("confirm", " \u200b"),
}


@pytest.mark.parametrize("hold", BAD_HOLDS.values(), ids=BAD_HOLDS)
def test_a_question_that_nobody_could_answer_is_refused(board, anna, hold):
    with pytest.raises(errors.InvalidInput):
        tasks.file_task(anna, board, goal="x", holds=[hold])
    assert not Task.objects.exists()


def test_a_filed_question_keeps_its_due_time_and_default(board, anna):
    options = [{"value": "a", "label": "A"}, {"value": "b", "label": "B"}]
    task = cast.filed(board, anna, holds=[HoldFiling("question", "Which?", options=options, default="b")])
    hold = task.holds.get()
    hold.due_at = hold.asked_at
    hold.save()
    assert people.expire_due() == 1
    hold.refresh_from_db()
    assert (hold.state, hold.answer) == ("expired", {"choice": "b", "text": ""})
    assert cast.claimed(board).task.pk == task.pk


def test_a_flows_step_is_another_target_than_a_task_of_its_own():
    stage = Stage()
    run = stage.started()
    step = step_task(run)
    assert tasks.file_task(stage.anna, stage.board, goal=step.goal, assignee=step.assignee).pk != step.pk
    with pytest.raises(errors.AlreadyOpen):
        tasks.file_task(stage.anna, stage.board, goal=step.goal.upper(), assignee=step.assignee)


def test_what_python_takes_for_the_same_is_stored_as_it_was_given(board, anna):
    inputs = [{"n": 1}, {"n": 1.0}, {"n": True}, {}]
    filed = tasks.file_tasks(anna, board, [Filing(goal=f"Task {n}", input=given) for n, given in enumerate(inputs)])
    stored = [cast.fresh(task).input for task in filed]
    assert [repr(one) for one in stored] == ["{'n': 1}", "{'n': 1.0}", "{'n': True}", "{}"]


# What a batch holds twice, and what a filing never does.


@pytest.mark.parametrize("option", ["wait", "deadline_ms"])
def test_a_filing_never_waits(board, anna, option):
    with pytest.raises(errors.CreateTaskDoesNotWait) as refused:
        tasks.file_task(anna, board, goal="Go", **{option: 30_000})
    assert (refused.value.code, refused.value.facts["field"]) == ("create_task_does_not_wait", option)
    assert not Task.objects.exists()


def test_the_same_goal_twice_in_one_batch_is_refused_and_names_the_other(board, anna):
    filings = [
        Filing(goal="Read it", title="Reading", assignee="writer"),
        Filing(goal="Write it", assignee="writer"),
        Filing(goal="  READ   it ", assignee="writer"),
    ]
    with pytest.raises(errors.AlreadyOpen) as refused:
        tasks.file_tasks(anna, board, filings)
    assert str(refused.value) == "“Reading” stands in this batch already with the same goal, as task 1."
    assert refused.value.facts == {"index": 2}
    assert not Task.objects.exists()
    assert tasks.file_task(anna, board, goal="Another").public_id == "t1", "no id is used up"
    assert len(tasks.file_tasks(anna, board, filings, allow_same=True)) == 3


def test_for_two_assignees_or_as_follow_ups_one_goal_may_stand_twice_in_a_batch(board, anna):
    made = tasks.file_tasks(anna, board, [Filing(goal="Read it", assignee=name) for name in ("writer", "reader", "")])
    assert len(made) == 3
    root = cast.claimed(board).task
    tasks.file_tasks(anna, board, [Filing(goal="More", follow_up_of=root.public_id) for _ in range(2)])


def test_what_is_open_on_the_board_is_named_before_what_stands_in_the_batch(board, anna):
    first = tasks.file_task(anna, board, goal="Read it")
    with pytest.raises(errors.AlreadyOpen) as refused:
        tasks.file_tasks(anna, board, [Filing(goal="Read it"), Filing(goal="Read it")])
    assert refused.value.facts == {"task_id": first.public_id, "index": 0}


def test_a_filing_under_a_claim_that_moved_on_or_was_handed_in_writes_nothing(board, anna, lapse):
    parent = cast.filed(board, anna, "Parent")
    old = cast.claimed(board).ticket
    worker = cast.agent_chain(board)

    def files(claim, goal):
        return tasks.file_task(worker, board, Filing(goal, assignee="reader"), filed_by_task=parent, claim=claim)

    lapse(parent)
    with pytest.raises(tasks.LostClaim):
        files(old, "Its lease ran out")
    fresh = cast.claimed(board).ticket
    with pytest.raises(tasks.LostClaim):
        files(old, "Another attempt works it")
    files(fresh, "Needed")
    tasks.complete(worker, parent, "done", claim=fresh)
    with pytest.raises(tasks.LostClaim):
        files(fresh, "One thing more")
    assert list(Task.objects.filter(filed_by_task=parent).values_list("goal", flat=True)) == ["Needed"]
