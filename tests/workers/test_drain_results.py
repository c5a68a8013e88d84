"""What workers hand in: results, failures, hostile output."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from boards.actors import Chain
from boards.models import AgentCheck, Board, RosterEntry, TranscriptItem
from boards.states import Status
from boards.workers.protocol import EndsForGood, worker
from tests import cast
from tests.workers.drains import InProcess, program_entry, transcript

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_failure_says_why_and_keeps_the_trace(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    @worker("writer")
    async def write(task):
        raise ValueError("the input has no name")

    task = cast.filed(board, anna)
    row = drain().until_status(task, Status.ERRORED)
    assert row.error == "ValueError: the input has no name"
    trace = TranscriptItem.objects.get(task=task.pk, kind="error")
    assert "Traceback" in trace.text


def test_a_program_that_is_not_there_fails_at_once_in_a_sentence(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    RosterEntry.objects.create(board=board, name="shell", kind="command", config={"argv": ["no-such-program"]})
    task = cast.filed(board, anna, assignee="shell", max_attempts=2)
    row = drain().until_status(task, Status.ERRORED)
    assert "“no-such-program” could not be started" in row.error
    assert (row.attempts, row.failures, row.abandonments) == (2, 2, 0)  # the budget is applied


def test_a_worker_may_end_its_task_for_good(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    @worker("writer")
    async def write(task):
        raise EndsForGood(task.id, "nothing to write", ending="cancelled")

    @worker("reader")
    def read(task):
        raise EndsForGood("another", "not mine")

    cancelled = cast.filed(board, anna, max_attempts=5)
    failed = cast.filed(board, anna, assignee="reader", max_attempts=2)
    one = drain()
    row = one.until_status(cancelled, Status.CANCELLED)
    assert (row.error, row.attempts, row.cancelled_via) == ("nothing to write", 1, "worker")
    row = one.until_status(failed, Status.ERRORED)
    assert "not mine" in row.error
    assert (row.attempts, row.failures) == (2, 2)  # one that names another row takes the ordinary way


@pytest.mark.parametrize(
    ("poison", "words"),
    [
        ("float('nan')", "output is nan"),
        ("{'when': object()}", "output.when is a object"),
        ("{1: 2}", "output has the key 1"),
        ("[(1, 2)]", "output[0] is a tuple"),
    ],
)
def test_a_result_that_is_no_json_fails_with_its_path(
    poison: str, words: str, board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    async def write(task):
        return eval(poison)

    task = cast.filed(board, anna)
    assert words in drain().until_status(task, Status.ERRORED).error


def test_hostile_text_is_cleaned_and_cut_and_the_task_goes_on(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    def write(task):
        task.log("nul \x00 surrogate \ud800 \x1b[31mred")
        task.log("x" * 5_000_000)
        task.report_progress({"a": "\x00"}, note="\x00 note")
        return {"text": "\x00\ud800" + "y" * 2_000_000}

    task = cast.filed(board, anna)
    row = drain().until_status(task, Status.COMPLETED)
    assert row.output["cut"] is True
    lines = transcript(task)
    assert lines[1] == "nul \ufffd surrogate \ufffd \x1b[31mred"
    assert lines[2].endswith("… [cut at 64 KiB]")


def test_an_output_that_does_not_match_fails_with_its_path(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    Board.objects.filter(pk=board.pk).update(output_schema=schema)

    @worker("writer")
    async def write(task):
        return {"n": task.input["n"]}

    program_entry(board, "pass")
    right, wrong = cast.filed(board, anna, input={"n": 1}), cast.filed(board, anna, "wrong", input={"n": "one"})
    nothing = cast.filed(board, anna, "nothing", assignee="shell")
    one = drain()
    one.until_status(right, Status.COMPLETED)
    assert "output/n" in one.until_status(wrong, Status.ERRORED).error
    assert "ended without result" in one.until_status(nothing, Status.ERRORED).error


def test_the_latest_checkpoint_is_the_output_of_a_worker_that_returns_nothing(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    async def write(task):
        await task.report_progress({"n": 1})
        await task.report_progress({"n": 2})

    task = cast.filed(board, anna)
    assert drain().until_status(task, Status.COMPLETED).output == {"n": 2}


def test_a_schema_that_is_no_schema_fails_the_task_and_not_the_drain(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    async def write(task):
        return 1

    task = cast.filed(board, anna)
    Board.objects.filter(pk=board.pk).update(output_schema={"type": 5})
    one = drain()
    assert "cannot be judged by the board's schema" in one.until_status(task, Status.ERRORED).error
    Board.objects.filter(pk=board.pk).update(output_schema=None)
    one.until_status(cast.filed(board, anna, "next"), Status.COMPLETED)


def test_an_agents_verdict_is_none_of_the_results_that_the_board_speaks_of(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    async def write(task):
        return {"n": 1}

    @worker("reader")
    async def check(task):
        return {"verdict": "accept"}

    Board.objects.filter(pk=board.pk).update(output_schema={"required": ["n"]})
    task = cast.filed(board, anna, assignee="writer", checker="reader")
    drain().until_status(task, Status.COMPLETED)
    assert AgentCheck.objects.get(task=task).verdict == "accepted"
