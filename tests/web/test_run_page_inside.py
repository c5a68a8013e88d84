"""The run page of steps with works inside: branches, stage tasks, failure steps, called runs; and the acts on them."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from boards import flows
from boards.models import Event, FlowRun, Hold, Task
from tests import cast
from tests.flows.cast import Stage, fresh, place, settle
from tests.flows.kinds_cast import answer, define, started, withdraw, work

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def anna(stage: Stage) -> Client:
    client = Client()
    client.force_login(stage.member.user)
    return client


def path(run: FlowRun, more: str = "") -> str:
    return f"/f/{run.flow.key}/r/{run.number}/{more}"


def html(client: Client, run: FlowRun) -> str:
    response = client.get(path(run))
    assert response.status_code == 200
    return response.content.decode()


def act(client: Client, run: FlowRun, verb: str, **form: str) -> int:
    return client.post(path(run, verb), form, headers=HTMX).status_code


PARALLEL = """
- key: checks
  name: Checks
  kind: parallel
  branches:
    - {key: tests, name: Run tests, kind: agent, assignee: writer, prompt: Test.}
    - {key: consent, name: Consent, kind: approval, prompt: "Fine?"}
- {key: ship, name: Ship, kind: agent, assignee: writer, prompt: Ship.}
"""


def test_the_branches_stand_in_their_step_with_their_state_and_time(stage: Stage, anna: Client) -> None:
    run = started(stage, PARALLEL)
    page = html(anna, run)
    assert "Run tests" in page
    assert "Consent" in page
    assert "Waits on a person" in page
    assert f'action="/holds/{Hold.objects.get().pk}/answer"' in page, "its question is answered in place"
    answer(stage, "Consent", "approve")
    work(stage, "Run tests")
    page = html(anna, run)
    assert page.count("inner-mark st--done") + page.count("inner-mark inner-mark--person st--done") == 2
    assert 'id="t-checks-tests" class="score-inner"' in page
    assert 'id="t-checks-consent" class="score-inner"' in page
    assert "all that it waited for has ended" in page


def test_a_step_that_the_run_has_not_reached_shows_what_it_will_have_inside(stage: Stage, anna: Client) -> None:
    run = started(stage, "- {key: first, kind: agent, assignee: writer, prompt: Go.}\n" + PARALLEL.strip())
    assert "Run tests" in html(anna, run)


def test_a_stage_says_what_waits_and_why_it_waits(stage: Stage, anna: Client) -> None:
    steps = """
    - key: build
      name: Build
      kind: stage
      assignee: writer
      tasks:
        - {key: plan, goal: Plan it, title: Plan it first}
        - {key: code, goal: Code it, title: Code it, deps: [plan]}
        - {key: docs, goal: Describe it, title: Describe it, required: false}
    """
    run = started(stage, steps)
    page = html(anna, run)
    assert "Waits for others" in page
    assert "optional" in page
    withdraw(stage, "Plan it first")
    page = html(anna, run)
    assert "Skipped: the due time passed" in page
    assert "The due time of “plan” passed, and the stage requires it." in page
    assert "What depends on it keeps waiting." in page


def test_failure_steps_stand_under_the_step_that_failed(stage: Stage, anna: Client) -> None:
    steps = """
    - key: write
      name: Write
      kind: agent
      assignee: writer
      prompt: Write.
      on_failure: {steps: [{key: clean, name: Clean up, kind: task, assignee: reader, prompt: Clean.}], then: fail}
    """
    run = started(stage, steps)
    work(stage, "Write", fails="No ink.")
    page = html(anna, run)
    assert "after the failure" in page
    assert "Clean up" in page
    assert "Write failed" in page, "the history says so"
    assert "No ink." in page
    work(stage, "Clean up", who=cast.READER)
    assert "The run failed" in html(anna, run)


def test_a_called_run_is_linked_both_ways(stage: Stage, anna: Client) -> None:
    define(stage, "- {key: write, name: Write, kind: agent, assignee: writer, prompt: Go.}", key="child")
    run = started(stage, "- {key: part, name: Part, kind: call, flow: child}")
    child = FlowRun.objects.select_related("flow").get(called_by__run=run)
    assert f'href="{path(child)}"' in html(anna, run)
    assert f'href="{path(run)}"' in html(anna, child)
    assert "Called by" in html(anna, child)


def test_a_wait_is_told_apart_from_a_step_that_waits_for_a_person(stage: Stage, anna: Client) -> None:
    run = started(stage, "- {key: pause, name: Pause, kind: wait, duration_ms: 3600000}")
    page = html(anna, run)
    assert "Waits for its time" in page
    assert "Waits for a person to move it on" not in page


def test_the_word_of_the_agent_stands_in_the_history(stage: Stage, anna: Client) -> None:
    steps = """
    - {key: write, kind: agent, assignee: writer, prompt: Go., auto_advance_requires_signal: true}
    - {key: look, kind: column}
    """
    run = started(stage, steps)
    visit = fresh(run).current_visit_id
    assert visit is not None
    flows.signal(cast.agent_chain(stage.board), visit, "All forty pages")
    work(stage, "Write")
    assert "All forty pages" in html(anna, run)


class TestActs:
    STEPS = """
    - {key: write, name: Write, kind: agent, assignee: writer, prompt: Write.}
    - {key: read, name: Read, kind: agent, assignee: reader, prompt: Read.}
    """

    def failed(self, stage: Stage) -> FlowRun:
        run = started(stage, self.STEPS)
        work(stage, "Write", fails="No ink.")
        return run

    def test_a_failed_run_offers_what_can_be_done(self, stage: Stage, anna: Client) -> None:
        page = html(anna, self.failed(stage))
        for label in ("Run step again", "Complete by hand…", "Skip with reason…", "Run again from…", "Move to…"):
            assert label in page

    def test_skip(self, stage: Stage, anna: Client) -> None:
        run = self.failed(stage)
        assert act(anna, run, "skip") == 422
        assert act(anna, run, "skip", reason="Have one.") == 204
        assert place(run) == "read active"
        page = html(anna, run)
        assert "Anna skipped Write" in page
        assert "Have one." in page

    @pytest.mark.parametrize(
        ("told", "output"), [("Words", {"text": "Words"}), ('{"pages": 3}', {"pages": 3}), (" [1] ", {"text": "[1]"})]
    )
    def test_complete_by_hand(self, stage: Stage, anna: Client, told: str, output: object) -> None:
        run = self.failed(stage)
        assert act(anna, run, "complete_by_hand", output=told) == 204
        assert place(run) == "read active"
        assert run.visits.get(step_key="write").output == output

    @pytest.mark.parametrize("told", ["", "   ", '{"pages": '])
    def test_complete_by_hand_needs_something_that_can_be_read(self, stage: Stage, anna: Client, told: str) -> None:
        run = self.failed(stage)
        assert act(anna, run, "complete_by_hand", output=told) == 422
        assert place(run) == "write failed"

    def test_run_from(self, stage: Stage, anna: Client) -> None:
        run = self.failed(stage)
        assert act(anna, run, "run_from", step="write") == 204
        assert place(run) == "write active"

    def test_a_move_over_work_that_has_begun_says_that_it_cancels_it(self, stage: Stage, anna: Client) -> None:
        run = started(stage, self.STEPS)
        stage.claim()
        page = html(anna, run)
        assert "Write is being worked. Moving cancels its turn" in page
        assert 'name="cancel_turn" value="yes"' in page
        assert act(anna, run, "move", step="read") == 409
        assert act(anna, run, "move", step="read", cancel_turn="yes") == 204
        settle()
        assert place(run) == "read active"
        assert Task.objects.get(title__startswith="Write").status == "cancelled"

    def test_an_act_of_another_visit_is_refused(self, stage: Stage, anna: Client) -> None:
        run = started(stage, self.STEPS)
        seen = str(fresh(run).current_visit_id)
        work(stage, "Write")
        work(stage, "Read", fails="Dark.", who=cast.READER)
        assert act(anna, run, "skip", reason="No.", visit=seen) == 409
        assert place(run) == "read failed"


def test_votes_are_shown_and_counted_on_the_page(stage: Stage, anna: Client) -> None:
    cast.make_member(stage.space, "bo")
    steps = """
    - key: write
      name: Write
      kind: agent
      assignee: writer
      prompt: Go.
      events:
        on_turn_complete:
          - {type: move_to_next, requires_approval: true, quorum: {role: members, threshold: all_approve}}
    """
    run = started(stage, steps)
    work(stage, "Write")
    hold = Hold.objects.get()
    assert "0 of 2 have decided. All of them have to say yes." in html(anna, run)
    form = {"choice": "approve", "shown_hash": hold.draft_hash}
    response = anna.post(f"/holds/{hold.pk}/answer", form, headers=HTMX)
    assert response.status_code == 200
    assert "1 of 2 have decided: Anna yes." in response.content.decode()
    assert place(run) == "write active"
    assert Event.objects.filter(kind="hold.voted").count() == 1


def test_the_page_costs_the_same_however_many_works_a_step_has(stage: Stage, anna: Client) -> None:
    def cost(run: FlowRun) -> int:
        html(anna, run)
        with CaptureQueriesContext(
            connection,
        ) as seen:
            html(anna, run)
        return len(seen)

    def flow(count: int) -> str:
        tasks = "\n".join(f"    - {{key: t{n}, goal: Go}}" for n in range(count))
        return f"- key: build\n  kind: stage\n  assignee: writer\n  tasks:\n{tasks}"

    few = started(stage, flow(2), key="few")
    many = started(stage, flow(40), key="many")
    assert cost(many) == cost(few)
