"""What a card says: its badges, its strip, its reasons; and that hostile text stays text."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from boards import tasks
from boards.models import Board, Member, Process, Task
from boards.queries.board import board_facts, cards
from boards.queries.cards import Ask, CardView, task_dom_id
from boards.queries.lanes import place
from boards.tasks.types import HoldFiling
from boards.templatetags.orchestra import age_words, render_card
from tests.cast import (
    HERE,
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

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
PLAIN = CardView("t-1", "desk", "t1", 1, "pending", "0x", "Water the plants", NOON)


@pytest.fixture
def anna() -> Member:
    return make_member(make_space())


@pytest.fixture
def board(anna: Member) -> Board:
    return make_board(anna.space)


def card_of(board: Board, task: Task) -> CardView:
    update = cards(board, [task.pk])
    assert not update.gone
    return update.cards[0]


@pytest.mark.parametrize(
    ("changes", "badges"),
    [
        ({}, []),
        ({"waits_for": 2}, ["waiting"]),
        ({"waits_for": 2, "due_at": NOON, "attempt": "2/3"}, ["waiting", "due"]),
        ({"due_at": NOON, "attempt": "2/3", "follow_up": True}, ["due", "attempt"]),
        ({"stopping": True, "attempt": "2"}, ["stopping", "attempt"]),
    ],
)
def test_a_card_carries_at_most_two_badges_in_their_order(changes: dict[str, object], badges: list[str]) -> None:
    assert replace(PLAIN, **changes).badges == badges  # type: ignore[arg-type]


def test_a_card_says_what_it_waits_for(board: Board, anna: Member) -> None:
    first = filed(board, chain_of(anna), "Sign the packages")
    second = filed(board, chain_of(anna), "Upload them", deps=[first.public_id])
    card = card_of(board, second)
    assert card.waits_for == 1
    assert card.blocked_by == (("Sign the packages", "pending"),)
    assert 'title="Sign the packages"' in render_card(card)
    assert "Waiting on 1" in render_card(card)


def test_a_dependency_that_ended_otherwise_is_named_with_the_way_out(board: Board, anna: Member) -> None:
    first = filed(board, chain_of(anna), "Sign the packages")
    second = filed(board, chain_of(anna), "Upload them", deps=[first.public_id])
    Task.objects.filter(pk=first.pk).update(status="errored", completed_at=timezone.now())
    assert "“Sign the packages” ended without completing." in render_card(card_of(board, second))


def test_a_ready_card_that_no_drain_serves_says_so(board: Board, anna: Member) -> None:
    task = filed(board, chain_of(anna))
    assert "No running drain serves “writer”." in render_card(card_of(board, task))
    Process.objects.create(kind="drain", host="here", pid=1, assignees=[f"{board.pk}:{WRITER}"])
    assert "No running drain" not in render_card(card_of(board, task))


def test_a_card_that_is_assigned_to_nobody_names_whom_it_falls_to(board: Board, anna: Member) -> None:
    board.default_worker = READER
    board.save()
    task = filed(board, chain_of(anna), assignee="")
    shown = render_card(card_of(board, task))
    assert READER in shown
    assert "by default" in shown
    tasks.cancel(chain_of(anna), task, "Not wanted")
    assert "by default" not in render_card(card_of(board, task))


def test_progress_is_a_note_and_a_meter(board: Board, anna: Member) -> None:
    filed(board, chain_of(anna))
    one = claimed(board)
    tasks.report_progress(
        agent_chain(board), one.task, output={"done": 31, "total": 54}, note="31 of 54", claim=one.ticket
    )
    html = render_card(card_of(board, one.task))
    assert '<progress class="meter" value="31" max="54"' in html
    assert "31 of 54" in html
    for odd in ({"done": 5, "total": 2}, {"done": "x", "total": 3}, {"done": -1, "total": 3}, [1], {"total": 0}):
        tasks.report_progress(agent_chain(board), one.task, output=odd, claim=one.ticket)
        assert "<progress" not in render_card(card_of(board, one.task))


def test_the_next_try_is_counted(board: Board, anna: Member) -> None:
    filed(board, chain_of(anna), max_attempts=3)
    one = claimed(board)
    assert card_of(board, one.task).attempt == ""
    tasks.fail(agent_chain(board), one.task, "It broke.", claim=one.ticket)
    assert card_of(board, one.task).attempt == "2/3"
    assert card_of(board, claimed(board).task).attempt == "2/3"


def test_the_strip_names_the_question_the_check_or_the_person(board: Board, anna: Member) -> None:
    put_on_roster(board, anna)
    asked = filed(board, chain_of(anna), holds=[HoldFiling("confirm", "Really?")])
    mine = filed(board, chain_of(anna), "For Anna", assignee="anna")
    filed(board, chain_of(anna), "To be checked", checker="person", assignee=READER)
    one = claimed(board, READER)
    tasks.complete(agent_chain(board, READER), one.task, {}, claim=one.ticket)
    assert card_of(board, asked).ask == Ask("Really?", "any", "confirm")
    assert card_of(board, mine).ask == Ask("", str(anna.user_id), "start", name="Anna")
    assert card_of(board, one.task).ask == Ask("", "any", "check")


def test_a_live_card_names_no_reader_and_the_first_paint_marks_mine() -> None:
    card = replace(PLAIN, ask=Ask("", "7", "start", name="Anna"))
    assert 'data-you="7"' in render_card(card)
    assert "is-mine" not in render_card(card)
    assert "is-mine" in render_card(card, is_mine=True)


def test_equal_cards_are_rendered_once_and_their_ages_still_pass() -> None:
    card = replace(PLAIN, since=timezone.now() - timedelta(minutes=26))
    older = replace(PLAIN, since=timezone.now() - timedelta(days=3))
    assert ">26 min</time>" in render_card(card)
    assert ">3 d</time>" in render_card(older)
    assert "\x01" not in render_card(card)


def test_an_old_mark_in_a_text_is_only_text() -> None:
    html = render_card(replace(PLAIN, title="a \x01age 0\x01 b \x01age <b>\x01"))
    assert "<b>" not in html


def test_no_text_can_name_a_moment_that_breaks_the_board() -> None:
    far = "a \x01age 999999999999\x01 b"
    assert "age 999999999999" in render_card(replace(PLAIN, title=far))
    assert ">26 min</time>" in render_card(replace(PLAIN, title=far, since=timezone.now() - timedelta(minutes=26)))


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=alert(1)>",
        '<div hx-post="/x" hx-trigger="load">x</div>',
        '"><script>alert(1)</script>',
        "{{ secret }}{% now %}",
    ],
)
def test_hostile_text_stays_text(client: Client, board: Board, anna: Member, text: str) -> None:
    filed(board, chain_of(anna), text, title=text)
    filed(board, chain_of(anna), "It fails", assignee=READER)
    one = claimed(board, READER)
    tasks.report_progress(agent_chain(board), one.task, note=text, claim=one.ticket)
    tasks.fail(agent_chain(board), one.task, text, claim=one.ticket)
    client.force_login(anna.user)
    html = client.get("/b/desk/").content.decode()
    for bare in ("<img src=x", '<div hx-post="/x"', "<script>alert"):
        assert bare not in html


@pytest.mark.parametrize("goal", ["🎻🎺🥁", "مهمة بالعربية", "日本語の題名", "e\u0301" * 50, "W" * 10_000])
def test_titles_of_any_script_and_length_are_shown_and_cut(board: Board, anna: Member, goal: str) -> None:
    card = card_of(board, filed(board, chain_of(anna), goal))
    assert goal.startswith(card.title)
    assert 0 < len(card.title) <= 200
    assert 'dir="auto"' in render_card(card)


def test_a_dom_id_depends_on_the_task_alone_and_cannot_be_chosen() -> None:
    assert task_dom_id(1, "t1") == task_dom_id(1, "t1")
    assert len({task_dom_id(1, "t1"), task_dom_id(2, "t1"), task_dom_id(1, "t2"), task_dom_id(1, "t1", "p")}) == 4
    assert task_dom_id(1, "needs-count").startswith("t-")


def test_places_put_the_newest_first_and_questions_ahead_of_work() -> None:
    newer, older = place("pending", 2_000_000, "t1", False), place("pending", 1_000_000, "t2", False)
    assert newer < older
    assert place("pending", 5, "t9", False) < place("pending", 5, "t10", False)
    assert place("in_progress", 1, "t1", True) < place("in_progress", 9, "t2", False)


def test_what_does_not_match_or_is_gone_is_told(board: Board, anna: Member) -> None:
    task = filed(board, chain_of(anna))
    elsewhere = filed(make_board(anna.space, "other"), chain_of(anna))
    update = cards(board, [task.pk, elsewhere.pk, 999_999])
    assert [card.public_id for card in update.cards] == [task.public_id]
    assert update.gone == sorted([elsewhere.pk, 999_999])


def test_the_board_brings_the_cursor_that_its_socket_goes_on_from(board: Board) -> None:
    facts = board_facts(board.space_id, "desk")
    assert len(facts.cursor.split(":")) == 4


@pytest.mark.parametrize(
    ("seconds", "words"), [(-5, "0 s"), (59, "59 s"), (60, "1 min"), (7_199, "1 h"), (86_400, "1 d"), (9e6, "104 d")]
)
def test_ages_have_one_unit(seconds: float, words: str) -> None:
    assert age_words(seconds) == words


@pytest.mark.parametrize(
    ("beat_s", "stopped", "silent"), [(1, False, False), (14, False, False), (16, False, True), (1, True, True)]
)
def test_a_card_says_that_its_worker_is_silent_and_when_it_is_taken_up(
    board: Board, anna: Member, beat_s: int, stopped: bool, silent: bool
) -> None:
    task = filed(board, chain_of(anna), "Read the log")
    claimed(board)
    beat = Now() - timedelta(seconds=beat_s)
    Process.objects.create(id=HERE["drain"], kind="drain", pid=1, beat_at=beat, stopped_at=beat if stopped else None)
    card = card_of(board, task)
    assert ("silent" in card.badges) is silent
    assert ("Its worker has been silent since" in render_card(card)) is silent
    row = Task.objects.get(pk=task.pk)
    assert card.lease_until == (row.lease_until if silent else None)
