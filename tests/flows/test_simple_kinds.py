"""Steps that ask for a form, wait, choose or tell, and the actions that go with them (spec: 05 section 1)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import errors, flows, sweeping
from boards.models import Debt, Hold, StepChange, Task, TranscriptItem, Visit
from tests import cast
from tests.flows.cast import Stage, fresh, history, place, settle
from tests.flows.kinds_cast import answer, events, open_task, output, started, work

pytestmark = pytest.mark.django_db

FORM = """
- key: ask
  name: Ask
  kind: input
  prompt: How many?
  schema: {type: object, properties: {count: {type: integer}}, required: [count]}
- {key: make, kind: agent, assignee: writer, prompt: "Make {{ steps.ask.output.count }}."}
"""


class TestInput:
    def test_the_values_of_the_form_are_the_steps_output(self, stage: Stage) -> None:
        run = started(stage, FORM)
        hold = Hold.objects.get()
        assert (hold.kind, hold.visit_id) == ("input", fresh(run).current_visit_id)
        assert not Task.objects.exists()
        answer(stage, "Ask", values={"count": 3})
        assert place(run) == "make active"
        assert output(run, "ask") == {"count": 3}
        assert open_task("Make").goal == "Make 3."
        assert history(run)[-1] == "ask > make (on_turn_complete, Anna)"

    def test_values_that_do_not_fit_are_refused_with_their_place(self, stage: Stage) -> None:
        run = started(stage, FORM)
        with pytest.raises(errors.InvalidInput, match="count"):
            answer(stage, "Ask", values={"count": "three"})
        assert place(run) == "ask active"

    def test_past_its_due_time_it_fails(self, stage: Stage) -> None:
        run = started(stage, FORM.replace("prompt: How many?", "prompt: How many?\n  timeout_ms: 60000"))
        Hold.objects.update(due_at=Now() - timedelta(seconds=1))
        sweeping.sweep_once()
        assert (place(run), fresh(run).error) == ("ask failed", "Nobody filled in the form before its due time.")

    def test_only_the_answer_completes_it(self, stage: Stage) -> None:
        run = started(stage, FORM)
        with pytest.raises(flows.IllegalRunMove, match="Only an answer"):
            flows.mark_complete(stage.anna, fresh(run))


WAIT = "- {key: pause, kind: wait, duration_ms: 3600000}\n- {key: go, kind: agent, assignee: writer, prompt: Go.}"


class TestWait:
    def test_it_goes_on_by_itself_when_its_time_has_come_and_not_before(self, stage: Stage) -> None:
        run = started(stage, WAIT)
        sweeping.sweep_once()
        assert place(run) == "pause active"
        visit = fresh(run).current_visit
        assert visit is not None
        assert visit.due_at is not None
        assert abs((visit.due_at - visit.entered_at).total_seconds() - 3600) < 1
        Visit.objects.update(due_at=Now() - timedelta(hours=1))
        assert flows.late_since() is not None
        assert sweeping.sweep_once().done["waits of runs ended"] == 1
        assert flows.late_since() is None
        assert place(run) == "go active"
        assert sweeping.sweep_once().done["waits of runs ended"] == 0
        assert StepChange.objects.filter(run=run, to_step="go").count() == 1

    def test_the_sweeper_sleeps_until_it_is_over(self, stage: Stage) -> None:
        started(stage, WAIT)
        assert sweeping.seconds_to_next(10_000) == pytest.approx(3600, abs=30)

    def test_a_moment_that_is_past_goes_on_at_once(self, stage: Stage) -> None:
        steps = WAIT.replace("duration_ms: 3600000", 'until: "2020-01-01T09:00:00+01:00"')
        assert place(started(stage, steps)) == "go active"

    def test_a_moment_may_come_from_the_runs_inputs(self, stage: Stage) -> None:
        steps = WAIT.replace("duration_ms: 3600000", 'until: "{{ input.at }}"')
        run = started(stage, steps, {"at": "2099-01-01T00:00:00Z"})
        visit = fresh(run).current_visit
        assert visit is not None
        assert visit.due_at is not None
        assert visit.due_at.isoformat() == "2099-01-01T00:00:00+00:00"

    @pytest.mark.parametrize("told", ["soon", "2099-01-01T00:00:00", ""])
    def test_what_is_no_moment_fails_the_step_in_words(self, stage: Stage, told: str) -> None:
        run = started(stage, WAIT.replace("duration_ms: 3600000", 'until: "{{ input.at }}"'), {"at": told})
        assert place(run) == "pause failed"
        assert "which is no moment with an offset" in fresh(run).error

    def test_a_wait_that_a_person_left_fires_nothing(self, stage: Stage) -> None:
        run = started(stage, WAIT)
        flows.mark_complete(stage.anna, fresh(run))
        settle()
        Visit.objects.filter(left_at__isnull=False).update(due_at=Now() - timedelta(hours=1))
        sweeping.sweep_once()
        assert place(run) == "go active"
        assert StepChange.objects.filter(run=run, from_step="pause").count() == 1


CHOICE = """
- key: pick
  kind: choice
  choices:
    - {when: "input.size == 'big'", step: big}
    - {when: "input.size == 'small'", step: small}
- {key: middle, kind: agent, assignee: writer, prompt: Middle.}
- {key: big, kind: agent, assignee: writer, prompt: Big.}
- {key: small, kind: agent, assignee: writer, prompt: Small.}
"""


class TestChoice:
    @pytest.mark.parametrize(("size", "where"), [("big", "big"), ("small", "small"), ("other", "middle")])
    def test_the_first_way_that_holds_is_taken_else_the_ordinary_one(self, stage: Stage, size: str, where: str) -> None:
        run = started(stage, CHOICE, {"size": size})
        assert place(run) == f"{where} active"
        assert history(run)[-1] == f"pick > {where} (on_turn_complete, Kinds)"

    def test_a_way_without_a_condition_is_taken_always(self, stage: Stage) -> None:
        steps = CHOICE.replace("    - {when: \"input.size == 'small'\", step: small}", "    - {step: small}")
        assert place(started(stage, steps, {"size": "none"})) == "small active"

    def test_what_cannot_be_worked_out_fails_the_step(self, stage: Stage) -> None:
        run = started(stage, CHOICE, {})
        assert place(run) == "pick failed"
        assert "input.size" in fresh(run).error

    def test_choices_that_go_round_are_stopped(self, stage: Stage) -> None:
        steps = """
        - {key: a, kind: choice, choices: [{step: b}]}
        - {key: b, kind: choice, choices: [{step: a}]}
        """
        run = started(stage, steps)
        assert fresh(run).status == "failed"
        assert "it goes round" in fresh(run).error


class TestNotify:
    def test_the_step_tells_and_goes_on(self, stage: Stage) -> None:
        steps = """
        - {key: tell, kind: notify, to: operators, prompt: "{{ run.name }} begins."}
        - {key: go, kind: agent, assignee: writer, prompt: Go.}
        """
        run = started(stage, steps)
        assert place(run) == "go active"
        (told,) = events(run, "run.notified")
        assert told.data["text"] == f"{run.name} begins."
        assert told.data["users"] == [stage.operator.user_id]

    @pytest.mark.parametrize("to", ["", "anna"])
    def test_without_a_name_it_is_whoever_started_the_run(self, stage: Stage, to: str) -> None:
        run = started(stage, f'- {{key: tell, kind: notify, to: "{to}", prompt: Hello.}}')
        assert events(run, "run.notified")[0].data["users"] == [stage.member.user_id]

    def test_a_name_that_nobody_has_is_said_and_stops_nothing(self, stage: Stage) -> None:
        run = started(stage, "- {key: tell, kind: notify, to: zoe, prompt: Hello.}")
        assert fresh(run).status == "completed"
        assert events(run, "run.notified")[0].data["users"] == []
        line = TranscriptItem.objects.get(session=run.session_id)
        assert line.text == "Nobody called “zoe” is a member here, so nobody was told: Hello."


class TestActions:
    def test_notify_on_the_way(self, stage: Stage) -> None:
        steps = """
        - key: write
          kind: agent
          assignee: writer
          prompt: Go.
          events: {on_turn_complete: [{type: notify, message: "Got {{ output.text }}"}, move_to_next]}
        """
        run = started(stage, steps)
        work(stage, "Write", {"text": "words"})
        assert [event.data["text"] for event in events(run, "run.notified")] == ["Got words"]
        assert fresh(run).status == "completed"

    def test_create_task_files_one_beside_the_run(self, stage: Stage) -> None:
        steps = """
        - key: write
          kind: agent
          assignee: writer
          prompt: Go.
          events:
            on_turn_complete:
              - {type: create_task, goal: "Tell of {{ output.text }}", title: Tell, assignee: reader}
              - move_to_next
        """
        run = started(stage, steps)
        work(stage, "Write", {"text": "words"})
        made = Task.objects.get(title="Tell")
        assert (made.goal, made.assignee, made.visit_id, made.status) == ("Tell of words", "reader", None, "pending")
        assert made.filer_id == run.session_id
        assert fresh(run).status == "completed", "no step waits for it"

    def test_create_task_for_somebody_who_is_not_there_is_listed_and_stops_nothing(self, stage: Stage) -> None:
        steps = "- {key: look, events: {on_enter: [{type: create_task, goal: Go, assignee: zoe}]}}"
        run = started(stage, steps)
        assert place(run) == "look active"
        debt = Debt.objects.get(kind="flow_create_task")
        assert debt.state == "undeliverable"
        assert "“zoe” is not on the roster" in debt.last_error

    def test_reset_context_keeps_earlier_outputs_from_later_tasks(self, stage: Stage) -> None:
        steps = """
        - {key: one, kind: agent, assignee: writer, prompt: One.}
        - {key: two, kind: agent, assignee: writer, prompt: "Two.", events: {on_enter: [reset_context]}}
        - {key: three, kind: agent, assignee: writer, prompt: "Three after {{ steps.one.output.text }}."}
        """
        started(stage, steps)
        work(stage, "One", {"text": "first"})
        assert open_task("Two").input["steps"] == {}
        work(stage, "Two", {"text": "second"})
        assert open_task("Three").input["steps"] == {"two": {"output": {"text": "second"}}}
        assert open_task("Three").goal == "Three after first.", "a prompt that names a step still gets it"


def test_an_agent_step_has_the_spaces_due_time_and_a_column_does_not(stage: Stage) -> None:
    stage.space.agent_timeout_ms = 60_000
    stage.space.save()
    steps = """
    - {key: column, kind: column, assignee: writer, prompt: Go., events: {on_enter: [auto_start]}}
    - {key: agent, kind: agent, assignee: writer, prompt: Go.}
    - {key: own, kind: task, assignee: writer, prompt: Go., timeout_ms: 5000}
    """
    run = started(stage, steps, style="pipeline")
    for _ in range(3):
        stage.complete(cast.WRITER)
    spans = [
        None if visit.due_at is None else round((visit.due_at - visit.entered_at).total_seconds())
        for visit in run.visits.order_by("pk")
    ]
    assert spans == [None, 60, 5, None]
