"""Follow-ups on the pages: the box, the chain, the badge, and the way there from what has ended."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from boards import tasks
from boards.models import Task
from boards.queries.cards import read_cards, roster_of
from boards.templatetags.orchestra import render_card
from tests import cast
from tests.web.desk import Desk

pytestmark = pytest.mark.django_db


class Pages(Desk):
    def page(self, task: Task, member=None) -> str:
        return self.client(member).get(reverse("web:task", args=[task.board.slug, task.public_id])).content.decode()

    def follow(self, task: Task, member=None, *, htmx: bool = True, **fields: object):
        address = reverse("web:follow_up", args=[task.board.slug, task.public_id])
        return self.client(member, htmx=htmx).post(address, {"goal": "Make it shorter", "known": "0", **fields})


@pytest.fixture
def desk() -> Pages:
    return Pages()


def test_the_box_files_a_follow_up_and_the_toast_leads_to_it(desk):
    task = desk.worked(desk.filed())
    assert f'action="{reverse("web:follow_up", args=[task.board.slug, task.public_id])}"' in desk.page(task)
    answer = desk.follow(task)
    made = Task.objects.get(follow_up_of=task)
    assert (answer.status_code, made.goal, made.assignee) == (204, "Make it shorter", "writer")
    toast = json.loads(answer["HX-Trigger"])["toast"]
    assert toast["href"] == reverse("web:task", args=[task.board.slug, made.public_id])
    assert "task:changed" in json.loads(answer["HX-Trigger"])


def test_without_htmx_one_is_led_to_the_follow_up(desk):
    task = desk.worked(desk.filed())
    answer = desk.follow(task, htmx=False, held="on")
    made = Task.objects.get(follow_up_of=task)
    assert answer.headers["Location"] == reverse("web:task", args=[task.board.slug, made.public_id])
    assert made.status == "held"


def test_the_same_words_sent_twice_from_one_page_are_one_task(desk):
    task = desk.worked(desk.filed())
    for _ in range(2):
        assert desk.follow(task).status_code == 204
    assert desk.follow(task, goal="Something else").status_code == 204
    assert desk.follow(task, known="2").status_code == 204
    assert task.follow_ups.count() == 3


def test_every_task_of_a_chain_shows_the_others_and_the_root_its_latest_result(desk):
    root = desk.worked(desk.filed())
    first = desk.worked(tasks.file_task(desk.chain, desk.board, goal="First <b>", follow_up_of=root.public_id))
    second = tasks.file_task(desk.chain, desk.board, goal="Second", follow_up_of=root.public_id)
    page = desk.page(root)
    assert "First &lt;b&gt;" in page
    assert "Second" in page
    assert 'aria-current="true"' in page
    assert page.count(f">{first.public_id}</a>") == 1
    for task, others in ((first, (root, second)), (second, (root, first))):
        chain = desk.page(task).split('id="task-follow"')[1]
        for other in others:
            assert reverse("web:task", args=[desk.board.slug, other.public_id]) in chain
        assert "Its latest result is in" not in chain


def test_what_never_ran_has_no_box_and_says_why_when_asked(desk):
    task = desk.filed()
    assert 'name="goal"' not in desk.page(task)
    answer = desk.follow(task)
    assert answer.status_code == 409
    assert "never ran" in json.loads(answer["HX-Trigger"])["toast"]["text"]


def test_a_viewer_reads_the_chain_and_has_no_box(desk):
    task = desk.worked(desk.filed())
    desk.follow(task)
    page = desk.page(task, desk.vera)
    assert "Make it shorter" in page
    assert 'name="goal"' not in page
    assert desk.follow(task, desk.vera).status_code == 403
    assert task.follow_ups.count() == 1


def test_words_to_an_ended_task_are_refused_with_the_way_to_a_follow_up(desk):
    task = desk.worked(desk.filed())
    assert 'href="#task-follow"' in desk.page(task)
    address = reverse("web:task_act", args=[task.board.slug, task.public_id, "steer"])
    answer = desk.client(htmx=True).post(address, {"message": "Too late"})
    toast = json.loads(answer["HX-Trigger"])["toast"]
    assert toast["text"] == "The task has ended. File a follow-up."
    assert toast["href"].endswith("/#task-follow")
    plain = desk.client().post(address, {"message": "Too late"})
    assert plain.headers["Location"].endswith("/#task-follow")


def test_its_card_has_the_badge_and_says_what_of_its_chain_it_waits_for(desk):
    root = desk.worked(desk.filed())
    one, two = (tasks.file_task(desk.chain, desk.board, goal=f"More {n}", follow_up_of=root.public_id) for n in (1, 2))
    assert cast.claimed(desk.board).task.pk == one.pk
    roster = roster_of(desk.board, [], [])
    cards = {card.public_id: card for card in read_cards(desk.board, roster, [root.pk, one.pk, two.pk])}
    assert [cards[task.public_id].follow_up for task in (root, one, two)] == [False, True, True]
    assert [cards[task.public_id].chain_busy for task in (root, one, two)] == [False, False, True]
    html = render_card(cards[two.public_id])
    assert "Follow-up" in html
    assert "run one at a time" in html
    assert "Waits for “More 1”: a task and its follow-ups run one at a time." in desk.page(two)
