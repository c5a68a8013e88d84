"""A filing that the rules refuse is refused with the same words from a page and over HTTP (spec: 01 section 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from boards import tasks
from boards.models import Board, Task
from tests import cast
from tests.api.cast import Desk

pytestmark = pytest.mark.django_db

Given = dict[str, Any]


def _ended(desk: Desk) -> Given:
    gone = desk.filed(goal="Gone", id="gone")
    tasks.cancel(desk.chain, gone)
    return {"goal": "New", "deps": ["gone"]}


def _full(desk: Desk, **limits: int) -> Given:
    Board.objects.filter(pk=desk.board.pk).update(**limits)
    return {"goal": "New"}


CASES: dict[str, Callable[[Desk], Given]] = {
    "total_task_cap_exceeded": lambda desk: _full(desk, max_total_tasks=0),
    "enqueued_task_cap_exceeded": lambda desk: _full(desk, max_enqueued_tasks=0),
    "task_id_taken": lambda desk: (desk.filed(id="one"), {"goal": "New", "id": "one"})[1],
    "unknown_assignee": lambda desk: {"goal": "New", "assignee": "nobody"},
    "dependency_not_on_board": lambda desk: {"goal": "New", "deps": ["missing"]},
    "dependency_ended": _ended,
    "invalid_input": lambda desk: {"goal": " \u200b ", "title": "T"},
}


def by_form(desk: Desk, given: Given) -> str:
    """The page's form, which shows the sentence; the page as it is answered."""
    client = Client()
    client.force_login(desk.anna.user)
    form = {name: " ".join(value) if isinstance(value, list) else value for name, value in given.items()}
    response = client.post("/b/desk/new/", form)
    assert response.status_code in {409, 422, 200}, response
    return response.content.decode()


@pytest.mark.parametrize("code", CASES)
def test_a_refused_filing_says_the_same_on_the_page_and_over_http(desk: Desk, code: str) -> None:
    given = CASES[code](desk)
    before = Task.objects.count()
    page = by_form(desk, given)
    for caller in (desk.by_key("file"), desk.signed_in()):
        answer = caller("POST", "/boards/desk/tasks", given)
        assert (answer.code, answer.status // 100) == (code, 4)
        assert _as_html(answer.detail) in page, answer.detail
    assert Task.objects.count() == before


def _as_html(sentence: str) -> str:
    from django.utils.html import escape

    return str(escape(sentence))


def test_the_sentence_of_each_refusal_is_the_engines_own(desk: Desk) -> None:
    """Codes that no form of a page can bring about, in the words of the engine, which are in every other answer."""
    caller = desk.by_key("file")
    again = {"goal": "Same", "assignee": "reader"}
    assert caller("POST", "/boards/desk/tasks", again).status == 201
    twin = caller("POST", "/boards/desk/tasks", again)
    assert (twin.code, twin.detail) == (
        "already_open",
        "“Same” is open already with the same goal. Use that one, or name another goal.",
    )
    loop = [{"goal": "A", "id": "a", "deps": ["b"]}, {"goal": "B", "id": "b", "deps": ["a"]}]
    told = caller("POST", "/boards/desk/batch", {"tasks": loop})
    assert (told.code, told.detail) == (
        "dependency_loop",
        "These dependencies form a loop: a → b → a. Leave one of them out.",
    )
    fresh = cast.filed(desk.board, desk.chain, "Never ran", assignee="reader")
    follow = caller("POST", "/boards/desk/tasks", {"goal": "More", "follow_up_of": fresh.public_id})
    assert (follow.code, follow.status) == ("follow_up_of_unrun", 409)
    assert caller("POST", "/boards/desk/tasks", {"goal": "More", "follow_up_of": "missing"}).code == "task_not_found"
    ran = desk.stuck(goal="Ran")
    wrong = {"goal": "More", "follow_up_of": ran.public_id, "assignee": "writer"}
    assert caller("POST", "/boards/desk/tasks", wrong).code == "follow_up_takes_no_assignee"
    assert caller("POST", "/boards/missing/tasks", again).code == "no_delegation_board"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("goal", 5),
        ("goal", None),
        ("title", ["a"]),
        ("context", {}),
        ("input", "text"),
        ("input", [1]),
        ("labels", "one"),
        ("labels", [5]),
        ("metadata", {"orchestra:x": 1}),
        ("priority", "high"),
        ("priority", True),
        ("priority", 10**12),
        ("due_at", "tomorrow"),
        ("due_at", "2030-01-01T00:00:00"),
        ("due_at", 5),
        ("due_at", "0001-01-01T00:00:00+00:00"),
        ("deps", "one"),
        ("deps", [[1]]),
        ("assignee", 5),
        ("max_attempts", 0),
        ("max_attempts", 1.5),
        ("checker", 7),
        ("held", "yes"),
        ("id", "no spaces"),
        ("id", 7),
        ("follow_up_of", "../x"),
        ("follow_up_of", {}),
        ("holds", [{"kind": "approval", "prompt": "x"}]),
        ("holds", [{"kind": "question"}]),
        ("holds", [{"kind": "question", "prompt": 5}]),
        ("holds", [{"kind": "question", "prompt": "x", "options": [{"value": "a"}]}]),
        ("holds", "x"),
        ("status", "completed"),
        ("attempts", 3),
        ("stage", "x"),
        ("claimed_by", {}),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(desk: Desk, field: str, value: Any) -> None:
    answer = desk.by_key("file")("POST", "/boards/desk/tasks", {"goal": "New", field: value})
    assert (answer.status, answer.code) == (422, "invalid_input"), answer.body
    assert answer.body["field"] == field or field in {"deps", "follow_up_of"}, answer.body
    assert Task.objects.count() == 0


@pytest.mark.parametrize("option", ["wait", "deadline_ms"])
def test_a_filing_that_would_wait_is_refused_with_its_own_code(desk: Desk, option: str) -> None:
    for caller in (desk.by_key("file"), desk.signed_in()):
        one = caller("POST", "/boards/desk/tasks", {"goal": "Go", option: 30_000})
        assert (one.status, one.code, one.body["field"]) == (422, "create_task_does_not_wait", option)
        many = caller("POST", "/boards/desk/batch", {"tasks": [{"goal": "Go"}, {"goal": "On", option: True}]})
        assert (many.status, many.code, many.body["index"]) == (422, "create_task_does_not_wait", 1)
        beside = caller("POST", "/boards/desk/batch", {"tasks": [{"goal": "Go"}], option: True})
        assert (beside.status, beside.code) == (422, "create_task_does_not_wait")
    assert not Task.objects.exists()


def test_the_same_goal_twice_in_one_batch_is_refused(desk: Desk) -> None:
    answer = desk.by_key("file")("POST", "/boards/desk/batch", {"tasks": [{"goal": "Go"}, {"goal": "go "}]})
    assert (answer.status, answer.code, answer.body["index"]) == (409, "already_open", 1)
    assert "“Go”" in answer.detail


def test_a_message_to_what_only_waits_for_its_filed_tasks_is_refused(desk: Desk) -> None:
    parent = desk.filed(goal="Whole")
    claimed, worker = cast.claimed(desk.board), cast.agent_chain(desk.board)
    tasks.file_task(worker, desk.board, goal="Part", assignee="reader", filed_by_task=parent)
    tasks.complete(worker, parent, {"n": 1}, claim=claimed.ticket)
    call = desk.signed_in()
    answer = call("PATCH", f"/boards/desk/tasks/{parent.public_id}", {"message": "Be short."})
    assert (answer.status, answer.code) == (409, "message_not_supported")
    told = call("GET", f"/boards/desk/tasks/{parent.public_id}").body["task"]
    assert (told["status"], told["kept_open_by"], told["checkpoint"]) == ("in_progress", "filed", True)
    (listed,) = [one for one in call("GET", "/boards/desk/tasks").body["tasks"] if one["id"] == parent.public_id]
    assert listed["kept_open_by"] == "filed"
