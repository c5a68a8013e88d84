"""Tasks over HTTP: filed, read, listed, changed and moved by the verbs of the pages."""

from __future__ import annotations

import pytest

from boards import tasks
from boards.api.shapes_of_tasks import UpdateBody
from boards.models import Event, Task
from boards.states import Status
from tests import cast
from tests.api.cast import EVERYTHING, Desk

pytestmark = pytest.mark.django_db


def test_an_agent_files_a_task_for_its_member_in_the_session_of_its_key(desk: Desk) -> None:
    key, _ = desk.key("read", "file", name="scribe")
    caller = desk.by_key("read", "file", name="writer-bot")
    answer = caller("POST", "/boards/desk/tasks", {"goal": "Write it", "assignee": "writer", "labels": ["a"]})
    assert answer.status == 201
    told = answer.body["task"]
    assert (told["goal"], told["status"], told["filed_by"]) == ("Write it", "pending", "writer-bot for Anna")
    task = Task.objects.get(public_id=told["id"])
    assert (task.filer.kind, task.filer.user) == ("key", desk.anna.user)
    assert task.filer_id != key.session_id
    assert answer.headers["Location"] == f"/api/v1/boards/desk/tasks/{task.public_id}"
    chain = Event.objects.get(kind="task.filed", task=task).chain
    assert [hop["kind"] for hop in chain] == ["person", "agent"]
    assert chain[1]["name"] == "writer-bot"


def test_nothing_of_the_servers_own_is_answered(desk: Desk) -> None:
    task = desk.filed()
    told = desk.by_key("read")("GET", f"/boards/desk/tasks/{task.public_id}").body["task"]
    assert not told.keys() & {"key", "pk", "claimed_by", "grant_no", "write_log", "unmet_deps", "not_before"}


def test_what_a_task_has_spent_is_read_with_it(desk: Desk) -> None:
    caller, task = desk.by_key("read"), cast.filed(desk.board, desk.chain)
    address = f"/boards/desk/tasks/{task.public_id}"
    assert caller("GET", address).body["task"]["spend"] is None
    got = cast.claimed(desk.board)
    tasks.record_spend(desk.chain, task, "r1", "settled", {"input_tokens": 7, "model": "m-1"}, claim=got.ticket)
    (request,) = caller("GET", address).body["task"]["spend"]["requests"]
    assert (request["request_id"], request["attempt"], request["settled"]) == ("r1", 1, {"input_tokens": 7})


def test_what_may_be_changed_over_http_is_what_the_engines_table_names() -> None:
    assert set(UpdateBody.model_fields) == set(tasks.TASK_FIELD_RULES)


def test_a_batch_is_filed_whole_with_dependencies_among_it(desk: Desk) -> None:
    caller = desk.by_key("read", "file")
    batch = [{"goal": "First", "id": "one"}, {"goal": "Second", "deps": ["one"], "held": True}]
    answer = caller("POST", "/boards/desk/batch", {"tasks": batch})
    assert answer.status == 201
    assert [task["status"] for task in answer.body["tasks"]] == ["pending", "held"]
    again = caller("POST", "/boards/desk/batch", {"tasks": [{"goal": "New"}, {"goal": "Bad", "assignee": "nobody"}]})
    assert (again.status, again.code, again.body["index"]) == (409, "unknown_assignee", 1)
    assert not Task.objects.filter(goal="New").exists()


def test_a_list_is_read_by_pages_and_narrowed(desk: Desk) -> None:
    names = [desk.filed(goal=f"Goal {n}", labels=["odd"] if n % 2 else []).public_id for n in range(5)]
    caller = desk.by_key("read")
    first = caller("GET", "/boards/desk/tasks?limit=2").body
    second = caller("GET", f"/boards/desk/tasks?limit=2&cursor={first['next']}").body
    third = caller("GET", f"/boards/desk/tasks?limit=2&cursor={second['next']}").body
    found = [task["id"] for page in (first, second, third) for task in page["tasks"]]
    assert (found, third["next"]) == (list(reversed(names)), None)
    assert [t["goal"] for t in caller("GET", "/boards/desk/tasks?label=odd").body["tasks"]] == ["Goal 3", "Goal 1"]
    assert [t["goal"] for t in caller("GET", "/boards/desk/tasks?text=goal+4").body["tasks"]] == ["Goal 4"]
    assert caller("GET", "/boards/desk/tasks?status=errored").body == {"tasks": [], "next": None}
    assert caller("GET", "/boards/desk/tasks?cursor=nonsense").code == "invalid_input"
    assert caller("GET", "/boards/desk/tasks?colour=red").code == "invalid_input"


def test_a_read_that_changed_nothing_is_not_sent_again(desk: Desk) -> None:
    task = desk.filed()
    caller = desk.by_key("read", "file", "admin")
    path = f"/boards/desk/tasks/{task.public_id}"
    tag = caller("GET", path).headers["ETag"]
    again = caller("GET", path, **{"If-None-Match": tag})
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    caller("PATCH", path, {"priority": 7})
    assert caller("GET", path, **{"If-None-Match": tag}).status == 200


def test_fields_are_changed_and_a_message_is_sent(desk: Desk) -> None:
    caller = desk.by_key("read", "file")
    name = caller("POST", "/boards/desk/tasks", {"goal": "Old", "metadata": {"a": 1}}).body["task"]["id"]
    path = f"/boards/desk/tasks/{name}"
    answer = caller("PATCH", path, {"goal": "New", "metadata": {"b": 2}, "due_at": "2030-01-02T03:04:05+02:00"})
    assert (answer.status, answer.body["result"]) == (200, "recorded")
    told = answer.body["task"]
    assert (told["goal"], told["metadata"]) == ("New", {"a": 1, "b": 2})
    assert told["due_at"] == "2030-01-02T01:04:05+00:00"
    assert caller("PATCH", path, {"goal": "New"}).body["result"] == "unchanged"
    assert caller("PATCH", path, {"message": "Hurry"}).body["task"]["steers"][0]["text"] == "Hurry"
    assert caller("PATCH", path, {}).code == "nothing_to_update"
    assert caller("PATCH", path, {"status": "cancelled", "goal": "x"}).code == "cancel_takes_no_edits"
    assert caller("PATCH", path, {"status": "cancelled"}).body["task"]["status"] == "cancelled"
    assert caller("PATCH", path, {"goal": "x"}).code == "task_finished"


def test_a_held_task_is_released_to_somebody(desk: Desk) -> None:
    caller = desk.by_key("read", "file")
    name = caller("POST", "/boards/desk/tasks", {"goal": "Wait", "held": True}).body["task"]["id"]
    answer = caller("POST", f"/boards/desk/tasks/{name}/release", {"assignee": "reader"})
    assert (answer.body["task"]["status"], answer.body["task"]["assignee"]) == ("pending", "reader")
    assert caller("POST", f"/boards/desk/tasks/{name}/release").body["result"] == "unchanged"


def test_a_cancel_says_why_and_a_second_one_is_declined(desk: Desk) -> None:
    task = desk.filed()
    caller = desk.signed_in()
    answer = caller("POST", f"/boards/desk/tasks/{task.public_id}/cancel", {"reason": "Not needed"})
    told = answer.body["task"]
    assert (told["status"], told["error"], told["cancelled_via"]) == ("cancelled", "Not needed", "person")
    again = caller("POST", f"/boards/desk/tasks/{task.public_id}/cancel")
    assert (again.status, again.body["reason"], again.body["status_seen"]) == (409, "terminal", "cancelled")


def test_a_key_that_decides_accepts_sends_back_and_retries(desk: Desk) -> None:
    caller = desk.by_key(*EVERYTHING)
    one, two = desk.handed_in(goal="One"), desk.handed_in(goal="Two")
    accepted = caller("POST", f"/boards/desk/tasks/{one.public_id}/accept")
    assert accepted.body["task"]["status"] == "completed"
    assert caller("POST", f"/boards/desk/tasks/{two.public_id}/send_back", {"words": ""}).code == "invalid_input"
    back = caller("POST", f"/boards/desk/tasks/{two.public_id}/send_back", {"words": "Longer"}).body["task"]
    assert (back["status"], back["feedback"]) == ("pending", "Longer")
    assert caller("POST", f"/boards/desk/tasks/{one.public_id}/send_back", {"words": "x"}).code == "bad_state"
    assert caller("POST", f"/boards/desk/tasks/{one.public_id}/retry").code == "task_finished"
    assert caller("POST", f"/boards/desk/tasks/{two.public_id}/retry").code == "not_finished"
    cast.claimed(desk.board)  # two again, out of the way
    stuck = desk.stuck(goal="Three")
    assert caller("POST", f"/boards/desk/tasks/{stuck.public_id}/retry").body["task"]["status"] == "pending"


def test_a_key_acts_on_what_it_filed_unless_it_administers(desk: Desk) -> None:
    task = desk.filed()
    path = f"/boards/desk/tasks/{task.public_id}"
    plain, admin = desk.by_key("read", "file"), desk.by_key("read", "file", "admin")
    refused = plain("PATCH", path, {"priority": 3})
    assert (refused.status, refused.code) == (403, "forbidden")
    assert refused.detail.startswith("This task was filed by Anna.")
    assert plain("POST", f"{path}/cancel").status == 403
    assert cast.fresh(task).status == Status.PENDING
    assert admin("PATCH", path, {"priority": 3}).status == 200
    assert admin("POST", f"{path}/cancel").status == 200


def test_a_board_goes_by_its_number_too_and_one_that_is_apart_shows_ones_own_rows(desk: Desk) -> None:
    assert desk.by_key("read")("GET", f"/boards/{desk.board.pk}/tasks").status == 200
    apart = cast.make_board(desk.space, "apart", partition_by="user")
    mine = cast.filed(apart, desk.chain)
    assert desk.by_key("read")("GET", f"/boards/apart/tasks/{mine.public_id}").status == 200
    for caller in (desk.by_key("read", of=desk.ben), desk.signed_in(desk.ben)):
        assert caller("GET", f"/boards/apart/tasks/{mine.public_id}").code == "task_not_found"
        assert caller("GET", "/boards/apart/tasks").body["tasks"] == []


def test_what_is_long_is_cut_and_says_so(desk: Desk) -> None:
    task = desk.filed(input={"text": "x" * 30_000}, goal="g" * 5_000)
    told = desk.by_key("read")("GET", f"/boards/desk/tasks/{task.public_id}").body["task"]
    assert (len(told["input"]), told["input_cut"], told["goal"]) == (20_000, True, task.goal)
    brief = desk.by_key("read")("GET", "/boards/desk/tasks").body["tasks"][0]
    assert (len(brief["goal"]), brief["goal_cut"]) == (2_000, True)
