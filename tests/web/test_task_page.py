"""The task page and its drawer: what they show, to whom, at what cost; other people's text is inert on them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from boards import people, tasks
from boards.debts import paying
from boards.models import Attempt, Board, Member, Task
from boards.queries.transcript import FIRST_PAGE
from boards.tasks import Filing, HoldFiling, file_task
from tests import cast
from tests.web.desk import Desk

pytestmark = pytest.mark.django_db

HOSTILE = "<img src=x onerror=alert(1)><div id=\"task-head\" hx-post='/x' hx-trigger=load>[x](javascript:alert(1))"


class Pages(Desk):
    def get(self, task: Task, member: Member | None = None, *, part: str = "task", htmx: bool = False, **query: object):
        address = reverse(f"web:{part}", args=[task.board.slug, task.public_id])
        return self.client(member, htmx=htmx).get(address, query)

    def text(self, task: Task, member: Member | None = None, **options: object) -> str:
        answer = self.get(task, member, **options)
        assert answer.status_code == 200
        return answer.content.decode()


@pytest.fixture
def desk() -> Pages:
    return Pages()


class Elements(HTMLParser):
    """The elements of a page with their attributes, as a browser sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    @classmethod
    def of(cls, html: str) -> list[tuple[str, dict[str, str | None]]]:
        parser = cls()
        parser.feed(html)
        return parser.found


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_a_direct_load_is_a_whole_page_and_the_drawers_request_its_content_alone(desk):
    task = desk.filed()
    page, drawer = desk.text(task), desk.text(task, htmx=True)
    assert "<!doctype html>" in page
    assert "data-drawer-close" not in page
    assert "<!doctype html>" not in drawer
    assert "data-drawer-close" in drawer
    assert drawer.lstrip().startswith("<title>")
    for html in (page, drawer):
        assert html.count('id="task-title"') == 1


def test_what_one_may_not_see_answers_like_what_does_not_exist(desk):
    task = desk.filed()
    elsewhere = cast.make_space("elsewhere")
    stranger = cast.make_member(elsewhere, "stranger")
    own = cast.make_board(elsewhere, "desk")
    assert desk.get(task, stranger).status_code == 404
    assert own.slug == desk.board.slug
    for part in ("task_parts", "task_events", "task_edit"):
        assert desk.get(task, stranger, part=part).status_code == 404
    client = desk.client()
    for public_id in ("nothing", "%00", "..", "a b", "<b>"):
        assert client.get(f"/b/desk/t/{public_id}/").status_code == 404


def test_on_a_partitioned_board_only_rows_of_ones_own_exist(desk):
    task = desk.filed()
    Board.objects.filter(pk=desk.board.pk).update(partition_by="user")
    Task.objects.filter(pk=task.pk).update(partition=str(desk.anna.user_id))
    assert desk.get(task, desk.anna).status_code == 200
    assert desk.get(task, desk.ben).status_code == 404


def test_a_stranger_is_sent_to_sign_in(desk):
    answer = Client().get(reverse("web:task", args=["desk", desk.filed().public_id]))
    assert answer.status_code == 302
    assert "sign-in" in answer["Location"]


def test_other_peoples_text_is_inert_everywhere(desk):
    task = desk.filed(
        goal=HOSTILE, title=HOSTILE[:200], context=HOSTILE, labels=["<script>x</script>"], input={HOSTILE: [HOSTILE]}
    )
    tasks.steer(desk.chain, task, HOSTILE)
    claimed = cast.claimed(desk.board)
    tasks.add_transcript(task.pk, 1, "output", f"\x1b[31m{HOSTILE}\x00\x1b[0m" + "\n" * 20, "<b>w</b>")
    people.open_hold(
        cast.agent_chain(desk.board),
        claim=claimed.ticket,
        kind="question",
        prompt=HOSTILE,
        options=[{"value": HOSTILE[:100], "label": HOSTILE, "description": HOSTILE}, {"value": "b", "label": "b"}],
    )
    tasks.report_progress(
        cast.agent_chain(desk.board), task, claim=claimed.ticket, note=HOSTILE, output={"markdown": HOSTILE}
    )
    html = desk.text(task)
    assert "\x1b" not in html
    assert "\x00" not in html
    elements = Elements.of(html)
    assert [tag for tag, _ in elements].count("img") == 0
    names = {(name, value) for _, attributes in elements for name, value in attributes.items()}
    assert not [name for name, _ in names if name.startswith("on")]
    assert ("hx-post", "/x") not in names
    assert ("hx-trigger", "load") not in names
    assert not [value for name, value in names if name == "href" and "javascript" in (value or "").lower()]
    assert [attributes.get("id") for _, attributes in elements].count("task-head") == 1


def test_long_and_strange_titles_are_shown(desk):
    for title in ("🦜", "日本語", "مرحبا", "e\u0301" * 60):
        assert title in desk.text(desk.filed(goal=f"About {title}", title=title))


def test_the_head_says_how_it_stands_in_each_status(desk):
    task = desk.filed(checker="person", max_attempts=3)
    assert "No running drain serves “writer”" in words(desk.text(task))
    claimed = cast.claimed(desk.board)
    assert "writer works on it, attempt started" in words(desk.text(task))
    tasks.complete(cast.agent_chain(desk.board), task, "A first text.", claim=claimed.ticket)
    head = words(desk.text(task))
    assert "handed in by writer" in head
    assert "Attempt 1/3" in head
    assert "On you" in head
    tasks.accept(desk.chain, task)
    assert "Done Attempt 1/3 0 s ago" in words(desk.text(task))


def test_a_ready_task_says_why_it_does_not_start_and_shows_what_it_waits_for(desk):
    first = desk.filed(title="Collect")
    task = file_task(
        desk.chain,
        desk.board,
        Filing(goal="Write", deps=[first.public_id], holds=[HoldFiling("confirm", "Is the budget approved?")]),
    )
    html = words(desk.text(task))
    assert "Waits for “Collect”." in html
    assert "Waits for an answer: Is the budget approved?" in html
    assert "Waiting on 1" in html
    assert "This task" in html
    assert "Write" in words(desk.text(first))


def test_an_ended_dependency_is_explained_with_the_ways_on(desk):
    first = desk.filed(title="Collect")
    task = desk.filed(goal="Write", deps=[first.public_id])
    tasks.cancel(desk.chain, first, "Not wanted.")
    html = desk.text(task)
    assert "“Collect” ended without completing" in words(html) or "Start anyway" in html
    paying.pay_due()
    html = desk.text(task)
    assert "“Collect” was skipped." in html
    assert "Start anyway" in html


def test_the_check_shows_what_changed_and_offers_both_ways(desk):
    task = desk.filed(checker="person")
    desk.worked(task, {"markdown": "One.\n\nDelete the file."})
    tasks.send_back(desk.chain, task, "Do not delete.")
    desk.worked(task, {"markdown": "One.\n\nKeep the file."})
    html = desk.text(task)
    assert 'class="del"' in html
    assert 'class="add"' in html
    assert reverse("web:task_act", args=["desk", task.public_id, "send_back"]) in html
    assert "sent back by you" in html
    reader = desk.text(task, desk.vera)
    assert "/send_back" not in reader
    assert "You may read here, not act" in reader


def test_a_person_starts_hands_in_or_gives_back_what_is_theirs(desk):
    task = desk.filed(assignee="ben")
    assert "This is assigned to you" in desk.text(task, desk.ben)
    assert "This is assigned to you" not in desk.text(task, desk.anna)
    assert "Waits for Ben to start it." in desk.text(task, desk.anna)
    tasks.claim_for_person(cast.chain_of(desk.ben), task)
    assert "Hand in the result" in desk.text(task, desk.ben)
    assert "Hand in the result" not in desk.text(task, desk.anna)


def test_a_stuck_task_opens_with_its_error_and_offers_its_cancelled_dependents(desk):
    task = desk.filed()
    desk.filed(goal="Publish", deps=[task.public_id])
    desk.failed(task)
    paying.pay_due()
    html = words(desk.text(task))
    assert "This is stuck There is no such file." in html
    assert "Its ending cancelled a task that depends on it." in html


def test_cancel_says_what_it_hits_and_asks_about_filed_tasks(desk):
    task = desk.filed()
    middle = desk.filed(goal="Publish", deps=[task.public_id])
    desk.filed(goal="Announce", deps=[middle.public_id])
    file_task(desk.chain, desk.board, Filing(goal="A part of it"), filed_by_task=task)
    html = words(desk.text(task))
    assert "Also cancels the 2 tasks that depend on it." in html
    assert "Also cancel the task it filed" in html


def test_a_viewer_sees_no_form_that_acts(desk):
    html = desk.text(desk.filed(), desk.vera)
    assert "/cancel" not in html
    assert "/steer" not in html
    assert "/edit" not in html
    assert "You may read here, not act" in html


@pytest.mark.parametrize(
    ("output", "marks"),
    [
        ({"markdown": "# Done\n\n- one"}, ["<h3>Done</h3>", "<li>one</li>"]),
        ([{"key": "strict", "was": "safe"}], ['<th scope="col" dir="auto">key</th>', "safe"]),
        ({"url": "https://example.org/n"}, ['<a href="https://example.org/n" rel="noopener noreferrer nofollow">']),
        ({"a": {"b": [1, None]}}, ["1 field", "null"]),
    ],
)
def test_the_output_is_shown_by_its_kind(desk, output, marks):
    task = desk.filed()
    desk.worked(task, output)
    html = desk.text(task)
    for mark in marks:
        assert mark in html


def test_the_transcript_opens_at_its_end_and_pages_back(desk):
    task = desk.filed()
    cast.claimed(desk.board)
    lines = [tasks.Line(task.pk, 1, f"checked {n}.", who="writer") for n in range(FIRST_PAGE + 20)]
    tasks.add_transcript_lines(lines)
    html = desk.text(task)
    assert f"checked {FIRST_PAGE + 19}." in html
    assert "checked 19." not in html
    before = re.search(r"attempt=1&amp;before=(\d+)", html)[1]
    earlier = desk.text(task, attempt=1, before=before)
    assert "checked 19." in earlier
    assert "checked 0." in earlier
    assert "checked 21." not in earlier
    client = desk.client(htmx=True)
    fragment = client.get(reverse("web:task_attempt", args=["desk", task.public_id, 1]), {"before": before})
    assert "checked 0." in fragment.content.decode()


def test_live_parts_bring_only_new_lines_and_events(desk):
    task = desk.filed()
    claimed = cast.claimed(desk.board)
    tasks.add_transcript(task.pk, 1, "message", "First words.", "writer")
    html = desk.text(task)
    seen = {
        "attempt": 1,
        "seen": max(map(int, re.findall(r'data-line="(\d+)"', html))),
        "events": re.search(r'data-newest-event="(\d+)"', html)[1],
    }
    tasks.add_transcript(task.pk, 1, "message", "Second words.", "writer")
    tasks.report_progress(cast.agent_chain(desk.board), task, claim=claimed.ticket, note="Half way.")
    parts = desk.text(task, part="task_parts", htmx=True, **seen)
    assert "Second words." in parts
    assert "First words." not in parts
    assert 'hx-swap-oob="beforeend:#lines-1"' in parts
    assert 'hx-swap-oob="afterbegin:#event-list"' in parts
    assert parts.count("data-event=") == 1
    assert parts.count('hx-swap-oob="true"') >= 8
    everything = desk.text(task, part="task_parts", htmx=True, attempt=0, seen=0, events=0)
    assert "First words." in everything
    assert 'id="task-attempts" hx-swap-oob="true"' in everything


def test_numbers_of_the_address_that_are_none_are_ignored(desk):
    task = desk.filed()
    for bad in ("x", "-1", "9" * 30, "\u0663", "\x00"):
        assert desk.get(task, attempt=bad, before=bad, events_before=bad).status_code == 200


def queries(desk: Pages, task: Task, part: str = "task") -> int:
    client = desk.client(htmx=part != "task")
    with CaptureQueriesContext(connection) as asked:
        assert client.get(reverse(f"web:{part}", args=["desk", task.public_id])).status_code == 200
    return len(asked)


def test_no_history_makes_the_page_ask_more(desk):
    task = desk.filed(checker="person")
    desk.worked(task)
    tasks.send_back(desk.chain, task, "Again.")
    desk.worked(task)
    small = queries(desk, task)
    parts = queries(desk, task, "task_parts")
    for number in range(12):
        tasks.send_back(desk.chain, task, f"Again, {number}.")
        desk.worked(task)
        desk.filed(goal=f"Part {number}", deps=[task.public_id])
    tasks.add_transcript_lines([tasks.Line(task.pk, 2, f"line {n}") for n in range(400)])
    assert queries(desk, task) == small <= 15
    assert queries(desk, task, "task_parts") == parts <= 15
    assert Attempt.objects.filter(task=task).count() == 14


def test_a_page_of_a_large_result_answers_and_says_that_it_is_cut(desk):
    task = desk.filed()
    desk.worked(task, {"markdown": "word " * 150_000})
    html = desk.text(task)
    assert "Cut here at" in html
    assert len(html) < 400_000
