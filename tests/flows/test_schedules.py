"""Schedules start runs: once per due moment, for their author, and never a storm (spec: 05 section 7; fault 29)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from boards import errors, flows, sweeping
from boards.flows import clock, schedules
from boards.flows.schedules import ScheduleFields
from boards.models import Event, Flow, FlowRun, Member, Role, Schedule
from tests import cast
from tests.flows.cast import REVIEWED, Stage, settle

pytestmark = pytest.mark.django_db

LIMIT = 50


def scheduled(stage: Stage, expression: str = "0 9 * * *", **fields: Any) -> Schedule:
    return flows.add_schedule(stage.olga, stage.flow(), ScheduleFields(expression, **fields))


def due(row: Schedule, ago: timedelta = timedelta(minutes=1)) -> datetime:
    """Let it have been due for so long, by the database's clock; answers that moment."""
    Schedule.objects.filter(pk=row.pk).update(next_at=Now() - ago)
    found = Schedule.objects.get(pk=row.pk).next_at
    assert found is not None
    return found


def fresh(row: Schedule) -> Schedule:
    return Schedule.objects.get(pk=row.pk)


class TestStarting:
    def test_what_is_due_starts_once_in_the_name_of_its_author(self, stage: Stage) -> None:
        row = scheduled(stage, zone="Europe/Copenhagen", inputs={"topic": "Cats"}, name_template="Daily {{ date }}")
        due(row)
        assert sweeping.sweep_once().done["runs started by schedules"] == 1
        settle()
        run = FlowRun.objects.get()
        assert (run.inputs, run.started_by, run.started_by_name) == ({"topic": "Cats"}, stage.operator.user, "Olga")
        assert re.fullmatch(r"Daily \d{4}-\d\d-\d\d", run.name)
        assert sweeping.sweep_once().done["runs started by schedules"] == 0
        assert fresh(row).last_run == run

    def test_what_is_not_due_waits(self, stage: Stage) -> None:
        scheduled(stage)
        assert flows.start_due(LIMIT) == 0

    def test_the_chain_of_the_run_names_the_author_and_the_schedule(self, stage: Stage) -> None:
        due(scheduled(stage))
        flows.start_due(LIMIT)
        chain = Event.objects.get(kind="run.started").chain
        assert [(hop["kind"], hop["name"]) for hop in chain] == [("person", "Olga"), ("service", "schedule")]

    def test_a_sweeper_that_was_down_for_hours_fires_once_and_the_event_says_the_true_moment(
        self, stage: Stage
    ) -> None:
        row = scheduled(stage, "*/5 * * * *")
        moment = due(row, timedelta(hours=6))
        assert [flows.start_due(LIMIT), flows.start_due(LIMIT)] == [1, 0]
        event = Event.objects.get(kind="schedule.fired")
        assert datetime.fromisoformat(event.data["due"]) == moment
        assert event.run == FlowRun.objects.get()
        following = fresh(row).next_at
        assert following is not None
        assert timedelta(0) < following - clock.now() <= timedelta(minutes=5)

    @pytest.mark.parametrize("day", [datetime(2026, 10, 25, tzinfo=UTC), datetime(2027, 3, 28, tzinfo=UTC)])
    def test_daily_half_past_two_in_copenhagen_starts_once_on_the_days_of_the_change(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch, day: datetime
    ) -> None:
        """The row's own due moments are walked through the day: each is made due, and fired."""
        monkeypatch.setattr(clock, "now", lambda: day - timedelta(hours=3))
        row = scheduled(stage, "30 2 * * *", zone="Europe/Copenhagen")
        fired = []
        while (at := fresh(row).next_at) is not None and at < day + timedelta(hours=22):
            monkeypatch.setattr(clock, "now", lambda at=at: at)
            monkeypatch.setattr(schedules, "_due", lambda key, due_at: Schedule.objects.filter(pk=key, next_at=due_at))
            assert schedules.fire(row.pk, at)
            fired.append(at)
        assert [f"{at:%d %b %H:%M}" for at in fired] == [{10: "25 Oct 00:30", 3: "28 Mar 01:00"}[day.month]]

    def test_a_moment_that_was_seen_before_it_was_fired_is_not_fired_again(self, stage: Stage) -> None:
        row = scheduled(stage)
        moment = due(row)
        assert [schedules.fire(row.pk, moment), schedules.fire(row.pk, moment)] == [True, False]
        assert FlowRun.objects.count() == 1

    def test_the_sweeper_sleeps_until_the_next_one(self, stage: Stage) -> None:
        row = scheduled(stage)
        Schedule.objects.filter(pk=row.pk).update(next_at=Now() + timedelta(minutes=20))
        assert sweeping.seconds_to_next(10_000) == pytest.approx(1200, abs=60)


class TestStopping:
    @pytest.mark.parametrize("how", ["viewer", "gone", "inactive", "deleted"])
    def test_an_author_who_lost_the_right_stops_it_and_its_page_says_so(self, stage: Stage, how: str) -> None:
        row = scheduled(stage)
        due(row)
        match how:
            case "viewer":
                Member.objects.filter(pk=stage.operator.pk).update(role=Role.VIEWER)
            case "gone":
                stage.operator.delete()
            case "inactive":
                type(stage.operator.user).objects.filter(pk=stage.operator.user_id).update(is_active=False)
            case "deleted":
                stage.operator.user.delete()
        assert flows.start_due(LIMIT) == 0
        now = fresh(row)
        assert (now.enabled, now.next_at, FlowRun.objects.count()) == (False, None, 0)
        assert "Resume it, and it acts for you instead." in now.error
        assert Event.objects.filter(kind="schedule.stopped").count() == 1

    def test_resumed_by_another_operator_it_acts_for_them(self, stage: Stage) -> None:
        row = scheduled(stage)
        due(row)
        stage.operator.delete()
        flows.start_due(LIMIT)
        other = cast.chain_of(cast.make_member(stage.space, "otto", Role.OPERATOR))
        flows.resume_schedule(other, fresh(row))
        due(row)
        assert flows.start_due(LIMIT) == 1
        assert FlowRun.objects.get().started_by_name == "Otto"
        assert fresh(row).error == ""

    def test_a_flow_that_asks_for_more_by_now_stops_it_in_words(self, stage: Stage) -> None:
        row = scheduled(stage)
        stage.flow(REVIEWED + "  required: [topic]\n")
        due(row)
        assert flows.start_due(LIMIT) == 0
        assert (fresh(row).enabled, fresh(row).error) == (False, "topic is needed.")

    def test_one_that_breaks_does_not_keep_the_others_from_starting(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken, sound = scheduled(stage), scheduled(stage)
        due(broken, timedelta(minutes=5))
        due(sound)
        name = schedules._name
        monkeypatch.setattr(schedules, "_name", lambda row, at: 1 / 0 if row.pk == broken.pk else name(row, at))
        assert flows.start_due(LIMIT) == 1
        assert fresh(broken).last_at is None

    def test_a_full_step_passes_the_moment_over_and_says_so(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: Any, **__: Any) -> None:
            raise flows.StepFull("Write is full.")

        row = scheduled(stage)
        moment = due(row)
        monkeypatch.setattr(schedules, "start", full)
        assert flows.start_due(LIMIT) == 0
        now = fresh(row)
        assert (now.enabled, now.error) == (True, "Write is full.")
        assert now.next_at is not None
        assert now.next_at > moment


class TestEditing:
    def test_only_those_who_may_edit_flows_set_one_up(self, stage: Stage) -> None:
        flow = stage.flow()
        with pytest.raises(errors.Forbidden):
            flows.add_schedule(stage.anna, flow, ScheduleFields("0 9 * * *"))
        row = scheduled(stage)
        for verb in (flows.pause_schedule, flows.resume_schedule, flows.remove_schedule):
            with pytest.raises(errors.Forbidden):
                verb(stage.anna, row)

    def test_a_flow_of_another_space_does_not_exist(self, stage: Stage) -> None:
        flow: Flow = stage.flow()
        stranger = cast.make_member(cast.make_space("other"), "otto", Role.OPERATOR)
        with pytest.raises(errors.NotFound):
            flows.add_schedule(cast.chain_of(stranger), flow, ScheduleFields("0 9 * * *"))

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"expression": "soon"}, "expression"),
            ({"expression": "0 9 * * *", "zone": "Mars/Olympus"}, "zone"),
            ({"expression": "0 9 * * *", "inputs": {"size": 3}}, "inputs"),
            ({"expression": "0 9 * * *", "name_template": "{{ topic }}"}, "name_template"),
            ({"expression": "0 9 * * *", "name_template": "x" * 201}, "name_template"),
        ],
    )
    def test_what_cannot_work_is_refused_with_its_field(self, stage: Stage, fields: dict[str, Any], field: str) -> None:
        with pytest.raises(errors.InvalidInput) as refused:
            flows.add_schedule(stage.olga, stage.flow(), ScheduleFields(**fields))
        assert refused.value.facts["field"] == field
        assert not Schedule.objects.exists()

    def test_paused_it_starts_nothing_and_resumed_it_makes_up_for_nothing(self, stage: Stage) -> None:
        row = scheduled(stage)
        due(row)
        flows.pause_schedule(stage.olga, row)
        assert flows.start_due(LIMIT) == 0
        flows.resume_schedule(stage.olga, row)
        assert flows.start_due(LIMIT) == 0
        assert FlowRun.objects.count() == 0

    def test_changed_it_goes_by_its_new_times_and_for_whoever_changed_it(self, stage: Stage) -> None:
        row = scheduled(stage)
        due(row)
        otto = cast.make_member(stage.space, "otto", Role.OPERATOR)
        flows.change_schedule(cast.chain_of(otto), row, ScheduleFields("0 10 * * *", inputs={"topic": "Dogs"}))
        now = fresh(row)
        assert (now.expression, now.inputs, now.author) == ("0 10 * * *", {"topic": "Dogs"}, otto.user)
        assert flows.start_due(LIMIT) == 0

    def test_changed_while_paused_it_stays_paused(self, stage: Stage) -> None:
        row = scheduled(stage)
        flows.pause_schedule(stage.olga, row)
        flows.change_schedule(stage.olga, row, ScheduleFields("0 10 * * *"))
        assert (fresh(row).expression, fresh(row).enabled, fresh(row).next_at) == ("0 10 * * *", False, None)

    def test_removed_it_is_gone_and_its_runs_stay(self, stage: Stage) -> None:
        row = scheduled(stage)
        due(row)
        flows.start_due(LIMIT)
        flows.remove_schedule(stage.olga, row)
        assert not Schedule.objects.exists()
        assert FlowRun.objects.count() == 1
