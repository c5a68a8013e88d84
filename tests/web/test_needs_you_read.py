"""Rows that block nothing: a dot beside the count, marked as seen, filed again; and taking an answer back by hand."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from boards import people as engine
from boards.actors import person
from boards.models import Debt, Hold, Member, Task, TranscriptItem
from boards.queries.needs_you import needs_counts, waiting
from tests.web import people_cast as people

HTMX = {"HX-Request": "true"}
pytestmark = pytest.mark.django_db


@pytest.fixture
def who() -> people.Cast:
    return people.cast()


@pytest.fixture
def anna(who) -> Client:
    client = Client()
    client.force_login(who.anna.user)
    return client


def counts(member: Member) -> tuple[int, int]:
    found = needs_counts(member)
    listed = waiting(member).counts
    assert listed == found  # the page shows what the count says
    return found.blocking, found.to_read


def withdrawn(who: people.Cast, **fields) -> Task:
    late = {"status": "cancelled", "withdrawn": {"reason": "timeout"}, "completed_at": timezone.now()}
    return people.task(who, "Collect the changes", **(late | fields))


def test_a_withdrawn_task_is_read_marked_as_seen_and_filed_again_as_a_new_one(who, anna):
    task = withdrawn(who, input={"since": "2.3"}, context="Only ours.")
    assert counts(who.anna) == (0, 1)
    assert counts(who.ben) == (0, 0)
    page = anna.get("/needs-you/").content.decode()
    assert "The due time passed; it was withdrawn" in page
    assert 'id="needs-dot" data-n="1"' in page
    form = anna.get(f"/b/release-desk/new/?like={task.public_id}").content.decode()
    assert "Only ours." in form
    assert "since" in form
    anna.post("/needs-you/seen", {"key": f"withdrawn-{task.pk}"})
    assert counts(who.anna) == (0, 0)
    assert counts(who.olga) == (0, 1)  # to others it is still new


def test_what_was_withdrawn_long_ago_is_history(who):
    withdrawn(who, completed_at=timezone.now() - timedelta(days=8))
    assert counts(who.anna) == (0, 0)


def test_a_run_that_says_nothing_for_five_minutes_is_shown_until_it_speaks(who):
    task = people.task(who, "Dig", status="in_progress", attempts=1)
    assert counts(who.anna) == (0, 0)
    Task.objects.filter(pk=task.pk).update(updated_at=timezone.now() - timedelta(minutes=6))
    assert counts(who.anna) == (0, 1)
    [row] = waiting(who.anna).rows
    assert (row.group, row.words, row.blocks) == ("silent", "No output for 5 minutes", False)
    TranscriptItem.objects.create(task=task, attempt=1, kind="message", text="Still here")
    assert counts(who.anna) == (0, 0)


def test_a_notice_that_could_not_be_delivered_is_a_dot_and_any_other_lost_debt_is_counted(who):
    of = people.task(who, status="completed")
    for kind in ("notice", "cascade"):
        Debt.objects.create(kind=kind, unique_key=kind, task=of, state="undeliverable", last_error="No.", tries=9)
    assert counts(who.olga) == (1, 1)
    rows = waiting(who.olga).rows
    assert [(row.group, row.blocks) for row in rows] == [("debt", True), ("notice", False)]  # what blocks comes first


def test_only_what_wants_to_be_read_can_be_marked_as_seen(who, anna):
    people.hold(who, people.task(who, status="in_progress"))
    key = waiting(who.anna).rows[0].key
    assert anna.post("/needs-you/seen", {"key": key}, headers=HTMX).status_code == 404
    assert anna.post("/needs-you/seen", {"key": "withdrawn-1"}, headers=HTMX).status_code == 404
    assert counts(who.anna) == (1, 0)


def test_the_settle_time_is_set_on_the_page_and_the_answer_offers_its_undo(who, anna):
    assert anna.post("/needs-you/settle", {"seconds": "7"}).status_code == 302
    assert Member.objects.get(pk=who.anna.pk).settle_s == 7
    assert anna.post("/needs-you/settle", {"seconds": "70"}, headers=HTMX).status_code == 422
    hold = people.hold(who, people.task(who, status="in_progress", attempts=1))
    answer = anna.post(f"/holds/{hold.pk}/answer", {"choice": "safe", "from": "page", "key": "k"}, headers=HTMX)
    assert f'"undo": "/holds/{hold.pk}/undo"' in answer["HX-Trigger"]
    assert '"seconds": 7' in answer["HX-Trigger"]
    assert "data-undo" in answer.content.decode()
    assert f"/holds/{hold.pk}/undo" in anna.get("/needs-you/").content.decode()
    undone = anna.post(f"/holds/{hold.pk}/undo", headers=HTMX)
    assert undone.status_code == 204
    assert "is open again" in undone["HX-Trigger"]
    assert Hold.objects.get(pk=hold.pk).state == "open"
    assert anna.post(f"/holds/{hold.pk}/undo", headers=HTMX).status_code == 409


def test_a_get_takes_nothing_back(who, anna):
    engine.set_settle_time(person(who.anna), 7)
    hold = people.hold(who, people.task(who, status="in_progress", attempts=1))
    engine.answer_hold(person(who.anna), hold.pk, choice="safe")
    assert anna.get(f"/holds/{hold.pk}/undo").status_code == 405
    assert Hold.objects.get(pk=hold.pk).state == "answered"


def test_a_gate_says_who_sends_it(who, anna):
    of = people.task(who, status="in_progress")
    mine = people.hold(who, of, "gate", draft="Dear all", draft_hash="h1")
    ours = people.hold(
        who, of, "gate", draft="Dear all", draft_hash="h2", outlet="https://hooks.example.org/x?k=secret"
    )
    own, product = (anna.get(f"/holds/{hold.pk}/").content.decode() for hold in (mine, ours))
    assert "On a yes writer gets exactly this back and sends it." in own
    assert "On a yes Orchestra sends exactly this to hooks.example.org." in product
    assert "k=secret" not in product


def test_a_question_is_handed_on_to_a_person_or_a_role(who, anna):
    hold = people.hold(who, people.task(who, status="in_progress"))
    assert anna.post(f"/holds/{hold.pk}/assign", {"to": "ben"}, headers=HTMX).status_code == 204
    assert counts(who.anna) == (0, 0)
    assert counts(who.ben) == (1, 0)
    assert anna.post(f"/holds/{hold.pk}/assign", {"to": "anna"}, headers=HTMX).status_code == 404  # no longer hers
    olga = Client()
    olga.force_login(who.olga.user)
    assert olga.post(f"/holds/{hold.pk}/assign", {"to": "nobody"}, headers=HTMX).status_code == 422
    assert olga.post(f"/holds/{hold.pk}/assign", {"to": ""}, headers=HTMX).status_code == 204
    assert counts(who.anna) == (1, 0)


def test_filters_by_agent_and_by_flow(who):
    people.hold(who, people.task(who, status="in_progress"), title="A writer's", asker="writer")
    people.hold(who, people.task(who, status="in_progress"), title="A shell's", asker="shell")
    people.approval(who)
    found = waiting(who.anna)
    assert [(facet.value, facet.count) for facet in found.flows] == [("release-notes", 1)]
    assert [row.title for row in waiting(who.anna, agent="shell").rows] == ["A shell's"]
    assert {row.flow_key for row in waiting(who.anna, flow="release-notes").rows} == {"release-notes"}


def test_the_frame_the_heading_and_home_say_the_same_in_the_same_words(who, anna):
    withdrawn(who)
    for _ in range(2):
        people.hold(who, people.task(who, status="in_progress"))
    page = re.sub(r"\s+", " ", anna.get("/needs-you/").content.decode())
    frame = re.sub(r"<[^>]+>", "", page.partition('id="needs-count"')[2].partition("</a>")[0])
    assert "2 wait for you" in frame
    assert "1 to read" in frame
    head = re.sub(r"<[^>]+>", "", page.partition('id="needs-sum"')[2].partition("</p>")[0])
    assert "2 wait for you, 1 to read" in head
    assert "in this list" not in head
    narrowed = re.sub(r"\s+", " ", anna.get("/needs-you/?kind=late").content.decode())
    head = re.sub(r"<[^>]+>", "", narrowed.partition('id="needs-sum"')[2].partition("</p>")[0])
    assert "2 wait for you, 1 to read; 1 in this list" in head
    home = re.sub(r"<[^>]+>", "", re.sub(r"\s+", " ", anna.get("/").content.decode()))
    assert "2 wait for you, 1 to read" in home
