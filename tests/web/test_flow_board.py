"""A flow's board: where its cards stand, what they say, and the verbs on one or many (spec: 05 section 5, 08)."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from boards import flows, people, tasks
from boards.models import FlowRun, Role, RosterEntry, StepChange, Visit
from tests import cast
from tests.flows.cast import Stage, fresh, place, settle, step_task
from tests.flows.wip_cast import queued, standing

HTMX = {"HX-Request": "true"}
pytestmark = pytest.mark.django_db

PRESS = """
key: press
name: Press room
style: board
inputs: {properties: {topic: {type: string}}}
steps:
  - {key: ideas, name: Ideas}
  - {key: draft, name: Draft, kind: agent, assignee: writer, prompt: Go., wip_limit: 2}
  - {key: approve, name: Approve, kind: approval, prompt: Right or not, timeout_ms: 3600000}
  - {key: print, name: Print, wip_limit: 1, allow_manual_move: false}
  - {key: done, name: Done}
"""


class Desk:
    """Anna at the board of a flow."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.flow = self.stage.flow(PRESS)
        self.anna = Client()
        self.anna.force_login(self.stage.member.user)

    def start(self, name: str, step: str = "ideas") -> FlowRun:
        run = flows.start(self.stage.anna, self.flow, {}, name, step=step)
        settle()
        return fresh(run)

    def html(self, query: str = "") -> str:
        response = self.anna.get(f"/f/press/{query}")
        assert response.status_code == 200
        return response.content.decode()

    def act(self, verb: str, *runs: FlowRun, htmx: bool = True, **form: Any) -> Any:
        told = {"run": [run.number for run in runs]} | form
        response = self.anna.post(f"/f/press/runs/{verb}", told, headers=HTMX if htmx else {})
        settle()
        return response


@pytest.fixture
def desk() -> Desk:
    return Desk()


def column(html: str, key: str) -> str:
    return html.split(f'data-column="{key}"')[1].split("</section>")[0]


def names(html: str) -> list[str]:
    return re.findall(r'data-name="([^"]*)"', html)


def toast(response: Any) -> str:
    return json.loads(response["HX-Trigger"])["toast"]["text"]


class TestColumns:
    def test_each_run_stands_in_its_step_and_heads_say_how_many_places_are_taken(self, desk: Desk) -> None:
        for name in ("A", "B", "C", "D"):
            desk.start(name, "draft")
        desk.start("E")
        html = desk.html()
        draft = column(html, "draft")
        assert names(draft) == ["A", "B", "C", "D"]
        assert 'aria-hidden="true">2/2<' in draft
        assert "2 of 2 places taken" in draft
        assert "2 queued" in draft
        assert "First in line; starts when a place is free." in draft
        assert "Number 2 in line." in draft
        assert names(column(html, "ideas")) == ["E"]
        assert "full" not in column(html, "print")

    def test_a_card_shows_the_first_of_on_you_stuck_working_waiting(self, desk: Desk) -> None:
        desk.start("Works", "draft")
        got = desk.stage.claim()
        tasks.report_progress(
            cast.agent_chain(desk.stage.board, "writer"), got.task, note="Half done", claim=got.ticket
        )
        desk.start("Fails", "draft")
        desk.stage.fail("No ink.")
        desk.start("Waits")
        desk.start("Asks", "approve")
        html = desk.html()
        works, fails = (html.split(f'data-name="{name}"')[1].split("</article>")[0] for name in ("Works", "Fails"))
        assert "Working: " in works
        assert "Half done" in works
        assert "Failed: " in fails
        assert "No ink." in fails
        assert "Waiting: " in html.split('data-name="Waits"')[1]
        asks = html.split('data-name="Asks"')[1].split("</article>")[0]
        assert "On a person: " in asks
        assert 'data-you="any"' in html.split('data-name="Asks"')[1][:200]
        assert "data-due" in asks, "the question's due time stands in its strip"

    def test_a_question_of_the_task_comes_before_its_work(self, desk: Desk) -> None:
        desk.start("Asks", "draft")
        got = desk.stage.claim()
        agent = cast.agent_chain(desk.stage.board, "writer")
        people.open_hold(agent, claim=got.ticket, kind="question", prompt="Which name stays?")
        card = desk.html().split('data-name="Asks"')[1].split("</article>")[0]
        assert "On a person: " in card
        assert "Which name stays?" in card

    def test_a_task_for_a_person_is_on_that_person(self, desk: Desk) -> None:
        RosterEntry.objects.create(board=desk.stage.board, name="anna", kind="person", user=desk.stage.member.user)
        desk.stage.flow(PRESS.replace("assignee: writer", "assignee: anna").replace("kind: agent", "kind: task"))
        desk.start("Hers", "draft")
        card = desk.html().split('data-name="Hers"')[1].split("</article>")[0]
        assert f'data-you="{desk.stage.member.user_id}"' in card
        assert "Assigned to you" in card

    def test_a_stay_with_a_due_time_counts_down(self, desk: Desk) -> None:
        run = desk.start("Late", "draft")
        Visit.objects.filter(pk=run.current_visit_id).update(due_at=timezone.now() + timedelta(minutes=32))
        card = desk.html().split('data-name="Late"')[1].split("</article>")[0]
        assert "badge--left" in card

    def test_what_was_cancelled_stands_with_what_is_over_and_says_where_it_was(self, desk: Desk) -> None:
        run = desk.start("Teaser", "draft")
        flows.cancel_run(desk.stage.anna, run, "nobody wants it")
        html = desk.html()
        assert names(column(html, "draft")) == []
        done = column(html, "done")
        assert names(done) == ["Teaser"]
        assert "In Draft: Anna cancelled the run: nobody wants it" in done

    def test_a_step_that_only_older_versions_have_is_a_column_until_it_is_empty(self, desk: Desk) -> None:
        run = desk.start("Old")
        desk.stage.flow(PRESS.replace("key: ideas, name: Ideas", "key: plans, name: Plans"))
        html = desk.html()
        assert names(column(html, "ideas")) == ["Old"]
        assert "older version" in column(html, "ideas")
        flows.move(desk.stage.anna, run, "draft")
        assert 'data-column="ideas"' not in desk.html()

    def test_what_is_archived_is_hidden_until_it_is_asked_for(self, desk: Desk) -> None:
        run = desk.start("Away")
        flows.archive(desk.stage.anna, run)
        desk.start("Here")
        assert names(desk.html()) == ["Here"]
        assert names(desk.html("?archived=1")) == ["Away"]
        assert "Archived" in column(desk.html("?archived=1"), "ideas")

    @pytest.mark.parametrize(
        ("query", "found"), [("?q=hal", ["Halyard"]), ("?q=%232", ["Other"]), ("?asks=1", ["Asks"])]
    )
    def test_filters_narrow_the_cards_and_not_the_places(self, desk: Desk, query: str, found: list[str]) -> None:
        for name in ("Halyard", "Other"):
            desk.start(name, "draft")
        desk.start("Asks", "approve")
        html = desk.html(query)
        assert names(html) == found
        assert 'aria-hidden="true">2/2<' in column(html, "draft")

    def test_mine_are_those_that_i_started(self, desk: Desk) -> None:
        desk.start("Hers")
        flows.start(desk.stage.olga, desk.flow, {}, "Olga's")
        assert names(desk.html("?mine=1")) == ["Hers"]

    def test_names_are_shown_and_never_run(self, desk: Desk) -> None:
        desk.start('"><img src=x onerror=alert(1)>')
        assert "<img" not in desk.html()


class TestManyRuns:
    def fill(self, desk: Desk, count: int, step: str, status: str = "active") -> None:
        """So many runs, by one statement: verbs would take too long."""
        first = desk.start("First")
        ended = {} if status == "active" else {"completed_at": timezone.now()}
        made = FlowRun.objects.bulk_create(
            FlowRun(
                flow=desk.flow,
                version_id=first.version_id,
                number=first.number + n,
                name=f"Run {n:04}",
                session_id=first.session_id,
                status=status,
                step_key=step,
                **ended,
            )
            for n in range(1, count + 1)
        )
        stay = {"phase": "waiting"} if status == "active" else {"phase": "left", "left_at": timezone.now()}
        visits = Visit.objects.bulk_create(Visit(run=run, step_key=step, number=1, **stay) for run in made)
        for run, visit in zip(made, visits, strict=True):
            run.current_visit = visit
        FlowRun.objects.bulk_update(made, ["current_visit"])
        desk.flow.refresh_from_db()
        type(desk.flow).objects.filter(pk=desk.flow.pk).update(last_run_number=first.number + count)

    def cost(self, desk: Desk) -> int:
        with CaptureQueriesContext(connection) as caught:
            desk.html()
        return len(caught)

    def test_a_thousand_runs_cost_as_many_queries_as_one(self, desk: Desk) -> None:
        desk.start("One", "draft")
        desk.start("Two", "approve")
        flows.cancel_run(desk.stage.anna, desk.start("Three"))
        few = self.cost(desk)
        self.fill(desk, 600, "ideas")
        self.fill(desk, 400, "done", "completed")
        assert self.cost(desk) == few
        assert few <= 20

    def test_a_long_column_comes_by_the_page(self, desk: Desk) -> None:
        self.fill(desk, 70, "ideas")
        html = desk.html()
        assert len(names(column(html, "ideas"))) == 50
        assert "Show 21 more" in column(html, "ideas")
        assert '<span class="count">71</span>' in column(html, "ideas")
        assert len(names(column(desk.html("?n.ideas=100"), "ideas"))) == 71

    def test_what_is_over_shows_its_newest_and_comes_by_the_page(self, desk: Desk) -> None:
        self.fill(desk, 60, "done", "completed")
        done = column(desk.html(), "done")
        assert len(names(done)) == 12
        assert "Show 48 more" in done
        assert len(names(column(desk.html("?n.done=62"), "done"))) == 60

    def test_a_nonsense_length_is_a_page(self, desk: Desk) -> None:
        desk.start("One")
        assert names(desk.html("?n.ideas=lots&n.=7&n.gone=9")) == ["One"]


class TestMoves:
    def test_a_card_is_moved_and_the_page_is_told(self, desk: Desk) -> None:
        run = desk.start("A")
        response = desk.act("move", run, step="draft", **{f"visit.{run.number}": run.current_visit_id})
        assert response.status_code == 204
        assert toast(response) == "A moved."
        assert "flow:changed" in response["HX-Trigger"]
        assert place(run) == "draft active"

    def test_a_full_step_says_the_place_in_line(self, desk: Desk) -> None:
        for name in ("A", "B", "C"):
            desk.start(name, "draft")
        response = desk.act("move", desk.start("D"), step="draft")
        assert toast(response) == "D waits for a place, as number 2 in line."

    def test_a_drop_between_two_cards_stays_there(self, desk: Desk) -> None:
        a, b, c = (desk.start(name) for name in "ABC")
        desk.act("move", c, step="ideas", before=b.number)
        assert standing(a, "ideas") == ["A", "C", "B"]
        desk.act("move", a, step="ideas", before=0)
        assert standing(a, "ideas") == ["C", "B", "A"]

    def test_the_menu_puts_a_card_first_or_last(self, desk: Desk) -> None:
        a, *_ = (desk.start(name) for name in "ABC")
        desk.act("move", a, here="ideas", to="last")
        assert standing(a, "ideas") == ["B", "C", "A"]
        desk.act("move", a, here="ideas", to="first")
        assert standing(a, "ideas") == ["A", "B", "C"]

    def test_a_task_that_works_is_kept_and_the_way_out_is_offered(self, desk: Desk) -> None:
        run = desk.start("A", "draft")
        desk.stage.claim()
        response = desk.act("move", run, step="ideas", before=0)
        html = response.content.decode()
        assert response.status_code == 200
        assert "so the run cannot be moved yet" in html
        assert 'name="cancel_turn" value="1"' in html
        assert 'name="step" value="ideas"' in html
        assert place(run) == "draft active"
        assert desk.act("move", run, step="ideas", cancel_turn="1").status_code == 204
        assert place(run) == "ideas active"
        assert StepChange.objects.filter(run=run, trigger="manual").count() == 1

    @pytest.mark.parametrize(
        ("step", "words"), [("print", "from a neighbouring step only"), ("gone", "has no such step")]
    )
    def test_a_refusal_is_a_sentence(self, desk: Desk, step: str, words: str) -> None:
        response = desk.act("move", desk.start("A"), step=step)
        assert response.status_code == 409
        assert words in toast(response)

    def test_a_card_that_moved_on_meanwhile_is_not_moved_again(self, desk: Desk) -> None:
        run = desk.start("A")
        seen = run.current_visit_id
        flows.move(desk.stage.anna, run, "draft")
        response = desk.act("move", run, step="approve", **{f"visit.{run.number}": seen})
        assert response.status_code == 409
        assert "moved on meanwhile" in toast(response)

    def test_a_queued_card_is_moved_by_what_the_page_showed(self, desk: Desk) -> None:
        for name in ("A", "B"):
            desk.start(name, "draft")
        run = desk.start("C", "draft")
        assert 'data-visit="0"' in desk.html()
        assert desk.act("move", run, step="ideas", **{f"visit.{run.number}": 0}).status_code == 204
        assert place(run) == "ideas active"

    def test_an_act_on_an_approval_that_was_cancelled_elsewhere_opens_nothing(self, desk: Desk) -> None:
        """Fault 10, from the board: the run was cancelled in another tab."""
        run = desk.start("A", "approve")
        seen = run.current_visit_id
        flows.cancel_run(desk.stage.olga, run)
        response = desk.act("move", run, step="print", **{f"visit.{run.number}": seen})
        assert response.status_code == 409
        assert "The run was cancelled" in toast(response)
        assert Visit.objects.filter(run=run).count() == 1


class TestSeveral:
    def test_each_run_has_its_result(self, desk: Desk) -> None:
        """Fault 30, for runs: what is refused for one stops none of the others."""
        works = desk.start("Works", "draft")
        desk.stage.claim()
        idle, away = desk.start("Idle"), desk.start("Away")
        flows.archive(desk.stage.anna, away)
        response = desk.act("move", works, idle, away, step="approve")
        html = response.content.decode()
        rows = re.findall(r"<li>.*?</li>", html, re.DOTALL)
        assert ["Works" in rows[0], "Idle" in rows[1], "Away" in rows[2]] == [True] * 3
        assert "cannot be moved yet" in rows[0]
        assert "done" in rows[1]
        assert "The run is archived" in rows[2]
        assert "1 run moved" in html or "Idle moved" in html
        assert html.count('name="run"') == 1, "the way out is offered for the one that works"
        assert [place(run) for run in (works, idle, away)] == ["draft active", "approve active", "ideas active"]

    def test_those_that_find_no_place_are_counted(self, desk: Desk) -> None:
        runs = [desk.start(name) for name in "ABCD"]
        response = desk.act("move", *runs, step="draft")
        assert toast(response) == "4 runs moved. 2 of them wait for a place."
        assert (standing(runs[0], "draft"), queued(runs[0], "draft")) == (["A", "B"], ["C", "D"])

    @pytest.mark.parametrize(("verb", "words"), [("archive", "2 runs archived."), ("cancel", "2 runs cancelled.")])
    def test_they_are_put_away_or_cancelled(self, desk: Desk, verb: str, words: str) -> None:
        runs = [desk.start(name) for name in "AB"]
        assert toast(desk.act(verb, *runs)) == words
        desk.act("unarchive", *runs)
        assert {fresh(run).archived_at for run in runs} == {None}

    def test_without_script_a_page_says_it(self, desk: Desk) -> None:
        a, b = desk.start("A"), desk.start("B")
        response = desk.act("move", a, b, htmx=False, step="approve")
        assert (response.status_code, response["Location"]) == (302, "/f/press/")
        refused = desk.act("move", a, htmx=False, step="gone")
        assert "<html" in refused.content.decode()
        assert "has no such step" in refused.content.decode()


class TestMenu:
    def menu(self, desk: Desk, *runs: FlowRun, htmx: bool = True) -> str:
        query = "&".join(f"run={run.number}" for run in runs)
        response = desk.anna.get(f"/f/press/menu?{query}", headers=HTMX if htmx else {})
        assert response.status_code == 200
        return response.content.decode()

    def test_it_says_what_awaits_a_run_in_each_step(self, desk: Desk) -> None:
        for name in ("A", "B", "C"):
            desk.start(name, "draft")
        html = self.menu(desk, desk.start("D"))
        assert 'value="ideas" data-n' not in html
        assert "Full: it queues there as number 2" in html
        assert "Asks a person" in html
        assert "The run is complete there" in html
        assert "A card may be moved to Print from a neighbouring step only." in html
        assert re.search(r'value="print"[^>]*disabled', html)

    def test_it_says_before_that_a_task_is_being_worked(self, desk: Desk) -> None:
        run = desk.start("A", "draft")
        desk.stage.claim()
        assert "before it moves you are asked whether to cancel the turn" in self.menu(desk, run)

    def test_of_several_it_shows_every_step(self, desk: Desk) -> None:
        html = self.menu(desk, desk.start("A"), desk.start("B", "approve"))
        assert "Move 2 runs to" in html
        assert html.count('name="step"') == 5

    def test_an_archived_run_can_be_taken_out_and_not_moved(self, desk: Desk) -> None:
        run = desk.start("A")
        flows.archive(desk.stage.anna, run)
        html = self.menu(desk, run)
        assert "Take out of the archive" in html
        assert 'name="step"' not in html

    def test_without_script_it_is_a_page(self, desk: Desk) -> None:
        assert "<html" in self.menu(desk, desk.start("A"), htmx=False)


class TestWhoMay:
    def test_a_viewer_reads_and_cannot_act(self, desk: Desk) -> None:
        run = desk.start("A")
        vera = Client()
        vera.force_login(cast.make_member(desk.stage.space, "vera", Role.VIEWER).user)
        assert vera.get("/f/press/").status_code == 200
        assert (
            "You may read here, not act" in vera.get(f"/f/press/menu?run={run.number}", headers=HTMX).content.decode()
        )
        for verb in ("move", "archive", "cancel"):
            refused = vera.post(f"/f/press/runs/{verb}", {"run": run.number, "step": "draft"}, headers=HTMX)
            assert refused.status_code == 403
        assert place(run) == "ideas active"

    def test_another_space_has_no_such_flow(self, desk: Desk) -> None:
        run = desk.start("A")
        stranger = Client()
        stranger.force_login(cast.make_member(cast.make_space("other"), "otto").user)
        assert stranger.get("/f/press/").status_code == 404
        assert stranger.post("/f/press/runs/move", {"run": run.number, "step": "draft"}).status_code == 404
        assert place(run) == "ideas active"

    def test_unknown_runs_and_verbs_are_not_there_and_a_get_changes_nothing(self, desk: Desk) -> None:
        run = desk.start("A")
        assert desk.anna.post("/f/press/runs/move", {"run": ["99", "x"], "step": "draft"}).status_code == 404
        assert desk.anna.post("/f/press/runs/nonsense", {"run": run.number}).status_code == 404
        assert desk.anna.get("/f/press/runs/archive").status_code == 405
        assert desk.anna.get("/f/press/menu").status_code == 404


class TestStarting:
    def test_a_run_begins_in_the_step_that_was_chosen_and_a_board_stays_open(self, desk: Desk) -> None:
        response = desk.anna.post("/f/press/start", {"key": "k", "run_name": "A", "step": "draft"}, headers=HTMX)
        assert response.status_code == 200
        assert toast(response) == "A started."
        assert "flow:changed" in response["HX-Trigger"]
        assert 'value="A"' not in response.content.decode(), "the form is empty again"
        assert step_task(FlowRun.objects.get(name="A")).status == "pending"

    def test_a_run_that_finds_no_place_is_said_to_queue(self, desk: Desk) -> None:
        for name in ("A", "B"):
            desk.start(name, step="draft")
        form = {"key": "k", "run_name": "C", "step": "draft"}
        assert toast(desk.anna.post("/f/press/start", form, headers=HTMX)) == "C is queued for Draft, which is full."
        assert FlowRun.objects.get(name="C").queued_step == "draft"

    def test_a_step_that_begins_no_run_is_refused_in_words(self, desk: Desk) -> None:
        response = desk.anna.post("/f/press/start", {"key": "k", "run_name": "A", "step": "done"}, headers=HTMX)
        assert response.status_code == 422
        assert "A run that begins in Done would be over at once." in response.content.decode()
        assert 'value="A"' in response.content.decode()
        assert not FlowRun.objects.exists()

    def test_a_head_offers_to_start_there_where_one_may(self, desk: Desk) -> None:
        html = desk.html("?step=draft")
        assert 'data-start-in="draft"' in html
        assert 'data-start-in="done"' not in html
        assert 'data-start-in="print"' not in html
        assert re.search(r'value="draft" selected', html)

    def test_full_everywhere_is_told_at_the_form(self, desk: Desk) -> None:
        fed = PRESS.replace("{key: ideas, name: Ideas}", "{key: ideas, name: Ideas, wip_limit: 1}")
        desk.stage.flow(fed.replace("wip_limit: 2}", "wip_limit: 1, pull_from: ideas}"))
        desk.start("A", "draft")
        desk.start("B", "draft")
        response = desk.anna.post("/f/press/start", {"key": "k", "run_name": "C", "step": "draft"}, headers=HTMX)
        assert response.status_code == 422
        assert "Draft is full, and so is Ideas" in response.content.decode()


class TestTheRunPage:
    def page(self, desk: Desk, run: FlowRun) -> str:
        return desk.anna.get(f"/f/press/r/{run.number}/").content.decode()

    def test_a_queued_run_says_what_it_waits_for_and_can_be_moved(self, desk: Desk) -> None:
        for name in ("A", "B"):
            desk.start(name, "draft")
        run = desk.start("C", "draft")
        assert "In line for Draft" in self.page(desk, run)
        response = desk.anna.post(f"/f/press/r/{run.number}/move", {"step": "ideas", "visit": ""}, headers=HTMX)
        assert response.status_code == 204
        assert place(run) == "ideas active"

    def test_a_promotion_stands_in_its_history(self, desk: Desk) -> None:
        first, _, third = (desk.start(name, "draft") for name in ("A", "B", "C"))
        flows.move(desk.stage.anna, first, "ideas")
        settle()
        assert "A place in Draft came free" in self.page(desk, third)

    def test_it_is_archived_and_taken_out_again_there(self, desk: Desk) -> None:
        run = desk.start("A")
        assert "Take out of the archive" not in self.page(desk, run)
        assert desk.anna.post(f"/f/press/r/{run.number}/archive", headers=HTMX).status_code == 204
        html = self.page(desk, run)
        assert "Take out of the archive" in html
        assert "The run is archived. Take it out of the archive first." in html
        assert desk.anna.post(f"/f/press/r/{run.number}/unarchive", headers=HTMX).status_code == 204
        assert fresh(run).archived_at is None


def test_a_card_says_what_its_first_input_says(desk: Desk) -> None:
    flows.start(desk.stage.anna, desk.flow, {"topic": "Polish <b>the</b> anchor\nand more"}, "Press 1")
    page = desk.html()
    assert "Polish &lt;b&gt;the&lt;/b&gt; anchor" in page
    assert "and more" not in page
