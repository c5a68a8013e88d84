"""The log on a task's page: in pages, and with one line for all that an attempt reported of its progress."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from boards import tasks
from boards.models import Task
from boards.queries.task_log import MAX_EVENTS, events_page
from boards.tasks import Claimed
from tests import cast
from tests.web.desk import Desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> Desk:
    return Desk()


def reports(desk: Desk, claimed: Claimed, times: int) -> None:
    for number in range(times):
        tasks.report_progress(cast.agent_chain(desk.board), claimed.task, claim=claimed.ticket, note=f"read {number}")


def phrases(desk: Desk, task: Task, **range_: int) -> list[str]:
    return [line.phrase for line in events_page(task, desk.anna, **range_).lines]


def test_what_each_attempt_reported_is_one_line_with_its_count(desk):
    task = desk.filed(max_attempts=3)
    first = cast.claimed(desk.board)
    reports(desk, first, 3)
    tasks.steer(desk.chain, task, "Faster.")
    reports(desk, first, 2)
    tasks.fail(cast.agent_chain(desk.board), task, "No such file.", claim=first.ticket)
    Task.objects.filter(pk=task.pk).update(not_before=None)
    reports(desk, cast.claimed(desk.board), 1)
    assert phrases(desk, task) == [
        "reported progress",
        "started attempt 2",
        "failed in attempt 1, which is tried again: “No such file.”",
        "reported progress 5 times, last",
        "sent a message: “Faster.”",
        "started attempt 1",
        "filed it",
    ]


def test_a_report_comes_alone_to_a_page_that_has_the_rest_and_says_which_line_it_is(desk):
    task = desk.filed()
    claimed = cast.claimed(desk.board)
    reports(desk, claimed, 2)
    seen = events_page(task, desk.anna).newest
    assert phrases(desk, task, since=seen) == []
    reports(desk, claimed, 1)
    parts = desk.client(htmx=True).get(
        reverse("web:task_parts", args=["desk", task.public_id]), {"attempt": 1, "events": seen}
    )
    fresh = re.search(r'afterbegin:#event-list">\s*(.*?)</ol>', parts.content.decode(), re.DOTALL)
    assert fresh is not None
    assert re.findall(r'data-fold="([^"]*)"', fresh[1]) == ["reports-1"]
    assert "reported progress 3 times, last" in fresh[1]


def test_no_page_of_the_log_shows_a_line_twice_or_leaves_one_out(desk):
    task = desk.filed()
    claimed = cast.claimed(desk.board)
    for number in range(MAX_EVENTS + 10):
        tasks.set_priority(desk.chain, task, number + 1)
        if number == 20:
            reports(desk, claimed, 4)
    page, shown = events_page(task, desk.anna), []
    while True:
        assert len(page.lines) <= MAX_EVENTS
        shown += [line.phrase for line in page.lines]
        if page.before is None:
            break
        page = events_page(task, desk.anna, before=page.before)
    assert len(shown) == MAX_EVENTS + 10 + 3
    assert shown.count("reported progress 4 times, last") == 1


def test_a_task_that_stays_open_for_what_it_filed_says_so_in_a_line_of_its_own(desk):
    task = desk.filed()
    claimed = cast.claimed(desk.board)
    reports(desk, claimed, 2)
    tasks.file_task(cast.agent_chain(desk.board), desk.board, goal="A part", filed_by_task=task)
    tasks.complete(cast.agent_chain(desk.board), task, "Done.", claim=claimed.ticket)
    assert "handed in attempt 1, which stays open for the tasks it filed" in phrases(desk, task)
    assert "reported progress 2 times, last" in phrases(desk, task)
