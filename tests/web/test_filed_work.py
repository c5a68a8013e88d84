"""A task that handed in and waits for what it filed says so, on its card and on its page (spec: 01 section 1)."""

from __future__ import annotations

import pytest
from django.urls import reverse

from boards import tasks
from boards.models import Board, RosterEntry, Task
from boards.queries import catchup
from boards.queries.board import board_facts, cards
from boards.queries.cards import CardView
from boards.queries.needs_you import waiting
from boards.tasks import Filing
from boards.templatetags.orchestra import render_card
from tests import cast
from tests.web.desk import Desk
from tests.workers.drains import program_entry

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def kept(desk: Desk, *goals: str, on: Board | None = None) -> tuple[Task, list[Task]]:
    """The writer filed tasks of these goals for the reader, and handed in."""
    parent = desk.filed(goal="Whole")
    claimed, worker = cast.claimed(desk.board), cast.agent_chain(desk.board)
    board = on or desk.board
    filings = [Filing(goal=goal, assignee="reader") for goal in goals]
    filed = [tasks.file_task(worker, board, filing, filed_by_task=parent) for filing in filings]
    assert tasks.complete(worker, parent, {"n": 1}, claim=claimed.ticket).status == "in_progress"
    return parent, filed


def card_of(desk: Desk, task: Task) -> CardView:
    (card,) = cards(desk.board, [task.pk]).cards
    return card


def page(desk: Desk, task: Task) -> str:
    address = reverse("web:task", args=["desk", task.public_id])
    return " ".join(desk.client().get(address).content.decode().split())


def link(task: Task, board: str = "desk") -> str:
    return f'<a href="{reverse("web:task", args=[board, task.public_id])}"'


def test_its_card_says_what_it_waits_for_with_links(desk: Desk) -> None:
    parent, filed = kept(desk, "One", "Two", "Three", "Four")
    html = render_card(card_of(desk, parent))
    assert f"Waits for 4 tasks it filed: {link(filed[0])}" in html
    assert [link(task) in html for task in filed] == [True, True, True, False]
    assert ", …" in html
    for task in filed[:3]:
        tasks.cancel(desk.chain, task)
    html = render_card(card_of(desk, parent))
    assert "Waits for 1 task it filed:" in html
    assert link(filed[3]) in html
    tasks.cancel(desk.chain, filed[3])
    assert "Waits for" not in render_card(card_of(desk, parent))


def test_nobody_is_said_to_work_on_it(desk: Desk) -> None:
    kept(desk, "One")
    facts = board_facts(desk.space, "desk")
    assert [agent.name for agent in facts.agents if agent.running] == []


def test_what_an_agent_filed_for_a_person_is_not_drawn_as_filed_by_a_person(desk: Desk) -> None:
    desk.filed(goal="Whole", assignee="writer")
    desk.filed(goal="By Anna", assignee="ben")
    claimed, worker = cast.claimed(desk.board), cast.agent_chain(desk.board)
    tasks.file_task(worker, desk.board, Filing(goal="By the writer", assignee="ben"), filed_by_task=claimed.task)
    drawn = {row.title: row.by_person for row in waiting(desk.anna, whose="all").rows if row.group == "assigned"}
    assert drawn == {"By Anna": True, "By the writer": False}


def test_its_page_says_so_with_links_and_offers_no_hand_in(desk: Desk) -> None:
    parent, filed = kept(desk, "One", "Two")
    html = page(desk, parent)
    assert '<a href="#task-filed">waits for 2 tasks it filed</a>' in html
    assert "It has handed in, and is done when these have ended." in html
    assert all(link(task) in html for task in filed)
    assert "handed in attempt 1, which stays open for the tasks it filed" in html
    assert ("Stopping" in html, "Other tasks it filed" in html) == (False, False)
    assert ", handed in</span>" in html
    tasks.cancel(desk.chain, filed[0])
    html = page(desk, parent)
    assert '<a href="#task-filed">waits for 1 task it filed</a>' in html
    assert "Other tasks it filed" in html
    assert html.count(link(filed[0])) == html.count(link(filed[1])) == 1


def test_what_it_filed_on_another_board_is_found_there(desk: Desk) -> None:
    other = cast.make_board(desk.space, "other")
    parent, (child,) = kept(desk, "Elsewhere", on=other)
    assert link(child, "other") in render_card(card_of(desk, parent))
    assert link(child, "other") in page(desk, parent)


def test_what_waits_for_it_is_not_what_it_waits_for(desk: Desk) -> None:
    parent = desk.filed(goal="Whole")
    claimed, worker = cast.claimed(desk.board), cast.agent_chain(desk.board)
    after = Filing(goal="After", assignee="reader", deps=[parent.public_id])
    tasks.file_task(worker, desk.board, after, filed_by_task=parent)
    tasks.file_task(worker, desk.board, Filing(goal="Part", assignee="reader"), filed_by_task=parent)
    tasks.complete(worker, parent, None, claim=claimed.ticket)
    assert "Waits for 1 task it filed:" in render_card(card_of(desk, parent))


def test_hostile_labels_stay_text(desk: Desk) -> None:
    parent, _ = kept(desk, "<img src=x onerror=alert(1)>")
    assert "<img" not in render_card(card_of(desk, parent))
    assert "<img" not in page(desk, parent)


def test_an_open_page_is_told_when_one_of_them_changes(desk: Desk) -> None:
    parent, (one, _) = kept(desk, "One", "Two")
    known = catchup.cursor()
    tasks.cancel(desk.chain, one)
    changed = catchup.changes_since(desk.board.pk, known)
    assert not isinstance(changed, catchup.Refresh)
    assert changed[0] == {one.pk, parent.pk}


def test_the_cancel_asks_about_what_it_filed(desk: Desk) -> None:
    parent, filed = kept(desk, "One")
    answer = desk.client(htmx=True).post(
        reverse("web:task_act", args=["desk", parent.public_id, "cancel"]), {"cancel_filed": "on"}
    )
    assert answer.status_code == 204
    assert {cast.fresh(task).status for task in (parent, *filed)} == {"cancelled"}


def test_it_offers_no_message_and_says_why(desk: Desk) -> None:
    parent, _ = kept(desk, "One")
    html = page(desk, parent)
    assert "It was handed in, so nobody reads a message. Send it to one of the tasks it filed." in html
    assert 'name="message"' not in html


@pytest.mark.parametrize(("config", "said"), [({"messages": "stdin"}, "at its next look"), ({}, "The next attempt")])
def test_a_program_reads_messages_only_where_its_roster_entry_says_how(
    desk: Desk, config: dict[str, str], said: str
) -> None:
    program_entry(desk.board, "pass")
    RosterEntry.objects.filter(name="shell").update(config={"argv": ["true"], **config})
    task = desk.filed(assignee="shell")
    cast.claimed(desk.board, "shell")
    assert said in page(desk, task)
