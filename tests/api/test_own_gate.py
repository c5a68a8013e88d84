"""Whoever asked, works or handed in opens no gate of its own by a key, on any route (spec: 04, 2.3; fault 17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from boards import actors, errors, people, tasks
from boards.actors import Chain
from boards.flows import mark_complete, move, run_again
from boards.models import AgentKey, FlowRun, Hold, Task
from boards.states import Status
from boards.tasks import Filing, HoldFiling, file_task
from tests import cast
from tests.api.cast import ASKING_FLOW, EVERYTHING, Answered, Caller, Desk
from tests.people.test_own_gate import WAYS, is_refused, state

pytestmark = pytest.mark.django_db

Route = Callable[[Caller, Hold, Task], Answered]


def _task(verb: str, body: Any = None, method: str = "POST") -> Route:
    return lambda call, hold, task: call(method, f"/boards/desk/tasks/{task.public_id}{verb}", body)


ROUTES: dict[str, Route] = {
    "answer yes": lambda call, hold, task: call(
        "POST", f"/holds/{hold.pk}/answer", {"choice": "yes", "shown_hash": hold.draft_hash}
    ),
    "approve": lambda call, hold, task: call(
        "POST", f"/holds/{hold.pk}/answer", {"choice": "approve", "shown_hash": hold.draft_hash}
    ),
    "dismiss": lambda call, hold, task: call("POST", f"/holds/{hold.pk}/dismiss"),
    "release": _task("/release"),
    "set the status": _task("", {"status": "pending"}, "PATCH"),
    "retry": _task("/retry"),
    "accept": _task("/accept"),
}


@pytest.mark.parametrize("way", ROUTES)
def test_a_key_that_asked_at_the_filing_lets_nothing_go_on(desk: Desk, way: str) -> None:
    """Whatever its scopes: its own question stands before its own task."""
    caller = desk.by_key(*EVERYTHING)
    ask = {"goal": "Publish", "held": True, "holds": [{"kind": "confirm", "prompt": "Really?"}]}
    task = Task.objects.get(public_id=caller("POST", "/boards/desk/tasks", ask).body["task"]["id"])
    hold = task.holds.get()
    before = state(hold, task)
    assert ROUTES[way](caller, hold, task).status in {403, 409}
    assert state(hold, task) == before


@pytest.mark.parametrize("way", ROUTES)
def test_a_key_of_the_agent_that_works_opens_none_of_its_gates(desk: Desk, way: str) -> None:
    caller = desk.by_key(*EVERYTHING, name=cast.WRITER)
    hold = desk.asked()
    task = cast.fresh(hold.task)
    before = state(hold, task)
    assert ROUTES[way](caller, hold, task).status in {403, 409, 422}
    assert state(hold, task) == before


@pytest.mark.parametrize("way", ROUTES)
def test_a_key_that_works_decides_nothing(desk: Desk, way: str) -> None:
    caller = desk.by_key("read", "file", "work", "admin")
    hold = desk.asked()
    task = cast.fresh(hold.task)
    before = state(hold, task)
    assert ROUTES[way](caller, hold, task).status in {403, 409}
    assert state(hold, task) == before


@pytest.mark.parametrize("way", WAYS)
def test_a_worker_by_its_key_opens_its_gate_by_no_function_either(desk: Desk, way: str) -> None:
    """The engines refuse it themselves: no door has to be trusted for that."""
    key, _ = desk.key("read", "file", "work", "admin", name=cast.WRITER)
    chain: Chain = actors.by_key(AgentKey.objects.get(pk=key.pk))
    hold = desk.asked()
    task = cast.fresh(hold.task)
    before = state(hold, task)
    assert is_refused(WAYS[way], chain, hold, task)
    assert state(hold, task) == before


def test_no_key_is_made_that_works_and_decides(desk: Desk) -> None:
    with pytest.raises(errors.InvalidInput, match="decides nothing"):
        desk.key("work", "decide")


def test_after_a_persons_no_the_filers_key_does_not_let_it_start(desk: Desk) -> None:
    caller = desk.by_key(*EVERYTHING)
    ask = {"goal": "Publish", "holds": [{"kind": "confirm", "prompt": "Really?"}]}
    task = Task.objects.get(public_id=caller("POST", "/boards/desk/tasks", ask).body["task"]["id"])
    people.answer_hold(desk.chain, task.holds.get().pk, choice="no")
    path = f"/boards/desk/tasks/{task.public_id}"
    assert cast.fresh(task).status == Status.HELD
    assert caller("POST", f"{path}/release").code == "forbidden"
    assert caller("PATCH", path, {"status": "pending"}).code == "forbidden"
    tasks.cancel(desk.chain, task)
    assert caller("POST", f"{path}/retry").code == "forbidden"
    assert desk.signed_in()("POST", f"{path}/retry").status == 200


def test_the_agent_that_handed_in_does_not_accept_by_its_key(desk: Desk) -> None:
    task = desk.handed_in()
    path = f"/boards/desk/tasks/{task.public_id}/accept"
    answer = desk.by_key("decide", name=cast.WRITER)("POST", path)
    assert (answer.status, answer.detail) == (403, "writer handed this in, so somebody else has to check it.")
    assert desk.by_key("decide", name="another")("POST", path).status == 200


def test_a_run_is_not_moved_past_its_people_by_a_key_that_does_not_decide(desk: Desk) -> None:
    desk.flow(ASKING_FLOW)
    caller, decider = desk.by_key("read", "file"), desk.by_key("read", "file", "decide", "admin")
    assert caller("POST", "/flows/gated/runs", {"step": "done"}).status in {403, 422}
    assert caller("POST", "/flows/gated/runs", {"step": "gate"}).code == "forbidden"
    assert caller("POST", "/flows/gated/runs", {}).status == 201
    answer = caller("POST", "/flows/gated/runs/1/move", {"step": "done"})
    assert (answer.status, answer.code) == (403, "forbidden")
    assert FlowRun.objects.get().step_key == "begin"
    assert decider("POST", "/flows/gated/runs/1/move", {"step": "done"}).status == 200


@pytest.mark.parametrize("act", [mark_complete, run_again, lambda chain, run: move(chain, run, "done")])
def test_the_flow_engine_refuses_it_itself(desk: Desk, act: Callable[[Chain, FlowRun], Any]) -> None:
    run = desk.run(desk.flow(ASKING_FLOW))
    key, _ = desk.key("read", "file", "admin")
    with pytest.raises(errors.Forbidden):
        act(actors.by_key(AgentKey.objects.get(pk=key.pk)), run)


def test_the_agent_of_a_runs_step_does_not_move_it(desk: Desk) -> None:
    text = "key: w\nname: W\nsteps:\n  - {key: a, name: A, kind: agent, assignee: writer, prompt: Write}\n"
    desk.flow(text + "  - {key: z, name: Done, terminal: true}\n")
    worker, other = desk.by_key(*EVERYTHING, name=cast.WRITER), desk.by_key(*EVERYTHING, name="another")
    desk.signed_in()("POST", "/flows/w/runs", {})
    assert worker("POST", "/flows/w/runs/1/move", {"step": "z"}).code == "forbidden"
    assert other("POST", "/flows/w/runs/1/move", {"step": "z"}).status == 200


def test_a_filing_with_a_question_is_the_members_to_answer(desk: Desk) -> None:
    """The member themselves, and another key of theirs that decides, may."""
    filing = Filing("Publish", holds=[HoldFiling("confirm", "Really?")])
    key, _ = desk.key("read", "file", name="filer")
    chain = actors.by_key(AgentKey.objects.get(pk=key.pk))
    one, two = (file_task(chain, desk.board, filing, allow_same=True).holds.get() for _ in range(2))
    assert people.answer_hold(desk.chain, one.pk, choice="yes").state == "answered"
    assert desk.by_key("decide", name="other")("POST", f"/holds/{two.pk}/answer", {"choice": "yes"}).status == 200


def test_a_run_is_not_moved_past_the_people_of_a_flow_that_it_calls(desk: Desk) -> None:
    desk.flow(ASKING_FLOW)
    desk.flow(
        "key: outer\nname: Outer\nsteps:\n  - {key: begin, name: Begin}\n"
        "  - {key: sub, name: Sub, kind: call, flow: gated}\n  - {key: late, name: Late}\n"
        "  - {key: done, name: Done, terminal: true}\n"
    )
    caller, decider = desk.by_key("read", "file"), desk.by_key("read", "file", "decide", "admin")
    assert caller("POST", "/flows/outer/runs", {"step": "late"}).code == "forbidden"
    assert caller("POST", "/flows/outer/runs", {}).status == 201
    assert caller("POST", "/flows/outer/runs/1/move", {"step": "late"}).code == "forbidden"
    assert decider("POST", "/flows/outer/runs/1/move", {"step": "late"}).status == 200


def test_a_run_is_not_moved_past_the_checker_of_its_board(desk: Desk) -> None:
    """A step that names no checker has its board's."""
    desk.board.checker = "person"
    desk.board.save(update_fields=["checker"])
    desk.flow(
        "key: w\nname: W\nsteps:\n  - {key: a, name: A, kind: agent, assignee: writer, prompt: Write}\n"
        "  - {key: late, name: Late}\n  - {key: z, name: Done, terminal: true}\n"
    )
    caller, decider = desk.by_key("read", "file"), desk.by_key("read", "file", "decide", "admin")
    assert caller("POST", "/flows/w/runs", {"step": "late"}).code == "forbidden"
    assert caller("POST", "/flows/w/runs", {}).status == 201
    assert caller("POST", "/flows/w/runs/1/move", {"step": "late"}).code == "forbidden"
    assert decider("POST", "/flows/w/runs/1/move", {"step": "late"}).status == 200


def test_a_key_takes_no_reviewer_away(desk: Desk) -> None:
    """Not of what it filed without the right to decide, and never of what its agent is to work."""
    desk.board.checker = "person"
    desk.board.save(update_fields=["checker"])
    filer, worker = desk.by_key("read", "file"), desk.by_key(*EVERYTHING, name=cast.WRITER)
    own = f"/boards/desk/tasks/{filer('POST', '/boards/desk/tasks', {'goal': 'Own'}).body['task']['id']}"
    others = f"/boards/desk/tasks/{desk.filed(assignee=cast.WRITER).public_id}"
    for caller, path in ((filer, own), (worker, others)):
        for checker in ("none", "", "reader"):
            assert caller("PATCH", path, {"checker": checker}).code == "forbidden"
    assert worker("PATCH", own, {"checker": "none", "assignee": cast.WRITER}).code == "forbidden"
    assert set(Task.objects.values_list("checker", flat=True)) == {"person"}
    assert desk.by_key(*EVERYTHING, name="another")("PATCH", others, {"checker": "reader"}).status == 200


@pytest.mark.parametrize("answered", [False, True])
def test_what_a_person_is_asked_about_at_the_filing_stays_as_it_was_read(desk: Desk, answered: bool) -> None:
    caller = desk.by_key(*EVERYTHING)
    ask = {"goal": "Publish the note", "held": True, "holds": [{"kind": "confirm", "prompt": "Really?"}]}
    task = Task.objects.get(public_id=caller("POST", "/boards/desk/tasks", ask).body["task"]["id"])
    if answered:
        people.answer_hold(desk.chain, task.holds.get().pk, choice="yes")
    path = f"/boards/desk/tasks/{task.public_id}"
    for field, value in (("goal", "Delete it all"), ("input", {"all": True}), ("assignee", "reader")):
        assert caller("PATCH", path, {field: value}).code == "forbidden"
    assert caller("POST", f"{path}/release", {"assignee": "reader"}).code == "forbidden"
    row = cast.fresh(task)
    assert (row.goal, row.input, row.assignee) == ("Publish the note", task.input, task.assignee)
    assert caller("PATCH", path, {"priority": 5}).status == 200
    assert desk.signed_in()("PATCH", path, {"goal": "Publish the other note"}).status == 200
