"""Sweepers, senders and runs at the same moment: a due moment, a message and an event do what they do once."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import flows, sweeping
from boards.flows import Message, ScheduleFields, WebhookFields, events
from boards.locks import engine_transaction
from boards.models import Event, FlowRun, KeptEvent, Schedule, StepChange, Visit
from boards.outbound import signed_headers
from tests.flows.cast import Stage, fresh, place, settle
from tests.flows.kinds_cast import define, output
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)

WAIT = """
- {key: pause, kind: wait, event: "paid {{ input.order }}", duration_ms: 3600000}
- {key: go, kind: agent, assignee: writer, prompt: Go.}
"""


@engine_transaction
def came(stage: Stage, run: FlowRun, number: int = 1) -> KeptEvent:
    return events.keep(stage.anna, run.flow, "paid 7", {"number": number})


@pytest.mark.parametrize("round_", range(10))
def test_sweepers_that_fire_one_due_moment_start_one_run(round_: int) -> None:
    stage = Stage()
    flows.add_schedule(stage.olga, stage.flow(), ScheduleFields("0 9 * * *"))
    Schedule.objects.update(next_at=Now() - timedelta(hours=3))
    started = at_once(*[lambda: flows.start_due(10)] * 4)
    assert sorted(started) == [0, 0, 0, 1]
    assert FlowRun.objects.count() == 1
    assert Event.objects.filter(kind="schedule.fired").count() == 1


@pytest.mark.parametrize("round_", range(5))
def test_a_pause_and_a_sweeper_agree(round_: int) -> None:
    stage = Stage()
    row = flows.add_schedule(stage.olga, stage.flow(), ScheduleFields("0 9 * * *"))
    Schedule.objects.update(next_at=Now() - timedelta(minutes=1))
    _, started = at_once(lambda: flows.pause_schedule(stage.olga, row), lambda: flows.start_due(10))
    row.refresh_from_db()
    assert (row.enabled, row.next_at) == (False, None)
    assert FlowRun.objects.count() == started


@pytest.mark.parametrize("round_", range(10))
def test_one_message_that_comes_four_times_at_once_starts_one_run_and_is_answered_alike(round_: int) -> None:
    stage = Stage()
    fields = WebhookFields("Tracker", {"topic": "{{ payload.topic }}"})
    webhook, secret = flows.add_webhook(stage.olga, stage.flow(), "start", fields)
    body = json.dumps({"topic": "Cats"}).encode()
    headers = signed_headers("msg_1", secret, body)
    message = Message(headers["webhook-id"], headers["webhook-timestamp"], headers["webhook-signature"], body)
    answers = at_once(*[lambda: flows.take_message(webhook.public_id, message)] * 4)
    assert answers == [{"run": 1}] * 4
    assert FlowRun.objects.count() == 1


@pytest.mark.parametrize("round_", range(20))
def test_an_event_and_the_entry_of_the_step_that_waits_for_it_at_the_same_moment_meet_once(round_: int) -> None:
    stage = Stage()
    flow = define(stage, WAIT)
    like = FlowRun(flow=flow)
    run, event = at_once(lambda: flows.start(stage.anna, flow, {"order": "7"}), lambda: came(stage, like))
    settle()
    assert place(run) == "go active"
    event.refresh_from_db()
    assert event.taken_by is not None
    assert event.taken_by.run_id == run.pk
    assert StepChange.objects.filter(run=run, from_step="pause").count() == 1


@pytest.mark.parametrize("round_", range(20))
def test_an_event_and_the_time_at_the_same_moment_end_the_wait_once(round_: int) -> None:
    stage = Stage()
    run = flows.start(stage.anna, define(stage, WAIT), {"order": "7"})
    settle()
    Visit.objects.filter(left_at=None).update(due_at=Now())
    _, event = at_once(sweeping.end_waits, lambda: came(stage, fresh(run)))
    settle()
    sweeping.sweep_once()
    assert place(run) == "go active"
    assert StepChange.objects.filter(run=run, from_step="pause").count() == 1
    event.refresh_from_db()
    told = output(run, "pause")
    assert isinstance(told, dict)
    assert (told == {"number": 1}) == (event.taken_at is not None)


@pytest.mark.parametrize("round_", range(10))
def test_three_events_and_three_runs_that_wait_are_one_each(round_: int) -> None:
    stage = Stage()
    flow = define(stage, WAIT)
    runs = [flows.start(stage.anna, flow, {"order": "7"}) for _ in range(3)]
    settle()
    at_once(*[lambda n=n: came(stage, runs[0], n) for n in range(3)])
    settle()
    sweeping.sweep_once()
    settle()
    assert [place(run) for run in runs] == ["go active"] * 3
    assert sorted(output(run, "pause")["number"] for run in runs) == [0, 1, 2]
