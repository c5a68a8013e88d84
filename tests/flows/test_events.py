"""A wait that ends by an event: before it, after it, at its due time; once, and by the first (spec: 05 section 7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from boards import errors, flows, sweeping
from boards.flows import events, validate
from boards.locks import engine_transaction
from boards.models import Debt, Flow, FlowRun, KeptEvent, StepChange, Visit
from tests.flows.cast import Stage, fresh, place, settle
from tests.flows.kinds_cast import define, output

pytestmark = pytest.mark.django_db

WAIT = """
- {key: pause, kind: wait, event: "paid {{ input.order }}", duration_ms: 3600000}
- {key: go, kind: agent, assignee: writer, prompt: "Send {{ steps.pause.output }}."}
"""
FOREVER = WAIT.replace(", duration_ms: 3600000", "")


def started(stage: Stage, steps: str = WAIT, order: str = "7") -> FlowRun:
    run = flows.start(stage.anna, define(stage, steps), {"order": order})
    settle()
    return fresh(run)


@engine_transaction
def came(stage: Stage, flow: Flow, key: str = "paid 7", payload: Any = None) -> KeptEvent:
    return events.keep(stage.anna, flow, key, {"order": 7} if payload is None else payload)


class TestAfter:
    def test_it_ends_the_wait_and_its_payload_is_the_output(self, stage: Stage) -> None:
        run = started(stage)
        assert place(run) == "pause active"
        event = came(stage, run.flow, payload={"order": 7, "sum": "12"})
        settle()
        assert place(run) == "go active"
        assert output(run, "pause") == {"order": 7, "sum": "12"}
        event.refresh_from_db()
        assert event.taken_by is not None
        assert event.taken_by.step_key == "pause"

    def test_an_event_with_another_key_ends_nothing_and_is_kept(self, stage: Stage) -> None:
        run = started(stage)
        event = came(stage, run.flow, "paid 8")
        settle()
        assert place(run) == "pause active"
        event.refresh_from_db()
        assert event.taken_at is None

    def test_a_step_without_a_time_waits_for_its_event_alone(self, stage: Stage) -> None:
        run = started(stage, FOREVER)
        visit = fresh(run).current_visit
        assert visit is not None
        assert visit.due_at is None
        sweeping.sweep_once()
        assert place(run) == "pause active"
        came(stage, run.flow)
        settle()
        assert place(run) == "go active"

    def test_of_two_runs_that_wait_the_first_takes_it_and_the_second_the_next(self, stage: Stage) -> None:
        first = started(stage)
        second = flows.start(stage.anna, first.flow, {"order": "7"})
        settle()
        came(stage, first.flow)
        settle()
        assert [place(first), place(second)] == ["go active", "pause active"]
        came(stage, first.flow)
        settle()
        assert place(second) == "go active"

    def test_the_same_key_of_another_flow_ends_nothing(self, stage: Stage) -> None:
        run = started(stage)
        came(stage, define(stage, WAIT, key="other"))
        settle()
        assert place(run) == "pause active"

    def test_a_run_that_was_moved_on_by_hand_leaves_it_for_another(self, stage: Stage) -> None:
        run = started(stage)
        flows.mark_complete(stage.anna, fresh(run))
        settle()
        event = came(stage, run.flow)
        settle()
        event.refresh_from_db()
        assert event.taken_at is None
        later = flows.start(stage.anna, run.flow, {"order": "7"})
        settle()
        assert place(later) == "go active"


class TestBefore:
    def test_it_is_kept_and_taken_when_the_step_is_entered_once(self, stage: Stage) -> None:
        flow = define(stage, WAIT)
        came(stage, flow)
        first, second = (flows.start(stage.anna, flow, {"order": "7"}) for _ in range(2))
        settle()
        assert [place(first), place(second)] == ["go active", "pause active"]
        assert StepChange.objects.filter(run=first, from_step="pause").count() == 1

    def test_the_oldest_of_several_is_taken_first(self, stage: Stage) -> None:
        flow = define(stage, WAIT)
        for number in (1, 2):
            came(stage, flow, payload={"number": number})
        run = flows.start(stage.anna, flow, {"order": "7"})
        settle()
        assert output(run, "pause") == {"number": 1}

    def test_after_seven_days_it_is_forgotten(self, stage: Stage) -> None:
        flow = define(stage, WAIT)
        came(stage, flow)
        KeptEvent.objects.update(received_at=Now() - timedelta(days=7, seconds=1))
        run = flows.start(stage.anna, flow, {"order": "7"})
        settle()
        assert place(run) == "pause active"
        assert sweeping.sweep_once().done["old events forgotten"] == 1
        assert not KeptEvent.objects.exists()

    def test_a_step_whose_moment_is_past_takes_what_is_there(self, stage: Stage) -> None:
        flow = define(stage, WAIT.replace("duration_ms: 3600000", 'until: "2020-01-01T00:00:00Z"'))
        came(stage, flow)
        run = flows.start(stage.anna, flow, {"order": "7"})
        settle()
        assert output(run, "pause") == {"order": 7}


class TestItsTime:
    def test_without_an_event_the_time_ends_it(self, stage: Stage) -> None:
        run = started(stage)
        Visit.objects.update(due_at=Now() - timedelta(seconds=1))
        sweeping.sweep_once()
        assert place(run) == "go active"
        told = output(run, "pause")
        assert isinstance(told, dict)
        assert list(told) == ["until"]

    def test_an_event_that_came_before_the_time_was_first_though_nobody_had_looked(self, stage: Stage) -> None:
        """As after a process that ended between keeping the event and bringing it."""
        run = started(stage)
        came(stage, run.flow)
        Debt.objects.filter(kind="flow_advance", state=Debt.State.OWED).delete()
        Visit.objects.filter(left_at=None).update(due_at=Now())
        sweeping.end_waits()
        assert output(run, "pause") == {"order": 7}

    def test_an_event_that_came_after_the_time_is_left_for_another(self, stage: Stage) -> None:
        run = started(stage)
        Visit.objects.update(entered_at=Now() - timedelta(hours=1), due_at=Now() - timedelta(minutes=1))
        event = came(stage, run.flow)
        settle()
        assert place(run) == "pause active"
        sweeping.sweep_once()
        assert list(output(run, "pause")) == ["until"]
        event.refresh_from_db()
        assert event.taken_at is None

    def test_an_event_whose_process_ended_is_brought_by_the_sweeper(self, stage: Stage) -> None:
        run = started(stage)
        came(stage, run.flow)
        Debt.objects.filter(kind="flow_advance", state=Debt.State.OWED).delete()
        assert sweeping.sweep_once().done["events matched"] == 1
        assert place(run) == "go active"
        assert sweeping.sweep_once().done["events matched"] == 0


class TestKeys:
    @pytest.mark.parametrize("key", ["", "   ", "x" * 201])
    def test_a_key_that_is_none_is_refused(self, stage: Stage, key: str) -> None:
        with pytest.raises(errors.InvalidInput, match="1 to 200 characters"):
            came(stage, define(stage, WAIT), key)

    def test_a_step_whose_key_comes_out_empty_fails_in_words(self, stage: Stage) -> None:
        run = started(stage, WAIT.replace("paid {{ input.order }}", "{{ input.order }}"), order="")
        assert place(run) == "pause failed"
        assert "The key of an event has 1 to 200 characters." in fresh(run).error

    def test_hostile_text_stays_text(self, stage: Stage) -> None:
        run = started(stage, order="{{ 7 * 7 }}\0")
        came(stage, run.flow, "paid {{ 7 * 7 }}\0", {"x": "{{ 7 * 7 }}<script>"})
        settle()
        assert output(run, "pause") == {"x": "{{ 7 * 7 }}<script>"}


class TestJudging:
    HEAD = "key: f\nname: F\nsteps:\n"
    TAIL = "  - {key: done, name: Done}\n"

    def judged(self, step: str) -> list[str]:
        with pytest.raises(errors.InvalidFlow) as refused:
            validate(f"{self.HEAD}  - {{key: a, name: A, {step}}}\n{self.TAIL}")
        return refused.value.problems

    @pytest.mark.parametrize("step", ["event: paid", "event: paid, duration_ms: 5", "event: paid, until: '2027-01-01'"])
    def test_a_wait_takes_an_event_with_or_without_a_time(self, step: str) -> None:
        flow = validate(f"{self.HEAD}  - {{key: a, name: A, kind: wait, {step}}}\n{self.TAIL}")
        assert flow.steps[0].event == "paid"
        assert flow.steps[0].wire()["event"] == "paid"

    def test_a_wait_for_nothing_is_refused(self) -> None:
        assert self.judged("kind: wait") == [
            'line 4, steps[0].kind: A wait needs "duration_ms" or "until", one of the two, or the "event" that it '
            "waits for."
        ]

    def test_two_times_are_refused_also_beside_an_event(self) -> None:
        assert "one of the two" in self.judged("kind: wait, event: paid, duration_ms: 5, until: soon")[0]

    def test_another_kind_takes_no_event(self) -> None:
        assert "does nothing on a step" in self.judged("kind: notify, prompt: Hello, event: paid")[0]

    def test_a_key_that_names_what_is_not_known_is_refused(self) -> None:
        assert "Unknown name" in self.judged('kind: wait, event: "{{ nothing }}"')[0]
