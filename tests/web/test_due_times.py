"""Due times on the pages: a countdown on card and run page, its form, and the words once it has passed."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from boards import flows, people, sweeping
from boards.debts import paying
from boards.models import Branch, Debt, FlowRun, Visit
from boards.queries.board import cards
from boards.queries.cards import CardView
from boards.queries.needs_you import waiting
from boards.queries.silence import if_nobody
from boards.templatetags.orchestra import render_card, span_words
from tests import cast
from tests.flows.cast import Stage, fresh, place, step_task

pytestmark = pytest.mark.django_db(transaction=True)

TIMED = """
key: timed
name: Timed
steps:
  - {key: write, name: Write, kind: agent, assignee: writer, prompt: Write., timeout_ms: 4620000}
  - {key: done, name: Done}
"""


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def run(stage: Stage) -> FlowRun:
    return stage.started(TIMED)


@pytest.fixture
def anna(stage: Stage) -> Client:
    return signed_in(stage.member)


def signed_in(member) -> Client:
    client = Client()
    client.force_login(member.user)
    return client


def page(client: Client, run: FlowRun, part: str = "run") -> str:
    answer = client.get(reverse(f"web:{part}", args=["timed", run.number]))
    assert answer.status_code == 200
    return answer.content.decode()


def move(client: Client, run: FlowRun, **form: str):
    visit = str(fresh(run).current_visit_id)
    form = {"span": "3", "unit": "hours", "reason": "The press is late.", "visit": visit} | form
    return client.post(
        reverse("web:run_act", args=["timed", run.number, "move_due_time"]), form, headers={"HX-Request": "true"}
    )


def card_of(run: FlowRun) -> CardView:
    task = step_task(run)
    return cards(task.board, [task.pk]).cards[0]


def late(run: FlowRun) -> None:
    Visit.objects.filter(run=run).update(due_at=Now() - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (4620, "1 h 17 min"),
        (7200, "2 h"),
        (90_000, "1 d 1 h"),
        (172_900, "2 d"),
    ],
)
def test_a_countdown_names_the_two_largest_units(seconds: int, words: str) -> None:
    assert span_words(seconds) == words


def test_the_card_counts_down(run: FlowRun) -> None:
    view = card_of(run)
    assert view.step_due_at == fresh(run).current_visit.due_at
    assert "1 h 16 min left</time>" in render_card(view) or "1 h 17 min left</time>" in render_card(view)
    assert 'data-t="left"' in render_card(view)


def test_the_question_on_a_card_says_the_sooner_of_the_two_times(stage: Stage, run: FlowRun) -> None:
    ticket = stage.claim().ticket
    asked = {"claim": ticket, "kind": "approval", "prompt": "May I?"}
    people.open_hold(cast.agent_chain(stage.board), **asked, due_in_ms=86_400_000)
    view = card_of(run)
    assert view.ask is not None
    assert view.ask.due_at == view.step_due_at
    people.open_hold(cast.agent_chain(stage.board), **{**asked, "prompt": "Now?"}, due_in_ms=1000)
    assert card_of(run).ask.due_at == view.step_due_at, "the oldest question stands on the card"


def test_a_branch_has_its_own_time_where_that_is_sooner(stage: Stage, run: FlowRun) -> None:
    task = step_task(run)
    visit = fresh(run).current_visit
    Visit.objects.filter(pk=visit.pk).update(task=None)
    branch = Branch.objects.create(visit=visit, role="branch", key="one", position=0, task=task)
    assert cards(task.board, [task.pk]).cards[0].step_due_at == visit.due_at
    Branch.objects.filter(pk=branch.pk).update(due_at=Now())
    branch.refresh_from_db()
    assert cards(task.board, [task.pk]).cards[0].step_due_at == branch.due_at
    Branch.objects.filter(pk=branch.pk).update(role="failure", due_at=None)
    assert cards(task.board, [task.pk]).cards[0].step_due_at is None


def test_a_question_of_one_branch_says_when_that_branch_is_due(stage: Stage, run: FlowRun, anna: Client) -> None:
    task, visit = stage.claim(), fresh(run).current_visit
    hold = people.open_hold(cast.agent_chain(stage.board), claim=task.ticket, kind="question", prompt="Which?")
    Visit.objects.filter(pk=visit.pk).update(task=None)
    work = Branch.objects.create(visit=visit, role="branch", key="one", position=0, task=task.task)
    assert if_nobody(hold).at == visit.due_at
    Branch.objects.filter(pk=work.pk).update(due_at=Now())
    work.refresh_from_db()
    hold.refresh_from_db()
    assert if_nobody(hold).at == work.due_at
    (row,) = waiting(stage.member).rows
    assert row.due_at == work.due_at
    assert "then withdrawn" in anna.get(reverse("web:needs_you")).content.decode()


def test_what_has_ended_counts_no_more(stage: Stage, run: FlowRun) -> None:
    view = card_of(run)
    task = step_task(run)
    stage.complete()
    assert view.step_due_at is not None
    assert cards(task.board, [task.pk]).cards[0].step_due_at is None


def test_the_run_page_counts_down_and_carries_the_databases_clock(anna: Client, run: FlowRun) -> None:
    html = page(anna, run)
    assert re.search(r'<b data-due><time datetime="[^"]+" data-t="left">1 h 1[67] min left</time></b>', html)
    assert "for Write, " in html
    told = re.search(r'data-now="([^"]+)"', html)
    assert told
    assert abs(timezone.datetime.fromisoformat(told[1]) - timezone.now()) < timedelta(seconds=30)
    assert "data-now" not in page(anna, run, "run_parts"), "parts bring moments, the page has the clock"
    assert 'role="timer"' in page(anna, run, "run_parts")


def test_a_person_moves_it_and_the_history_says_who_and_why(anna: Client, run: FlowRun) -> None:
    before = Visit.objects.annotate(now=Now()).get(run=run)
    assert move(anna, run).status_code == 204
    due_at = fresh(run).current_visit.due_at
    assert timedelta() <= due_at - before.now - timedelta(hours=3) < timedelta(seconds=30)
    html = page(anna, run)
    assert "Anna moved the due time of Write to" in html
    assert '<q dir="auto">The press is late.</q>' in html


@pytest.mark.parametrize(
    ("form", "status", "words"),
    [
        ({"span": "0"}, 422, "Say in how many"),
        ({"span": "-3"}, 422, "Say in how many"),
        ({"span": "9" * 30}, 422, "Say in how many"),
        ({"unit": "years"}, 422, "Say in how many"),
        ({"reason": "  "}, 422, "reason must not be blank"),
        ({"visit": "1234567"}, 409, "The run has moved on"),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    form: dict[str, str], status: int, words: str, anna: Client, run: FlowRun
) -> None:
    due_at = fresh(run).current_visit.due_at
    answer = move(anna, run, **form)
    assert (answer.status_code, words in answer.headers["HX-Trigger"]) == (status, True), answer.headers
    assert fresh(run).current_visit.due_at == due_at


def test_a_viewer_sees_the_time_and_no_form(stage: Stage, run: FlowRun) -> None:
    vera = signed_in(cast.make_member(stage.space, "vera", "viewer"))
    html = page(vera, run)
    assert 'role="timer"' in html
    assert "move_due_time" not in html
    assert move(vera, run).status_code == 403


def test_once_it_has_passed_every_page_says_so_and_none_offers_it_as_a_button(
    stage: Stage, anna: Client, run: FlowRun
) -> None:
    task = stage.claim().task
    late(run)
    flows.withdraw_due()
    html = page(anna, run)
    assert "The due time passed, so the task was withdrawn. Stopping…" in html
    assert 'role="timer"' not in html
    assert "Its turn is still being stopped." in html
    view = cards(task.board, [task.pk]).cards[0]
    assert (view.status, view.note, view.stopping) == ("cancelled", "The due time passed.", True)
    for listed in (reverse("web:flows"), reverse("web:flow_runs", args=["timed"])):
        assert "Stopping…" in anna.get(listed).content.decode()
    paying.pay(Debt.objects.get(kind="session_stop").pk)
    assert "Stopping…" not in anna.get(reverse("web:flows")).content.decode()
    html = page(anna, run)
    assert "The due time of Write passed, so its task was withdrawn." in html
    assert "was withdrawn</b>" in html
    waits = anna.get(reverse("web:needs_you")).content.decode()
    assert "The due time of Write passed, so its task was withdrawn." in waits
    for address in (
        reverse("web:run", args=["timed", run.number]),
        reverse("web:task", args=[task.board.slug, task.public_id]),
        reverse("web:board", args=[task.board.slug]),
        reverse("web:needs_you"),
        reverse("web:flow", args=["timed"]),
    ):
        html = anna.get(address).content.decode()
        assert not re.search(r"(withdraw|flow_deadline)['\"]", html), address
    for verb in ("withdraw", "flow_deadline"):
        assert anna.post(reverse("web:run_act", args=["timed", run.number, verb])).status_code == 404


def test_while_it_is_stopped_the_runs_page_refuses_to_move_it(stage: Stage, anna: Client, run: FlowRun) -> None:
    stage.claim()
    late(run)
    sweeping.sweep_once()
    for verb, form in (("mark_complete", {}), ("run_again", {}), ("move", {"step": "done"})):
        answer = anna.post(
            reverse("web:run_act", args=["timed", run.number, verb]), form, headers={"HX-Request": "true"}
        )
        assert answer.status_code == 409, verb
    assert place(run) == "write active"
    answer = anna.post(
        reverse("web:run_act", args=["timed", run.number, "cancel_turn"]), headers={"HX-Request": "true"}
    )
    assert "being stopped already" in answer.headers["HX-Trigger"]
