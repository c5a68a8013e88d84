"""A worker says that its flow's step is complete, from Python or a program; the step moves on with its turn's end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from boards import flows, tasks
from boards.actors import Chain
from boards.debts import paying
from boards.models import Board, FlowRun, Role, StepChange, Task
from boards.states import Status
from boards.workers.adapters.output import step_signal
from boards.workers.protocol import worker
from tests import cast
from tests.workers.drains import InProcess, program_entry, transcript

pytestmark = pytest.mark.django_db(transaction=True)

GATED = """
key: gated
name: Gated
steps:
  - {key: write, name: Write, kind: agent, assignee: NAME, prompt: Go., auto_advance_requires_signal: true}
  - {key: look, name: Look}
"""


def started(board: Board, anna: Chain, name: str = "writer") -> tuple[FlowRun, Task]:
    olga = cast.chain_of(cast.make_member(board.space, "olga", Role.OPERATOR))
    made = flows.save_version(olga, board.space, board, flows.validate(GATED.replace("NAME", name)))
    run = flows.start(anna, made, {})
    return run, Task.objects.get()


def place(run: FlowRun) -> str:
    while paying.pay_due():
        pass
    row = FlowRun.objects.select_related("current_visit").get(pk=run.pk)
    return row.current_visit.step_key if row.current_visit else ""


def signal_of(run: FlowRun) -> dict[str, object]:
    change = StepChange.objects.get(run=run, from_step="write")
    return {name: change.signal[name] for name in ("by", "summary", "handoff", "blockers") if name in change.signal}


def test_a_python_worker_says_so_and_the_first_word_counts(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    said: list[bool] = []

    @worker("writer")
    async def write(task):
        said.append(await task.complete_step("All written", handoff={"pages": 3}, blockers=["none"]))
        said.append(await task.complete_step("Twice"))
        return {}

    run, task = started(board, anna)
    drain().until_status(task, Status.COMPLETED)
    assert said == [True, False]
    assert place(run) == "look"
    assert signal_of(run) == {
        "by": "writer",
        "summary": "All written",
        "handoff": {"pages": 3},
        "blockers": ["none"],
    }
    assert "Said that the step is complete: All written" in transcript(task)


def test_a_program_says_so_in_a_line_that_is_not_its_result(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    code = (
        "import json; print(json.dumps({'pages': 3})); "
        "print(json.dumps({'complete_step': {'summary': 'All written', 'handoff': 7}}))"
    )
    program_entry(board, code)
    run, task = started(board, anna, "shell")
    row = drain().until_status(task, Status.COMPLETED)
    assert row.output == {"pages": 3}
    assert place(run) == "look"
    assert signal_of(run) == {"by": "shell", "summary": "All written", "handoff": 7}


def test_a_message_after_it_takes_it_back_and_a_later_word_counts(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    async def write(task):
        await task.complete_step("Too early")
        tasks_said.append(await task._in_thread(lambda: tasks.steer(anna, Task.objects.get().pk, "Add a title")))
        if says_again:
            assert await task.complete_step("With a title")
        return {}

    tasks_said: list[object] = []
    says_again = False
    run, task = started(board, anna)
    drain().until_status(task, Status.COMPLETED)
    assert len(tasks_said) == 1
    assert place(run) == "write", "nobody said it after the message"
    says_again = True
    flows.move(anna, FlowRun.objects.get(), "look")
    flows.move(anna, FlowRun.objects.get(), "write")
    again = Task.objects.get(status=Status.PENDING)
    Task.objects.exclude(pk=again.pk).delete()
    drain().until_status(again, Status.COMPLETED)
    assert place(run) == "look"


def test_a_turn_that_waits_for_no_step_says_it_to_nobody(
    board: Board, anna: Chain, drain: Callable[..., InProcess]
) -> None:
    @worker("writer")
    def write(task):
        return {"taken": task.complete_step("Done")}

    task = cast.filed(board, anna)
    assert drain().until_status(task, Status.COMPLETED).output == {"taken": False}


def test_a_worker_that_lost_its_claim_says_nothing(board: Board, anna: Chain) -> None:
    run, task = started(board, anna)
    lost = cast.claimed(board)
    Task.objects.filter(pk=task.pk).update(grant_no=9)
    with pytest.raises(tasks.LostClaim):
        flows.complete_step(cast.agent_chain(board), lost.ticket, "All written")
    assert FlowRun.objects.get(pk=run.pk).signal is None


def test_what_cannot_be_stored_as_json_is_refused(board: Board, anna: Chain, drain: Callable[..., InProcess]) -> None:
    @worker("writer")
    def write(task):
        task.complete_step("Done", handoff={1, 2})

    task = cast.filed(board, anna)
    assert "handoff" in drain().until_status(task, Status.ERRORED).error


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"complete_step": {"summary": "x", "handoff": [1]}}', {"summary": "x", "handoff": [1]}),
        ('  {"complete_step": "x"}  ', {"summary": "x"}),
        ('{"complete_step": {"handoff": 1}}', None),
        ('{"complete_step": 7}', None),
        ('{"complete_step": "x", "more": 1}', None),
        ('{"result": {"complete_step": "x"}}', None),
        ('["complete_step"]', None),
        ('{"complete_step": ', None),
    ],
)
def test_which_line_of_a_program_is_such_a_word(line: str, said: object) -> None:
    assert step_signal(line.encode(), True) == said
    assert step_signal(line.encode(), False) is None, "a line that was cut says nothing"
