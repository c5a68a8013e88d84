"""NUL bytes and lone surrogates in everything that callers and workers give (spec: 01 section 1, fault 23)."""

from __future__ import annotations

import pytest

from boards import errors, tasks
from boards.debts import paying
from boards.models import Attempt, Debt, TranscriptItem
from boards.tasks import HoldFiling, Line
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)

BAD = "x\x00y\ud800z"
GOOD = "x\ufffdy\ufffdz"


def test_everything_that_is_filed(board, anna):
    options = [{"value": BAD, "label": BAD, "description": BAD}, {"value": "b", "label": "B"}]
    task = tasks.file_task(
        anna,
        board,
        goal=BAD,
        title=BAD,
        context=BAD,
        input={BAD: BAD},
        labels=[BAD],
        metadata={BAD: [BAD]},
        holds=[HoldFiling("question", BAD, title=BAD, context=BAD, options=options, default=BAD)],
        idempotency_key=BAD,
    )
    row, hold = cast.fresh(task), task.holds.get()
    assert (row.goal, row.title, row.context, row.labels) == (GOOD, GOOD, GOOD, [GOOD])
    assert (row.input, row.metadata) == ({GOOD: GOOD}, {GOOD: [GOOD]})
    assert (hold.prompt, hold.title, hold.context, hold.default) == (GOOD,) * 4
    assert hold.options[0] == {"value": GOOD, "label": GOOD, "description": GOOD}


def test_everything_that_is_edited(board, anna):
    task = cast.filed(board, anna)
    assert tasks.update_task(anna, task, goal=BAD, title=BAD, context=BAD, input={BAD: BAD}, labels=[BAD]).landed
    assert tasks.update_task(anna, task, metadata={BAD: BAD}).landed
    assert tasks.patch_metadata(anna, task, {BAD + "2": BAD}).landed
    assert tasks.add_label(anna, task, BAD + "2").landed
    assert tasks.remove_label(anna, task, BAD).landed
    assert tasks.steer(anna, task, BAD).landed
    assert cast.fresh(task).steers[0]["text"] == GOOD


def test_everything_that_names_something(board, anna):
    task = tasks.file_task(anna, board, goal="x", held=True)
    for name in (BAD, "\x00", "\ud800"):
        with pytest.raises(errors.TaskNotFound):
            tasks.get_task(anna, board, name)
        with pytest.raises(errors.UnknownAssignee):
            tasks.release(anna, task, assignee=name)
        with pytest.raises(errors.UnknownAssignee):
            tasks.set_assignee(anna, task, name)
        assert tasks.list_tasks(anna, board, label=name) == tasks.list_tasks(anna, board, assignee=name) == []
        assert tasks.list_tasks(anna, board, status=name) == []
    with pytest.raises(errors.InvalidInput, match="assignee"):
        tasks.set_assignee(anna, task, None)


def test_everything_that_a_worker_reports(board, anna, worker):
    task = cast.filed(board, anna)
    ticket = cast.claimed(board).ticket
    assert tasks.report_progress(worker, task, claim=ticket, output={BAD: BAD}, note=BAD).landed
    assert tasks.record_step(ticket, "one", {BAD: BAD}) == {GOOD: GOOD}
    tasks.add_transcript_lines([Line(task.pk, 1, BAD, who=BAD, data={BAD: BAD})])
    line = TranscriptItem.objects.get()
    assert (line.text, line.who, line.data) == (GOOD, GOOD, {GOOD: GOOD})
    assert tasks.complete(worker, task, {BAD: BAD}, claim=ticket).landed
    assert Attempt.objects.get().output == cast.fresh(task).output == {GOOD: GOOD}


def test_the_data_of_a_line_are_cut_like_its_text(board, anna):
    task = cast.filed(board, anna)
    tasks.add_transcript(task.pk, 1, "output", "x", data={"a": "x" * 5_000_000})
    assert TranscriptItem.objects.get().data["cut"] is True


def test_metadata_cannot_grow_past_its_limit_by_patches(board, anna):
    task = cast.filed(board, anna)
    tasks.patch_metadata(anna, task, {"a": "x" * 600_000})
    for grow in (tasks.patch_metadata, lambda chain, row, patch: tasks.update_task(chain, row, metadata=patch)):
        with pytest.raises(errors.InvalidInput, match="metadata"):
            grow(anna, task, {"b": "x" * 600_000})


def test_why_a_debt_could_not_be_paid(board, anna, monkeypatch):
    def fails(debt):
        raise RuntimeError(BAD)

    monkeypatch.setitem(paying.PAYERS, "cascade", fails)
    first = cast.filed(board, anna, "First")
    cast.filed(board, anna, "Second", deps=[first.public_id])
    tasks.cancel(anna, first)
    assert Debt.objects.get().last_error == f"RuntimeError: {GOOD}"
