"""What waits on people over HTTP: the list, a question, its answer, and who is too late."""

from __future__ import annotations

import pytest

from boards import tasks
from boards.models import Hold
from boards.tasks import Filing, HoldFiling, file_task
from tests import cast
from tests.api.cast import Desk

pytestmark = pytest.mark.django_db


def test_the_list_is_that_of_needs_you_page_by_page(desk: Desk) -> None:
    approval = desk.asked()
    question = desk.asked("question", prompt="Which one?", options=[{"value": "a"}, {"value": "b"}])
    check = desk.handed_in()
    caller = desk.by_key("read")
    first = caller("GET", "/waiting?limit=2").body
    second = caller("GET", f"/waiting?limit=2&cursor={first['next']}").body
    rows = first["waiting"] + second["waiting"]
    assert [(row["kind"], row["hold"], row["task"]) for row in rows] == [
        ("approval", approval.pk, approval.task.public_id),
        ("question", question.pk, question.task.public_id),
        ("check", None, check.public_id),
    ]
    assert (first["total"], second["next"]) == (3, None)
    assert rows[0]["if_nobody"]
    assert [row["kind"] for row in caller("GET", "/waiting?kind=check").body["waiting"]] == ["check"]
    assert caller("GET", "/waiting?whose=mine").body["total"] == 3
    assert caller("GET", "/waiting?whose=theirs").code == "invalid_input"


def test_a_page_goes_on_where_the_row_that_ended_the_last_one_was_answered(desk: Desk) -> None:
    holds = [desk.asked() for _ in range(3)]
    caller = desk.by_key("read", "decide")
    first = caller("GET", "/waiting?limit=1").body
    caller("POST", f"/holds/{holds[0].pk}/answer", {"choice": "approve", "shown_hash": holds[0].draft_hash})
    second = caller("GET", f"/waiting?limit=1&cursor={first['next']}").body
    assert [row["hold"] for row in second["waiting"]] == [holds[1].pk]


def test_a_question_is_read_and_answered_by_what_it_offers(desk: Desk) -> None:
    hold = desk.asked("question", prompt="Which one?", options=[{"value": "a", "label": "The first"}, {"value": "b"}])
    caller = desk.by_key("read", "decide", name="decider")
    told = caller("GET", f"/holds/{hold.pk}").body["hold"]
    assert told["choices"] == [{"value": "a", "label": "The first"}, {"value": "b", "label": "b"}]
    assert (told["state"], told["asker"], told["what_happened"]) == ("open", "writer", "")
    wrong = caller("POST", f"/holds/{hold.pk}/answer", {"choice": "c"})
    assert (wrong.status, wrong.code, wrong.detail) == (422, "invalid_input", "Choose one of: a, b.")
    answer = caller("POST", f"/holds/{hold.pk}/answer", {"choice": "a", "text": "Obviously"}).body["hold"]
    assert (answer["state"], answer["answer"]) == ("answered", {"choice": "a", "text": "Obviously"})
    assert answer["answered_by"] == "decider for Anna"
    assert answer["what_happened"].startswith("decider for Anna answered “The first” at ")


def test_an_approval_is_bound_to_what_was_read(desk: Desk) -> None:
    hold = desk.asked()
    caller = desk.by_key("read", "decide")
    path = f"/holds/{hold.pk}/answer"
    assert caller("POST", path, {"choice": "approve"}).code == "draft_changed"
    assert caller("POST", path, {"choice": "approve", "shown_hash": "0" * 64}).status == 409
    shown = caller("GET", f"/holds/{hold.pk}").body["hold"]["draft_hash"]
    assert caller("POST", path, {"choice": "approve", "shown_hash": shown}).status == 200


def test_who_comes_second_is_told_who_what_and_when_and_how_it_stands(desk: Desk) -> None:
    hold = desk.asked()
    told = {"choice": "approve", "shown_hash": hold.draft_hash}
    assert desk.signed_in(desk.ben)("POST", f"/holds/{hold.pk}/answer", told).status == 200
    late = desk.by_key("decide")("POST", f"/holds/{hold.pk}/answer", told | {"choice": "reject"})
    assert (late.status, late.code) == (409, "already_answered")
    assert late.detail.startswith("Ben approved this at ")
    assert late.body["hold"]["answer"] == {"choice": "approve", "text": ""}


def test_a_form_is_filled_in_as_its_schema_says(desk: Desk) -> None:
    schema = {"type": "object", "properties": {"pages": {"type": "integer"}}, "required": ["pages"]}
    hold = desk.asked("input", schema=schema)
    caller = desk.by_key("decide")
    wrong = caller("POST", f"/holds/{hold.pk}/answer", {"values": {"pages": "many"}})
    assert (wrong.status, wrong.code) == (422, "invalid_input")
    assert caller("POST", f"/holds/{hold.pk}/answer", {"values": {"pages": 3}}).status == 200
    assert Hold.objects.get(pk=hold.pk).answer["values"] == {"pages": 3}


def test_a_dismissed_question_is_over(desk: Desk) -> None:
    hold = desk.asked("question")
    caller = desk.by_key("decide")
    answer = caller("POST", f"/holds/{hold.pk}/dismiss", {"reason": "Never mind"})
    assert (answer.status, answer.body["hold"]["state"]) == (200, "discarded")
    assert "Never mind" in answer.body["hold"]["what_happened"]
    again = caller("POST", f"/holds/{hold.pk}/dismiss")
    assert (again.status, again.code) == (409, "already_answered")


def test_what_is_asked_of_somebody_else_is_not_there(desk: Desk) -> None:
    cast.put_on_roster(desk.board, desk.ben)
    hold = desk.asked(assignee="ben")
    told = {"choice": "approve", "shown_hash": hold.draft_hash}
    assert desk.by_key("read", "decide")("POST", f"/holds/{hold.pk}/answer", told).code == "not_found"
    assert desk.by_key("decide", of=desk.ben)("POST", f"/holds/{hold.pk}/answer", told).status == 200


def test_a_key_sees_its_own_boards_and_partition_in_the_list(desk: Desk) -> None:
    apart = cast.make_board(desk.space, "apart", partition_by="session")
    filing = Filing("Mine", assignee=cast.WRITER, holds=[HoldFiling("confirm", "Really?")])
    theirs = file_task(desk.chain, apart, filing).holds.get()
    caller = desk.by_key("read", "file")
    own = caller("POST", "/boards/apart/tasks", {"goal": "Own", "holds": [{"kind": "confirm", "prompt": "Well?"}]})
    assert own.status == 201
    desk.asked()
    rows = caller("GET", "/waiting").body["waiting"]
    assert {(row["board"], row["title"]) for row in rows} == {("apart", "Well?"), ("desk", "Shall it go out?")}
    assert caller("GET", f"/holds/{theirs.pk}").code == "not_found"
    elsewhere = desk.by_key("read", boards=[desk.attic])
    assert elsewhere("GET", "/waiting").body["waiting"] == []
    # Anna herself finds what her agent asked in its own partition.
    assert "Well?" in {row["title"] for row in desk.signed_in()("GET", "/waiting").body["waiting"]}


def test_what_an_agent_filed_for_a_member_and_got_stuck_is_that_members(desk: Desk) -> None:
    desk.by_key("file")("POST", "/boards/desk/tasks", {"goal": "Try", "assignee": "writer"})
    claimed = cast.claimed(desk.board)
    tasks.fail(cast.agent_chain(desk.board), claimed.task, "It broke", claim=claimed.ticket)
    rows = desk.signed_in()("GET", "/waiting?whose=mine").body["waiting"]
    assert [(row["kind"], row["task"], row["acts"]) for row in rows] == [
        ("stuck", claimed.task.public_id, rows[0]["acts"])
    ]
    assert "retry" in rows[0]["acts"]
    assert desk.signed_in(desk.ben)("GET", "/waiting?whose=mine").body["waiting"] == []
