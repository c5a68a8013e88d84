"""An outside worker takes a task by its key, works it, and hands it in; what it says stands on the pages."""

from __future__ import annotations

import pytest

from boards import tasks
from boards.api.operations import OPERATIONS
from boards.models import Attempt, Event, Task, TranscriptItem
from tests import cast
from tests.api.cast import Desk, shape_faults
from tests.api.work_cast import OUTSIDE, Worker, answered, put_outside, work_of

pytestmark = pytest.mark.django_db
BY_NAME = {each.name: each for each in OPERATIONS}


@pytest.fixture
def worker(desk: Desk) -> Worker:
    put_outside(desk.board)
    return Worker(desk)


def test_a_task_is_claimed_started_reported_on_and_handed_in(desk: Desk, worker: Worker) -> None:
    first = cast.filed(desk.board, desk.chain, "Find the harbour", id="harbour")
    got = cast.claimed(desk.board)
    tasks.complete(cast.agent_chain(desk.board), first, {"at": "north"}, claim=got.ticket)
    task = work_of(desk, deps=["harbour"], context="By day", input={"n": 1}, labels=["sea"])
    claim = worker("claim", {"board": "desk", "host": "laptop-7"})
    assert not shape_faults(BY_NAME["claim"], claim.body)
    (work,) = claim.body["claimed"]
    assert (work["resumed"], work["lease_ms"]) == (False, 120_000)
    told = work["task"]
    assert (told["id"], told["goal"], told["attempt"]) == (task.public_id, "Count the boats", 1)
    assert (told["dep_outputs"], told["input"], told["labels"]) == ({"harbour": {"at": "north"}}, {"n": 1}, ["sea"])
    row = cast.fresh(task)
    assert (row.status, row.claimed_by) == ("in_progress", {"key": worker.key.pk, "name": "codex", "host": "laptop-7"})
    tasks.steer(desk.chain, task, "Mind the buoys")
    ticket = {"ticket": work["ticket"]}
    started = worker("start", ticket)
    assert not shape_faults(BY_NAME["start"], started.body)
    assert started.body["started"]["task"]["messages"] == ["Mind the buoys"]
    said = worker("output", {**ticket, "items": [{"text": "one"}, {"text": "two", "kind": "message", "data": [1]}]})
    assert said.body == {"result": "recorded", "status": "in_progress"}
    progress = worker("progress", {**ticket, "note": "Half way", "output": {"done": 1, "total": 2}})
    assert progress.body["messages"] == ["Mind the buoys"]
    spent = worker("spend", {**ticket, "spend": {"input_tokens": 7, "model": "m-1"}})
    assert spent.body["result"] == "recorded"
    done = worker("complete", {**ticket, "output": {"boats": 2}})
    assert done.body == {"result": "recorded", "status": "completed"}
    row = cast.fresh(task)
    assert (row.status, row.output, row.status_note) == ("completed", {"boats": 2}, "Half way")
    lines = TranscriptItem.objects.filter(task=task).order_by("pk").values_list("kind", "who", "text")
    assert list(lines)[-3:] == [
        ("status", OUTSIDE, "Attempt 1 started by an outside worker with the key codex on laptop-7."),
        ("output", OUTSIDE, "one"),
        ("message", OUTSIDE, "two"),
    ]
    sessions = set(TranscriptItem.objects.filter(task=task, who=OUTSIDE).values_list("session_id", flat=True))
    assert sessions == {Attempt.objects.get(task=task).session_id}
    assert tasks.spend_view(row)["input_tokens"] == 7


def test_what_it_does_is_recorded_as_the_members_agents(desk: Desk, worker: Worker) -> None:
    task = work_of(desk)
    worker("complete", {"ticket": worker.begins(), "output": 1})
    for kind in ("task.claimed", "task.run_linked", "task.completed"):
        chain = Event.objects.get(task=task, kind=kind).chain
        assert [(hop["kind"], hop["name"]) for hop in chain] == [
            ("person", "Anna"),
            ("agent", "codex"),
            ("agent", OUTSIDE),
        ]


def test_a_question_suspends_it_and_the_answer_hands_it_out_again(desk: Desk, worker: Worker) -> None:
    task = work_of(desk)
    ticket = {"ticket": worker.begins()}
    question = {**ticket, "kind": "approval", "prompt": "Publish?", "draft": {"text": "Dear all"}}
    asked = worker("ask", question)
    assert not shape_faults(BY_NAME["ask"], asked.body)
    assert (asked.body["state"], asked.body["answer"]) == ("open", None)
    assert worker("ask", question).body["hold"] == asked.body["hold"]  # the same again is the same question
    early = worker("complete", {**ticket, "output": 1})
    assert (early.status, early.body["reason"]) == (409, "disallowed")
    assert worker("suspend", ticket).body["status"] == "in_progress"
    assert worker.claims() == []
    answered(desk, asked.body["hold"], "approve", "Fine")
    (again,) = worker.claims()
    assert (again["resumed"], again["task"]["attempt"]) == (True, 1)
    (answer,) = again["task"]["answers"]
    assert (answer["choice"], answer["text"], answer["by"], answer["approved"]) == ("approve", "Fine", "Anna", True)
    late = worker("progress", {**ticket, "note": "Still here"})
    assert (late.status, late.body["reason"]) == (409, "lost-claim")
    now = {"ticket": again["ticket"]}
    assert worker("start", now).status == 200
    told = worker("ask", {**question, **now}).body
    assert (told["state"], told["answer"]["approved"]) == ("answered", True)
    assert worker("complete", {**now, "output": 1}).body["status"] == "completed"
    assert Attempt.objects.filter(task=task).count() == 1


def test_a_question_can_be_asked_and_looked_at_without_a_stop(desk: Desk, worker: Worker) -> None:
    work_of(desk)
    question = {"ticket": worker.begins(), "prompt": "Which boats?", "key": "which"}
    hold = worker("ask", question).body["hold"]
    answered(desk, hold, text="The red ones")
    told = worker("ask", question).body["answer"]
    assert (told["key"], told["text"]) == ("which", "The red ones")
    other = worker("ask", {**question, "kind": "confirm", "prompt": "Sure?"})
    assert (other.status, other.code) == (409, "replay_mismatch")
    assert worker("complete", {"ticket": question["ticket"]}).body["status"] == "completed"


def test_an_answer_to_a_draft_goes_to_that_draft_alone(desk: Desk, worker: Worker) -> None:
    """Known by its content to the letter: "YES" and "yes" are two drafts."""
    work_of(desk)
    ask = {"ticket": worker.begins(), "kind": "approval", "prompt": "Publish?"}
    first = worker("ask", {**ask, "draft": "Yes  we can"}).body["hold"]
    assert worker("ask", {**ask, "draft": "yes we can"}).body["hold"] != first


def test_it_files_what_it_needs_once(desk: Desk, worker: Worker) -> None:
    task = work_of(desk)
    body = {"ticket": worker.begins(), "filing": {"goal": "Lend a boat", "assignee": "writer", "labels": ["sea"]}}
    told = worker("file_task", body, key="boat")
    assert told.status == 201
    assert not shape_faults(BY_NAME["file_task"], told.body)
    assert worker("file_task", body, key="boat").body == told.body
    (made,) = Task.objects.filter(filed_by_task=task)
    assert (made.public_id, made.filed_by, made.labels) == (told.body["id"], "outside for Anna", ["sea"])
    assert made.filer_id == Attempt.objects.get(task=task).session_id
    wrong = worker("file_task", {**body, "filing": {"goal": "x", "assignee": "nobody"}})
    assert (wrong.status, wrong.code) == (409, "unknown_assignee")


def test_a_key_under_which_another_task_filed_is_refused(desk: Desk, worker: Worker) -> None:
    """Two tasks that need the same each file it: the second does not wait for what the first one filed."""
    work_of(desk)
    other = work_of(desk, "Count the oars")
    body = {"filing": {"goal": "Lend a boat", "assignee": "writer"}}
    first, second = worker.begins(), worker.begins()
    assert worker("file_task", {**body, "ticket": first}, key="boat").status == 201
    told = worker("file_task", {**body, "ticket": second}, key="boat")
    assert (told.status, told.code) == (422, "idempotency_key_reused")
    assert not Task.objects.filter(filed_by_task=other).exists()


SAIL = """
key: sail
name: Sail
steps:
  - key: count
    name: Count
    kind: agent
    assignee: outside
    prompt: Count the boats
    auto_advance_requires_signal: true
    events:
      on_turn_complete: [move_to_next]
  - {key: done, name: Done, terminal: true}
"""


@pytest.mark.django_db(transaction=True)
def test_it_says_that_its_step_is_complete(desk: Desk, worker: Worker) -> None:
    run = desk.run(desk.flow(SAIL))
    ticket = {"ticket": worker.begins()}
    said = worker("complete_step", {**ticket, "summary": "Counted", "handoff": {"boats": 2}})
    assert said.body == {"taken": True}
    assert worker("complete_step", {**ticket, "summary": "Again"}).body == {"taken": False}
    worker("complete", {**ticket, "output": {"boats": 2}})
    run.refresh_from_db()
    assert run.status == "completed"


def test_after_its_hand_in_the_word_that_its_step_is_complete_comes_too_late(desk: Desk, worker: Worker) -> None:
    run = desk.run(desk.flow(SAIL))
    ticket = {"ticket": worker.begins()}
    worker("file_task", {**ticket, "filing": {"goal": "Lend a boat", "assignee": "writer"}})
    worker("complete", {**ticket, "output": {"boats": 2}})
    told = worker("complete_step", {**ticket, "summary": "Counted"})
    assert (told.status, told.body.get("reason")) == (409, "disallowed")
    run.refresh_from_db()
    assert not run.signal


def test_after_its_hand_in_it_files_asks_and_suspends_no_more(desk: Desk, worker: Worker) -> None:
    """What it filed keeps the task open, and the turn is over all the same."""
    task = work_of(desk)
    ticket = {"ticket": worker.begins()}
    asked = worker("ask", {**ticket, "kind": "question", "prompt": "How many?"})
    answered(desk, asked.body["hold"], text="two")
    worker("file_task", {**ticket, "filing": {"goal": "Lend a boat", "assignee": "writer"}})
    assert worker("complete", {**ticket, "output": 1}).body["status"] == "in_progress"
    for verb, body in (
        ("file_task", {"filing": {"goal": "Lend another", "assignee": "writer"}}),
        ("ask", {"kind": "question", "prompt": "Which?"}),
        ("suspend", {}),
    ):
        told = worker(verb, {**ticket, **body})
        assert (told.status, told.code, told.body.get("reason")) == (409, "task_write_declined", "disallowed")
    task.refresh_from_db()
    assert (task.kept_open_by, task.filed_tasks.count()) == ("filed", 1)


def test_nothing_is_suspended_for_without_a_question(desk: Desk, worker: Worker) -> None:
    work_of(desk)
    answer = worker("suspend", {"ticket": worker.begins()})
    assert (answer.status, answer.code) == (422, "invalid_input")


def test_a_failure_is_tried_again_and_the_next_attempt_is_told(desk: Desk, worker: Worker) -> None:
    work_of(desk, max_attempts=2)
    assert worker("fail", {"ticket": worker.begins(), "error": "Too foggy"}).body["status"] == "pending"
    (again,) = worker.claims()
    assert (again["task"]["attempt"], again["task"]["feedback"]) == (2, "Too foggy")


@pytest.mark.parametrize(("ending", "status"), [("errored", "errored"), ("cancelled", "cancelled")])
def test_it_may_end_its_task_for_good(desk: Desk, worker: Worker, ending: str, status: str) -> None:
    work_of(desk, max_attempts=5)
    told = worker("fail", {"ticket": worker.begins(), "error": "No sea here", "ending": ending})
    assert told.body == {"result": "recorded", "status": status}


def test_a_worker_that_cannot_start_says_so_at_once(desk: Desk, worker: Worker) -> None:
    """Before its start a run may fail or be given back, and do nothing else."""
    task = work_of(desk, max_attempts=2)
    (work,) = worker.claims()
    ticket = {"ticket": work["ticket"]}
    for verb, body in {
        "output": {"items": [{"text": "x"}]},
        "progress": {"note": "x"},
        "ask": {"prompt": "x?"},
        "suspend": {},
        "complete": {"output": 1},
    }.items():
        answer = worker(verb, {**ticket, **body})
        assert (answer.status, answer.code) == (409, "not_started"), verb
    assert worker("hand_back", {**ticket, "reason": "No net"}).body["status"] == "pending"
    (again,) = worker.claims()
    assert worker("fail", {"ticket": again["ticket"], "error": "No program"}).body["status"] == "pending"
    row = cast.fresh(task)
    assert (row.attempts, row.failures, row.abandonments, row.feedback) == (2, 1, 0, "No program")


def test_a_result_that_the_board_does_not_take_fails_the_attempt(desk: Desk, worker: Worker) -> None:
    desk.board.output_schema = {"type": "object", "required": ["boats"]}
    desk.board.save(update_fields=["output_schema"])
    task = work_of(desk)
    told = worker("complete", {"ticket": worker.begins(), "output": {"ships": 1}})
    assert told.body == {"result": "recorded", "status": "errored"}
    assert "'boats' is a required property" in cast.fresh(task).error


def test_the_latest_checkpoint_is_the_result_where_none_is_sent(desk: Desk, worker: Worker) -> None:
    task = work_of(desk)
    ticket = {"ticket": worker.begins()}
    worker("progress", {**ticket, "output": {"boats": 1}})
    worker("complete", ticket)
    assert cast.fresh(task).output == {"boats": 1}
    work_of(desk, "Again")
    worker("complete", {"ticket": worker.begins(), "output": None})
    assert Task.objects.get(goal="Again").output is None


def test_a_lease_moves_with_its_worker_and_the_deadline_is_told(desk: Desk, worker: Worker) -> None:
    task = work_of(desk)
    ticket = {"ticket": worker.begins(lease_ms=5_000)}
    told = worker("renew", {**ticket, "lease_ms": 60_000})
    row = cast.fresh(task)
    assert row.lease_until is not None
    assert told.body == {"lease_until": row.lease_until.isoformat(), "messages": []}
    assert row.lease_duration_ms == 5_000  # what a plain renewal extends by
    bad = worker("renew", {**ticket, "lease_ms": 10})
    assert (bad.status, bad.body["field"]) == (422, "lease_ms")


def test_its_gate_is_passed_once(desk: Desk, worker: Worker) -> None:
    work_of(desk)
    (work,) = worker.claims()
    ticket = {"ticket": work["ticket"]}
    assert worker("start", ticket, key="s").status == 200
    assert worker("start", ticket, key="s").status == 200  # the same call again
    twice = worker("start", ticket)
    assert (twice.status, twice.code, twice.body["reason"]) == (409, "stale_task_claim", "already_started")


def test_a_claim_is_for_names_that_are_worked_from_outside(desk: Desk, worker: Worker) -> None:
    cast.put_on_roster(desk.board, desk.ben)
    for name, code in {
        "writer": "not_for_outside_workers",
        "ben": "not_for_outside_workers",
        "x": "unknown_assignee",
    }.items():
        answer = worker("claim", {"board": "desk", "assignees": [name]})
        assert answer.code == code
        assert f"There is {OUTSIDE}." in answer.detail
    empty = worker("claim", {"board": "attic"})
    assert (empty.status, empty.code) == (403, "not_for_outside_workers")
    unnamed = worker("claim", {})
    assert (unnamed.status, unnamed.body["field"]) == (422, "board")


def test_work_for_nobody_in_particular_falls_to_an_outside_default_worker(desk: Desk, worker: Worker) -> None:
    desk.board.default_worker = OUTSIDE
    desk.board.save(update_fields=["default_worker"])
    task = cast.filed(desk.board, desk.chain, assignee="")
    assert [one["task"]["id"] for one in worker.claims()] == [task.public_id]


def test_as_many_as_are_wanted_and_no_more_than_its_name_may_run(desk: Desk, worker: Worker) -> None:
    for n in range(4):
        work_of(desk, f"Boat {n}")
    assert len(worker.claims(limit=2)) == 2
    desk.board.roster.filter(name=OUTSIDE).update(max_running=3)
    assert len(worker.claims(limit=5)) == 1
    assert worker("claim", {"board": "desk", "limit": 51}).body["field"] == "limit"


def test_a_paused_board_hands_nothing_out(desk: Desk, worker: Worker) -> None:
    work_of(desk)
    tasks.set_paused(desk.chain, desk.board, True)
    assert worker.claims() == []


def test_it_stays_open_until_what_it_filed_has_ended(desk: Desk, worker: Worker) -> None:
    """The same rule as for a drain's worker: handed in, it waits for the tasks that it filed."""
    task = work_of(desk)
    ticket = {"ticket": worker.begins()}
    worker("file_task", {**ticket, "filing": {"goal": "Lend a boat", "assignee": "writer"}})
    for _ in range(2):  # its repeat answers the first result
        told = worker("complete", {**ticket, "output": {"boats": 2}}, key="end")
        assert told.body == {"result": "recorded", "status": "in_progress"}
    row = cast.fresh(task)
    assert (row.status, row.kept_open_by, row.lease_until) == ("in_progress", "filed", None)
    for verb, body in {"progress": {"note": "x"}, "ask": {"prompt": "x?"}, "suspend": {}}.items():
        late = worker(verb, {**ticket, **body})
        assert (late.status, late.body["reason"]) == (409, "disallowed"), verb
    row.refresh_from_db()
    assert (row.kept_open_by, row.open_holds) == ("filed", 0)
    assert worker.claims() == []
