"""What a member may do on a task, by status, role and circumstance; pure, so no database."""

from __future__ import annotations

import pytest

from boards.models import Member, Task
from boards.queries.task import TaskView, act_for, acts_for
from boards.states import Status, Verb, may

ANNA = Member(user_id=1, role="member")
OLGA = Member(user_id=2, role="operator")
VERA = Member(user_id=3, role="viewer")

# verb -> statuses in which a member may do it to a task that never ran, is nobody's, and waits for nothing.
BY_STATUS = {
    "retry": {"errored", "cancelled"},
    "release": {"held"},
    "hold": {"pending"},
    "skip": {"pending", "errored"},
    "cancel": {"pending", "held", "in_progress", "needs_check"},
    "accept": {"needs_check"},
    "send_back": {"needs_check"},
    "steer": {"pending", "held", "in_progress", "needs_check"},
}


def view(status: str = "pending", **facts: object) -> TaskView:
    task_fields = {name: facts.pop(name) for name in list(facts) if name in {f.name for f in Task._meta.get_fields()}}
    return TaskView(Task(public_id="t1", goal="g", status=status, checker="person", **task_fields), **facts)


@pytest.mark.parametrize("status", Status.values)
@pytest.mark.parametrize("verb", sorted(BY_STATUS))
def test_each_act_is_allowed_exactly_where_the_state_machine_has_it(verb, status):
    act = act_for(view(status), ANNA, verb)
    assert act.allowed == (status in BY_STATUS[verb])
    assert bool(act.reason) != act.allowed
    if verb in set(Verb):
        assert act.allowed == may(Verb(verb), status)


@pytest.mark.parametrize("status", Status.values)
def test_a_viewer_may_do_nothing_and_every_refusal_is_a_sentence(status):
    for act in acts_for(view(status), VERA):
        assert not act.allowed
        assert act.reason.endswith(".")


def test_starting_is_for_the_person_it_is_assigned_to_once_nothing_is_in_the_way():
    mine = {"assigned_to": 1, "assigned_name": "Anna"}
    assert act_for(view(**mine), ANNA, "claim").allowed
    assert act_for(view(**mine), OLGA, "claim").reason == "It is assigned to Anna."
    assert not act_for(view(), ANNA, "claim").allowed
    assert not act_for(view(unmet_deps=1, **mine), ANNA, "claim").allowed
    assert not act_for(view(open_holds=1, **mine), ANNA, "claim").allowed
    assert not act_for(view(backing_off=True, **mine), ANNA, "claim").allowed


def test_only_whoever_started_it_hands_in_or_gives_back():
    for verb in ("complete", "hand_back"):
        assert act_for(view("in_progress", worked_by=1), ANNA, verb).allowed
        assert not act_for(view("in_progress", worked_by=1), OLGA, verb).allowed
        assert not act_for(view("in_progress"), ANNA, verb).allowed


def test_whoever_handed_it_in_never_accepts_and_a_named_checker_is_the_only_one():
    assert "somebody else" in act_for(view("needs_check", handed_in_by=1), ANNA, "accept").reason
    named = view("needs_check", checked_by=2, checker_name="Olga")
    named.task.checker = "olga"
    assert act_for(named, OLGA, "accept").allowed
    assert act_for(named, ANNA, "accept").reason == "Olga checks it."


def test_a_started_task_cannot_be_held():
    assert not act_for(view("pending", attempts=1), ANNA, "hold").allowed


def test_a_retry_says_what_stands_against_it():
    assert "withdrawn" in act_for(view("cancelled", withdrawn={"reason": "timeout"}), ANNA, "retry").reason
    assert "settled" in act_for(view("errored", settling=True), ANNA, "retry").reason
    assert "“Build”" in act_for(view("cancelled", ended_deps=("Build",)), ANNA, "retry").reason
    assert "2 tasks" in act_for(view("errored", cascaded=2), ANNA, "retry").confirm


def test_start_anyway_needs_an_ended_dependency_and_a_task_that_never_ran():
    assert "“Build”" in act_for(view("pending", ended_deps=("Build",)), ANNA, "start_anyway").confirm
    assert not act_for(view("pending"), ANNA, "start_anyway").allowed
    assert not act_for(view("errored", ended_deps=("Build",)), ANNA, "start_anyway").allowed


def test_cancel_and_skip_say_what_they_hit():
    assert act_for(view(dependents=1), ANNA, "cancel").confirm == "Also cancels the task that depends on it."
    assert act_for(view(dependents=3), ANNA, "skip").confirm == "Also cancels the 3 tasks that depend on it."
    assert act_for(view(), ANNA, "cancel").confirm == ""


def test_reclaiming_is_an_operators_act_on_a_lost_worker():
    assert act_for(view("in_progress", lapsed=True), OLGA, "reclaim").allowed
    assert not act_for(view("in_progress"), OLGA, "reclaim").allowed
    assert act_for(view("in_progress", lapsed=True), ANNA, "reclaim").reason == "Only an operator may do this."


def test_fifty_messages_are_the_most():
    assert not act_for(view(steers=[{}] * 50), ANNA, "steer").allowed


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"status": "pending", "unmet_deps": 1}, "This will start it."),
        ({"status": "cancelled", "unmet_deps": 1}, "This will start it."),
        ({"status": "held", "unmet_deps": 1}, "stays held"),
        ({"status": "cancelled", "unmet_deps": 1, "metadata": {"orchestra:cascade_was_held": True}}, "stays held"),
        ({"status": "pending", "unmet_deps": 1, "open_holds": 1}, "waits for an answer"),
        ({"status": "cancelled", "unmet_deps": 1, "asks_again": True}, "waits for an answer"),
        ({"status": "pending", "unmet_deps": 2}, "waits for other tasks"),
    ],
)
def test_start_anyway_tells_what_comes_of_it(fields, words):
    assert words in act_for(view(ended_deps=("Build",), **fields), ANNA, "start_anyway").confirm
