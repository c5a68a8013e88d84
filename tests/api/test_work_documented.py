"""docs/outside-workers.md: its calls are run by curl, and its worker as a process, against a running server."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from boards import people
from boards.api.operations import OPERATIONS
from boards.models import Event, Hold, Task
from tests import cast
from tests.api.cast import Desk
from tests.api.serving import Program, served
from tests.api.test_documented import run
from tests.api.work_cast import OUTSIDE, Worker, put_outside, work_of
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "outside-workers.md").read_text(encoding="utf-8")
CALLS = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
(WORKER,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_every_call_does_what_it_says(desk: Desk, live_server: LiveServer) -> None:
    assert shutil.which("curl"), "curl is needed: the calls are run as they stand"
    put_outside(desk.board)
    task = work_of(desk)
    given = {"ORCHESTRA": live_server.url, "KEY": Worker(desk).secret}
    told = run(CALLS[0], given)
    given["TICKET"] = told["claimed"][0]["ticket"]
    answers: list[Any] = [run(call, given) for call in CALLS[1:]]
    assert len(answers) == 5
    assert not [answer for answer in answers if "code" in answer]
    assert cast.fresh(task).output == {"files": 3}


def test_its_table_has_every_call() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)
    assert rows == [each.name for each in OPERATIONS if each.path.startswith("/work/")]


def test_its_worker_claims_asks_is_answered_and_hands_in(desk: Desk, tmp_path: Path) -> None:
    assert len(WORKER.splitlines()) < 50
    put_outside(desk.board)
    worker = Worker(desk)
    first = cast.filed(desk.board, desk.chain, "Gather", id="gather", assignee=OUTSIDE)
    second = work_of(desk, "Write", deps=["gather"])
    with served(tmp_path / "web.log") as url:
        env = {"ORCHESTRA": url, "KEY": worker.secret, "BOARD": "desk"}
        program = Program(tmp_path, "worker", WORKER, **env)
        try:
            _answers(desk, first, "approve")
            hold = _answers(desk, second, "reject")
            until(lambda: cast.fresh(second).status == "cancelled", 30, "the second to end")
            assert hold.draft == "WRITE\ngather: {'text': 'GATHER'}"
            third = work_of(desk, "Again")  # it waits for its next task
            _answers(desk, third, "approve")
            until(lambda: cast.fresh(third).status == "completed", 30, "the third to end")
        finally:
            program.kill()
    assert cast.fresh(first).output == {"text": "GATHER"}
    assert cast.fresh(first).attempts == 1  # the answer brought it back on the same attempt
    assert program.err.read_text() == ""
    assert worker.secret not in (tmp_path / "web.log").read_text()
    assert "orkt_" not in (tmp_path / "web.log").read_text()


def _answers(desk: Desk, task: Task, choice: str) -> Hold:
    hold = until(lambda: Hold.objects.filter(task=task, state="open").first(), 40, f"the question of {task}")
    until(lambda: cast.fresh(task).kept_open_by == "suspended", 20, "its turn to end")
    return people.answer_hold(desk.chain, hold.pk, choice=choice, shown_hash=hold.draft_hash)


def test_its_worker_killed_loses_the_task_to_another_after_the_lease(desk: Desk, tmp_path: Path) -> None:
    """kill -9 in the midst of the work: nobody renews, so the next claim takes it as a new attempt (fault 1)."""
    desk.board.lease_ms = 3_000
    desk.board.save(update_fields=["lease_ms"])
    put_outside(desk.board)
    worker, task = Worker(desk), work_of(desk)
    slow = WORKER.replace(
        'call("progress", ticket=ticket, note="Writing")', 'print("at it", flush=True); time.sleep(600)'
    )
    assert slow != WORKER
    with served(tmp_path / "web.log") as url:
        env = {"ORCHESTRA": url, "KEY": worker.secret, "BOARD": "desk"}
        killed = Program(tmp_path, "killed", slow, **env)
        try:
            until(lambda: "at it" in killed.said, 30, "it to begin")
            before = cast.fresh(task).lease_until
            until(lambda: cast.fresh(task).lease_until != before, 20, "a renewal: it is alive")
        finally:
            killed.kill()
        assert cast.fresh(task).attempts == 1
        other = Program(tmp_path, "other", WORKER, **env)  # it waits in its claim until the lease is over
        try:
            _answers(desk, task, "approve")
            until(lambda: cast.fresh(task).status == "completed", 30, "the other to hand in")
        finally:
            other.kill()
    row = cast.fresh(task)
    assert (row.attempts, row.abandonments) == (2, 1)
    assert Event.objects.get(task=task, kind="task.claimed", attempt=2).data == {"lost_attempt": 1}
