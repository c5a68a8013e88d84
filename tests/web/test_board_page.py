"""The board page: lanes, filters, further pages, presence, and a number of queries that does not grow."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client

from boards import people, tasks
from boards.models import Board, Member, Process, Role, Space, Task
from boards.queries.filters import BoardFilter
from boards.queries.lanes import FIRST, PAGE
from boards.states import Status
from tests.cast import (
    READER,
    WRITER,
    agent_chain,
    chain_of,
    claimed,
    filed,
    make_board,
    make_member,
    make_space,
    put_on_roster,
)

pytestmark = pytest.mark.django_db

HTMX = {"HTTP_HX_REQUEST": "true"}


@pytest.fixture
def space() -> Space:
    return make_space()


@pytest.fixture
def anna(space: Space) -> Member:
    return make_member(space)


@pytest.fixture
def board(space: Space) -> Board:
    return make_board(space)


@pytest.fixture
def page(client: Client, anna: Member) -> Client:
    client.force_login(anna.user)
    return client


def shown(client: Client, address: str = "/b/desk/", **headers: str) -> str:
    response = client.get(address, **headers)
    assert response.status_code == 200
    return response.content.decode()


def lane(html: str, status: str) -> str:
    """The cards of one lane."""
    found = re.search(rf'id="lane-{status}"[^>]*>(.*?)</div>\s*<p class="lane-empty"', html, re.DOTALL)
    assert found, status
    return found[1]


def count(html: str, status: str) -> int:
    found = re.search(rf'id="count-{status}"[^>]*>(\d+)<', html)
    assert found, status
    return int(found[1])


def test_each_status_has_its_lane_and_its_card(page: Client, anna: Member, board: Board) -> None:
    chain = chain_of(anna)
    filed(board, chain, "Stays ready", assignee=READER)
    filed(board, chain, "Is held", held=True)
    for goal in ("Is worked", "Is stuck", "Is done"):
        filed(board, chain, goal)
    filed(board, chain, "Is to be checked", checker="person")
    worked, stuck, done, to_check = (claimed(board) for _ in range(4))
    tasks.fail(agent_chain(board), stuck.task, "It broke.", claim=stuck.ticket)
    tasks.complete(agent_chain(board), done.task, {}, claim=done.ticket)
    tasks.complete(agent_chain(board), to_check.task, {}, claim=to_check.ticket)
    tasks.cancel(chain, filed(board, chain, "Is skipped", assignee=READER), "No longer wanted.")
    html = shown(page)
    assert worked.task.goal == "Is worked"
    for status, goal in {
        "pending": "Stays ready",
        "held": "Is held",
        "in_progress": "Is worked",
        "needs_check": "Is to be checked",
        "errored": "Is stuck",
        "completed": "Is done",
        "cancelled": "Is skipped",
    }.items():
        assert goal in lane(html, status)
        assert count(html, status) == 1
    assert "It broke." in lane(html, "errored")
    assert "No longer wanted." in lane(html, "cancelled")
    assert "Accept or send back" in lane(html, "needs_check")


def test_three_hundred_tasks_cost_no_more_queries_than_one(
    page: Client, anna: Member, board: Board, django_assert_max_num_queries: pytest.FixtureRequest
) -> None:
    filed(board, chain_of(anna), "The only one")
    shown(page)
    chain = chain_of(anna)
    tasks.file_tasks(chain, board, [tasks.Filing(goal=f"Task {n}", assignee=WRITER) for n in range(300)])
    with django_assert_max_num_queries(10):  # type: ignore[operator]
        html = shown(page)
    assert count(html, "pending") == 301
    assert html.count("<article") == PAGE


def test_a_long_lane_pages_by_place_and_shows_each_card_once(page: Client, anna: Member, board: Board) -> None:
    chain = chain_of(anna)
    tasks.file_tasks(chain, board, [tasks.Filing(goal=f"Task {n}") for n in range(1, PAGE + 24)])
    html = shown(page)
    seen = re.findall(r'<article[^>]*data-sort="([^"]+)"', html)
    more = re.search(r'id="more-pending"[^>]*hx-get="([^"]+)"', html)
    assert more
    assert f"<span data-left>{23}</span>" in html
    rest = shown(page, more[1].replace("&amp;", "&"), **HTMX)
    seen += re.findall(r'<article[^>]*data-sort="([^"]+)"', rest)
    assert seen == sorted(seen)
    assert len(set(seen)) == PAGE + 23
    assert 'id="more-pending" hx-swap-oob="true"' in rest
    assert " hidden>" in rest
    first = re.findall(r"Task (\d+)<", html)
    assert first[:3] == ["1", "2", "3"]  # one batch reads as it was filed


def test_done_begins_shorter_because_what_is_over_steps_back(page: Client, anna: Member, board: Board) -> None:
    chain = chain_of(anna)
    for n in range(FIRST[Status.COMPLETED] + 2):
        filed(board, chain, f"Task {n}")
        one = claimed(board)
        tasks.complete(agent_chain(board), one.task, {}, claim=one.ticket)
    html = shown(page)
    assert lane(html, "completed").count("<article") == FIRST[Status.COMPLETED]
    assert count(html, "completed") == FIRST[Status.COMPLETED] + 2


@pytest.mark.parametrize(
    "after", ["", "x", "0123", "0" * 20, "9" * 60, "0" + "9" * 19 + "t1", "\u0660" * 30, "0" * 19 + "1\0"]
)
def test_a_place_that_is_none_shows_nothing_more(page: Client, anna: Member, board: Board, after: str) -> None:
    filed(board, chain_of(anna))
    response = page.get("/b/desk/", {"lane": "pending", "after": after or "-"}, **HTMX)
    assert response.status_code == 200
    assert page.get("/b/desk/", {"lane": "nowhere", "after": "x"}, **HTMX).status_code == 404


def test_filters_narrow_cards_and_counts_and_stand_in_the_address(page: Client, anna: Member, board: Board) -> None:
    chain = chain_of(anna)
    filed(board, chain, "Paint the fence")
    filed(board, chain, "Paint the door", assignee=READER)
    filed(board, chain_of(make_member(board.space, "bert")), "Mow the lawn", assignee="")
    for query, goals in {
        "q=PAINT": {"fence", "door"},
        "q=paint&assignee=reader": {"door"},
        "assignee=-": {"lawn"},
        "mine=1": {"fence", "door"},
        "q=%00": {"fence", "door", "lawn"},
        "q=%25": set(),
    }.items():
        html = shown(page, f"/b/desk/?{query}")
        assert {goal for goal in ("fence", "door", "lawn") if goal in lane(html, "pending")} == goals
        assert count(html, "pending") == len(goals)
    assert 'data-live-filter="q=paint"' in shown(page, "/b/desk/?q=paint")


def test_mine_is_what_i_filed_and_what_is_assigned_to_me(page: Client, anna: Member, board: Board) -> None:
    put_on_roster(board, anna)
    bert = chain_of(make_member(board.space, "bert"))
    filed(board, bert, "For Anna", assignee="anna")
    filed(board, bert, "For the writer")
    html = shown(page, "/b/desk/?mine=1")
    assert "For Anna" in html
    assert "For the writer" not in html


def test_a_fragment_request_gets_the_lanes_alone(page: Client, anna: Member, board: Board) -> None:
    filed(board, chain_of(anna))
    part = shown(page, "/b/desk/?q=notes", **HTMX)
    assert part.startswith('<div class="lanes" id="lanes"')
    assert "<html" not in part
    assert "<html" in shown(page, "/b/desk/", **HTMX, HTTP_HX_HISTORY_RESTORE_REQUEST="true")


def test_a_filter_reads_the_same_from_its_own_query_string() -> None:
    given = BoardFilter("a & b", "writer", 7)
    parts = {"q": "a & b", "assignee": "writer", "mine": "1"}
    assert BoardFilter.from_query(parts, 7) == given
    assert given.query_string() == "q=a+%26+b&assignee=writer&mine=1"
    assert not BoardFilter.from_query({"q": " \x00\ud800 "}, 7)


def test_presence_counts_only_drains_that_beat(page: Client, anna: Member, board: Board) -> None:
    assert "No drain is running" in shown(page)
    pairs = [f"{board.pk}:{WRITER}"]
    Process.objects.create(kind="drain", host="here", pid=1, slots=4, busy=2, assignees=pairs)
    Process.objects.create(kind="drain", host="elsewhere", pid=2, slots=4, boards=[board.pk + 1])
    silent = Process.objects.create(kind="drain", host="gone", pid=3, slots=4)
    Process.objects.filter(pk=silent.pk).update(beat_at=Now() - timedelta(seconds=31))
    html = shown(page, "/b/desk/presence", **HTMX)
    assert "1 drain, 2 of 4 slots" in html
    assert "No running drain serves reader" in html
    assert "writer is idle" in html


def test_pausing_says_so_and_resuming_takes_it_back(page: Client, anna: Member, board: Board) -> None:
    response = page.post("/b/desk/pause", {"paused": "1"}, **HTMX)
    assert "Resume board" in response.content.decode()
    assert "Paused" in response["HX-Trigger"]
    assert Board.objects.get().paused
    assert page.post("/b/desk/pause", {"paused": "0"}).status_code == 302
    assert not Board.objects.get().paused


def test_a_viewer_sees_the_board_and_may_not_act(client: Client, board: Board, anna: Member) -> None:
    filed(board, chain_of(anna))
    client.force_login(make_member(board.space, "vera", Role.VIEWER).user)
    html = shown(client)
    assert 'class="role-viewer ' in html
    assert 'id="quick"' not in html
    response = client.post("/b/desk/file", {"line": "Mine"}, **HTMX)
    assert "may not do this" in response.content.decode()
    assert client.post("/b/desk/pause", {"paused": "1"}, **HTMX).status_code == 403
    assert Task.objects.count() == 1


def test_a_stranger_finds_nothing_and_a_guest_is_sent_to_sign_in(client: Client, board: Board) -> None:
    assert client.get("/b/desk/")["Location"] == "/sign-in/?next=/b/desk/"
    fragment = client.get("/b/desk/", **HTMX, HTTP_HX_CURRENT_URL="http://testserver/b/desk/?q=a")
    assert fragment.status_code == 401
    assert fragment["HX-Redirect"] == "/sign-in/?next=/b/desk/%3Fq%3Da"
    client.force_login(make_member(make_space("other"), "olga").user)
    for address in ("/b/desk/", "/b/desk/presence"):
        assert client.get(address).status_code == 404
    assert client.post("/b/desk/file", {"line": "Mine"}).status_code == 404
    assert client.post("/b/desk/pause", {"paused": "1"}).status_code == 404


def test_no_key_of_a_row_reaches_the_browser(page: Client, anna: Member, board: Board) -> None:
    with connection.cursor() as cursor:
        cursor.execute("select setval(pg_get_serial_sequence('boards_task', 'pk'), 987654320)")
    task = filed(board, chain_of(anna), "Look for my key")
    assert task.pk == 987654321
    assert "987654321" not in shown(page)


def test_an_open_question_is_asked_on_the_card(page: Client, anna: Member, board: Board) -> None:
    filed(board, chain_of(anna))
    one = claimed(board)
    people.open_hold(agent_chain(board), claim=one.ticket, kind="question", prompt="Which name stays?\nThe rest.")
    card = lane(shown(page), "in_progress")
    assert "Which name stays?</span>" in card
    assert "The rest." not in card
    assert 'data-you="any"' in card
