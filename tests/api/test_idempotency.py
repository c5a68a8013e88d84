"""A repeat under an Idempotency-Key answers the first result; another body under it is refused."""

from __future__ import annotations

import pytest

from boards.models import Event, FlowRun, IdempotencyKey, Task
from tests import cast
from tests.api.cast import EVERYTHING, Desk
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_filing_is_made_once(desk: Desk) -> None:
    caller = desk.by_key("read", "file")
    first = caller("POST", "/boards/desk/tasks", {"goal": "Once"}, key="a")
    again = caller("POST", "/boards/desk/tasks", {"goal": "Once"}, key="a")
    assert (again.status, again.body["task"]["id"]) == (201, first.body["task"]["id"])
    other = caller("POST", "/boards/desk/tasks", {"goal": "Twice"}, key="a")
    assert (other.status, other.code) == (422, "idempotency_key_reused")
    assert Task.objects.count() == 1


def test_keys_of_two_callers_have_nothing_to_do_with_one_another(desk: Desk) -> None:
    callers = [desk.by_key("file"), desk.by_key("file"), desk.signed_in()]
    for n, caller in enumerate(callers):
        assert caller("POST", "/boards/desk/tasks", {"goal": f"Goal {n}"}, key="same").status == 201
    assert Task.objects.count() == 3


def test_twins_at_the_same_instant_file_one_task(desk: Desk) -> None:
    caller = desk.by_key("file")
    said = at_once(*[lambda: caller("POST", "/boards/desk/tasks", {"goal": "Once"}, key="twin")] * 4)
    assert [each.status for each in said] == [201] * 4
    assert len({each.body["task"]["id"] for each in said}) == 1


def test_a_verb_is_done_once_and_a_refusal_is_not_kept(desk: Desk) -> None:
    caller = desk.by_key(*EVERYTHING)
    task = desk.stuck()
    path = f"/boards/desk/tasks/{task.public_id}"
    assert caller("POST", f"{path}/accept", key="k").code == "bad_state"
    assert not IdempotencyKey.objects.filter(verb="accept").exists()
    assert caller("POST", f"{path}/retry", key="k").body["result"] == "recorded"
    cast.claimed(desk.board)
    again = caller("POST", f"{path}/retry", key="k")
    assert (again.status, again.body["result"], again.body["task"]["status"]) == (200, "recorded", "in_progress")
    assert Event.objects.filter(kind="task.retried").count() == 1
    assert caller("POST", f"{path}/retry").code == "not_finished"


def test_the_same_key_with_other_words_is_refused(desk: Desk) -> None:
    caller = desk.by_key(*EVERYTHING)
    path = f"/boards/desk/tasks/{desk.handed_in().public_id}"
    assert caller("POST", f"{path}/send_back", {"words": "Longer"}, key="k").status == 200
    assert caller("POST", f"{path}/send_back", {"words": "Shorter"}, key="k").code == "idempotency_key_reused"


def test_a_start_is_made_once(desk: Desk) -> None:
    desk.flow()
    caller = desk.by_key("read", "file")
    first, again = (caller("POST", "/flows/cards/runs", {"name": "One"}, key="s") for _ in range(2))
    assert first.body["run"]["run"] == again.body["run"]["run"] == 1
    assert FlowRun.objects.count() == 1


def test_an_answer_given_twice_is_the_first_one(desk: Desk) -> None:
    hold = desk.asked()
    caller = desk.by_key("read", "decide")
    told = {"choice": "approve", "shown_hash": hold.draft_hash}
    first, again = (caller("POST", f"/holds/{hold.pk}/answer", told, key="k") for _ in range(2))
    assert (first.status, again.status) == (200, 200)
    assert again.body["hold"]["answer"] == {"choice": "approve", "text": ""}
    assert caller("POST", f"/holds/{hold.pk}/answer", told, key="l").code == "already_answered"
    other = desk.by_key("decide", of=desk.ben)
    assert other("POST", f"/holds/{hold.pk}/answer", told, key="k").code == "already_answered"


def test_where_none_is_taken_it_is_said(desk: Desk) -> None:
    hold = desk.asked()
    answer = desk.by_key("decide")("POST", f"/holds/{hold.pk}/dismiss", key="k")
    assert (answer.status, answer.code) == (400, "idempotency_key_not_taken")
