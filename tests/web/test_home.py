"""Home and the list of boards: counts, what waits, what runs, what ended; and the frame of every page."""

from __future__ import annotations

import pytest
from django.test import Client

from boards import tasks
from boards.models import SERVER_ONLY_TASK_FIELDS, Board, Member
from boards.queries.home import DAYS, board_cards, recent_endings
from boards.wire import task_wire
from tests.cast import agent_chain, chain_of, claimed, filed, make_board, make_member, make_space, put_on_roster

pytestmark = pytest.mark.django_db


@pytest.fixture
def anna() -> Member:
    return make_member(make_space())


@pytest.fixture
def board(anna: Member) -> Board:
    return make_board(anna.space)


@pytest.fixture
def page(client: Client, anna: Member, board: Board) -> Client:
    client.force_login(anna.user)
    return client


def test_home_shows_what_waits_runs_and_ended(page: Client, board: Board, anna: Member) -> None:
    put_on_roster(board, anna)
    filed(board, chain_of(anna), "Choose the picture", assignee="anna")
    filed(board, chain_of(anna), "Runs now")
    filed(board, chain_of(anna), "Ended well")
    claimed(board)
    ended = claimed(board)
    tasks.complete(agent_chain(board), ended.task, {}, claim=ended.ticket)
    html = page.get("/").content.decode()
    for words in ("Choose the picture", "Runs now", "Ended well", "1 waits for you"):
        assert words in html
    assert "<title>(1) Home" in html
    assert "mark-you.svg" in html


def test_an_empty_space_says_what_to_do(client: Client, anna: Member) -> None:
    client.force_login(anna.user)
    assert "An operator makes one in the admin." in client.get("/").content.decode()
    assert "Nothing needs you" in client.get("/").content.decode()
    assert "0 boards in Halyard" in client.get("/b/").content.decode()


def test_other_spaces_stay_out_of_the_lists(page: Client) -> None:
    stranger = make_member(make_space("other"), "olga")
    filed(make_board(stranger.space, "secret"), chain_of(stranger), "Secret goal")
    for address in ("/", "/b/"):
        html = page.get(address).content.decode()
        assert "Secret" not in html


def test_boards_are_counted_by_status_and_by_day(board: Board, anna: Member) -> None:
    for n in range(3):
        filed(board, chain_of(anna), f"Task {n}")
    one = claimed(board)
    tasks.complete(agent_chain(board), one.task, {}, claim=one.ticket)
    card = board_cards(anna)[0]
    assert dict(card.shown)["pending"] == 2
    assert card.done_lately == 1
    assert len(card.days) == DAYS
    assert recent_endings(anna)[0].title == one.task.goal


def test_lists_cost_the_same_for_many_boards(
    page: Client, anna: Member, board: Board, django_assert_max_num_queries: pytest.FixtureRequest
) -> None:
    for n in range(12):
        filed(make_board(anna.space, f"board-{n}"), chain_of(anna))
    with django_assert_max_num_queries(10):  # type: ignore[operator]
        page.get("/b/")
    with django_assert_max_num_queries(20):  # type: ignore[operator]
        page.get("/")


def test_what_leaves_the_system_holds_no_server_only_field(board: Board, anna: Member) -> None:
    wire = task_wire(filed(board, chain_of(anna)), deps=("t9",))
    assert not SERVER_ONLY_TASK_FIELDS & wire.keys()
    assert (wire["id"], wire["deps"], wire["status"]) == ("t1", ["t9"], "pending")
    assert "checkpoint" not in wire


def test_pages_are_private_and_say_what_they_are_when_missing(page: Client, client: Client) -> None:
    assert page.get("/")["Cache-Control"] == "private, no-cache"
    missing = page.get("/nothing/here")
    assert missing.status_code == 404
    assert "There is nothing here" in missing.content.decode()


def test_a_form_without_its_token_is_told_to_load_again(anna: Member) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(anna.user)
    refused = strict.post("/sign-out/")
    assert refused.status_code == 403
    assert "too old to act" in refused.content.decode()


def test_home_shows_eight_of_what_waits(page: Client, board: Board, anna: Member) -> None:
    put_on_roster(board, anna)
    for number in range(9):
        filed(board, chain_of(anna), f"Part {number}", assignee="anna")
    html = page.get("/").content.decode()
    assert html.count('class="row"') == 8
    assert "Show 1 more" in html
