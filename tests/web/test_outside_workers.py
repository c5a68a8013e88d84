"""What pages say of a name that is worked from outside: who has it, what it waits for, and how to connect one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.shortcuts import resolve_url

from boards import keys
from boards.models import RosterEntry, Task
from boards.queries.board import board_facts, cards
from boards.queries.needs_you import waiting
from boards.tasks import outside
from boards.templatetags.orchestra import render_card
from boards.workers import outside as verbs
from tests import cast
from tests.web.desk import Desk

pytestmark = pytest.mark.django_db
WAITS = "Waits for an outside worker to take it as “outside”."


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    RosterEntry.objects.create(board=made.board, name="outside", kind="pull", position=7)
    return made


def filed(desk: Desk, **fields: Any) -> Task:
    return desk.filed(assignee="outside", **fields)


def taken(desk: Desk) -> verbs.Given:
    """By a key of Anna's on laptop-7."""
    key, _ = keys.make(desk.chain, keys.KeyFields("codex", ["work"]))
    caller = keys.chain_of(key)
    place = verbs.place_for(caller, desk.board, [], "laptop-7")
    return verbs.claim(caller, place, 1, None, "")[0]


def page_of(desk: Desk, task: Task) -> str:
    answer = desk.client().get(resolve_url("web:task", "desk", task.public_id))
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def card(desk: Desk, task: Task) -> str:
    (view,) = cards(desk.board, [task.pk]).cards
    return str(render_card(view))


def test_a_ready_task_waits_for_an_outside_worker_and_for_no_drain(desk: Desk) -> None:
    task = filed(desk)
    for shown in (card(desk, task), page_of(desk, task)):
        assert WAITS in shown.replace("&quot;", '"')
        assert "No running drain" not in shown
    assert 'href="/me/keys/#outside"' in page_of(desk, task)


def test_what_else_it_waits_for_comes_first(desk: Desk) -> None:
    first = desk.filed(id="first")
    task = filed(desk, deps=[first.public_id])
    assert WAITS not in page_of(desk, task)
    assert WAITS not in card(desk, task)


def test_one_that_may_run_no_more_is_busy(desk: Desk) -> None:
    desk.board.roster.filter(name="outside").update(max_running=1)
    filed(desk, title="The first")
    taken(desk)
    shown = page_of(desk, filed(desk, goal="Another"))
    assert "outside is busy with “The first”." in shown


def test_a_task_at_work_says_by_which_key_and_where(desk: Desk) -> None:
    task = filed(desk)
    taken(desk)
    shown = page_of(desk, task)
    assert 'outside works on it (<span dir="auto">codex on laptop-7</span>)' in shown
    assert "by codex on laptop-7" in shown
    assert "Worker silent" not in shown


def test_a_host_is_text(desk: Desk) -> None:
    task = filed(desk)
    key, _ = keys.make(desk.chain, keys.KeyFields("<b>codex", ["work"]))
    caller = keys.chain_of(key)
    place = verbs.place_for(caller, desk.board, [], "<img src=x onerror=alert(1)>")
    verbs.claim(caller, place, 1, None, "")
    shown = page_of(desk, task)
    assert "<img" not in shown
    assert "&lt;b&gt;codex on &lt;img" in shown


def test_presence_says_that_it_works_from_outside(desk: Desk) -> None:
    client = desk.client(htmx=True)
    shown = client.get("/b/desk/presence").content.decode()
    assert "outside works from outside and takes its tasks by itself" in shown
    assert "No drain is running" in shown  # the others are started by one
    desk.board.roster.exclude(kind__in=["pull", "person"]).delete()
    shown = client.get("/b/desk/presence").content.decode()
    assert "No drain is running" not in shown
    filed(desk)
    taken(desk)
    assert "outside works on 1 task" in client.get("/b/desk/presence").content.decode()


def test_a_board_without_agents_still_says_that_no_drain_runs(desk: Desk) -> None:
    desk.board.roster.exclude(kind="person").delete()
    facts = board_facts(desk.space, "desk")
    assert facts.wants_drain


def test_a_lost_one_is_taken_up_by_the_next_claim(desk: Desk) -> None:
    task = filed(desk)
    taken(desk)
    Task.objects.filter(pk=task.pk).update(lease_until=Now() - timedelta(minutes=1))
    (row,) = waiting(desk.olga).rows
    assert (row.group, row.is_outside, row.is_served) == ("lost", True, False)
    shown = desk.client(desk.olga).get("/needs-you/").content.decode()
    assert "The next claim of an outside worker takes it up again." in shown
    assert "No drain that runs serves" not in shown


def test_no_page_says_that_a_lost_worker_works(desk: Desk) -> None:
    task = filed(desk, goal="Read the long book")
    taken(desk)
    client = desk.client(desk.olga)
    home, needs = client.get("/").content.decode(), client.get("/needs-you/").content.decode()
    assert "Worker lost" not in card(desk, task) + page_of(desk, task)
    assert home.count("Read the long book") == needs.count("Read the long book") == 1  # at work
    Task.objects.filter(pk=task.pk).update(lease_until=Now() - timedelta(minutes=1))
    shown = card(desk, task)
    assert "Its worker is lost: the lease ran out. The next claim takes the task up again." in shown
    assert "Worker lost" in shown
    assert "Worker lost" in page_of(desk, task)
    assert ", lost its worker</span>" in page_of(desk, task)  # of the attempt
    assert "works on 1 task" not in desk.client(htmx=True).get("/b/desk/presence").content.decode()
    assert "Nothing is being worked." in client.get("/needs-you/").content.decode()
    working = client.get("/").content.decode().partition('id="h-now"')[2].partition("</section>")[0]
    assert "Read the long book" not in working


def test_the_page_of_keys_says_how_to_connect_one(desk: Desk) -> None:
    shown = " ".join(desk.client().get("/me/keys/").content.decode().split())
    assert "Connect an outside worker" in shown
    assert '<b dir="auto">outside</b> on <bdi>Desk</bdi>.' in shown
    assert "http://testserver/api/v1/work/claim" in shown
    assert "&quot;board&quot;: &quot;desk&quot;" in shown or '"board": "desk"' in shown
    assert '<details class="panel attempt" id="outside" open>' in shown
    desk.board.roster.filter(kind="pull").delete()
    bare = " ".join(desk.client().get("/me/keys/").content.decode().split())
    assert "No board has one yet." in bare
    assert '<details class="panel attempt" id="outside">' in bare
    assert "Rosters, in the admin" not in bare


def test_an_operator_is_led_to_the_rosters(desk: Desk) -> None:
    desk.olga.user.is_staff = True
    desk.olga.user.save()
    shown = desk.client(desk.olga).get("/me/keys/").content.decode()
    assert '<a href="/admin/boards/board/">Rosters, in the admin</a>' in shown


def test_it_shows_no_names_of_another_space(desk: Desk) -> None:
    other = cast.make_board(cast.make_space("other"), "secret-desk")
    RosterEntry.objects.create(board=other, name="unseen", kind="pull")
    shown = desk.client().get("/me/keys/").content.decode()
    assert "unseen" not in shown
    assert "secret-desk" not in shown


def test_the_look_of_the_waiting_knows_the_same_names(desk: Desk) -> None:
    """What a page calls ready for an outside worker is what a claim of one finds."""
    filed(desk)
    assert outside.look([outside.Place(desk.board.pk, ("outside",), "")])[0][0] == 1
