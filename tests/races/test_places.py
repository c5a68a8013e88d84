"""Many start, move, archive and cancel runs at once: never more than the limit, and nobody is left standing in line."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from boards import errors, flows, sweeping
from boards.debts import paying
from boards.flows import wip
from boards.models import Debt, Flow, FlowRun, StepChange, Visit
from tests.flows.cast import Stage, settle
from tests.flows.wip_cast import DESK, FED
from tests.racing import at_once

pytestmark = pytest.mark.django_db(transaction=True)

TWO = DESK.replace("wip_limit: 1", "wip_limit: 2").replace("name: Review}", "name: Review, wip_limit: 1}")


def most_at_once(flow: Flow, key: str) -> int:
    """How many stood in a step together at most, by the log of their stays: every entry and every leave of it."""
    with connection.cursor() as cursor:
        cursor.execute(
            """with change as (
                 select v.entered_at at, 1 by from boards_visit v join boards_flowrun r on r.id = v.run_id
                  where r.flow_id = %s and v.step_key = %s
                 union all
                 select coalesce(r.archived_at, v.left_at), -1 from boards_visit v
                   join boards_flowrun r on r.id = v.run_id
                  where r.flow_id = %s and v.step_key = %s and coalesce(r.archived_at, v.left_at) is not null)
               select coalesce(max(n), 0) from (select sum(by) over (order by at, by) n from change) x""",
            [flow.pk, key, flow.pk, key],
        )
        return int(cursor.fetchone()[0])


def nobody_is_stranded(flow: Flow) -> None:
    """Whoever waits for a step waits because it is full."""
    settle()
    limits = wip.newest_limits(flow.pk)
    waiting = FlowRun.objects.filter(flow=flow, archived_at=None).exclude(queued_step="")
    for key, count in Counter(waiting.values_list("queued_step", flat=True)).items():
        assert wip.admitted(flow.pk, key).count() >= limits.of(key) > 0, f"{count} wait for {key}, which has a place"
    for key in limits.places:
        if limits.of(key):
            assert wip.admitted(flow.pk, key).count() <= limits.of(key)
    assert sweeping.sweep_once().done["runs let into their step"] == 0


@pytest.mark.parametrize("round_", range(6))
def test_twenty_that_start_at_once_take_the_places_there_are(round_: int) -> None:
    stage = Stage()
    flow = stage.flow(TWO)
    answers = at_once(*[lambda n=n: flows.start(stage.anna, flow, {}, f"Run {n}") for n in range(20)])
    assert not [answer for answer in answers if isinstance(answer, errors.Refusal)]
    nobody_is_stranded(flow)
    assert wip.admitted(flow.pk, "write").count() == 2
    assert FlowRun.objects.filter(flow=flow, queued_step="write").count() == 18


@pytest.mark.parametrize("round_", range(6))
def test_with_a_feeder_so_many_are_told_that_there_is_no_place(round_: int) -> None:
    stage = Stage()
    flow = stage.flow(FED)
    answers = at_once(*[lambda n=n: flows.start(stage.anna, flow, {}, f"Run {n}") for n in range(12)])
    refused = [answer for answer in answers if isinstance(answer, flows.StepFull)]
    nobody_is_stranded(flow)
    # One place in the step and two in its feeder; what was refused is not there.
    assert FlowRun.objects.filter(flow=flow).count() == 12 - len(refused) == 3


@pytest.mark.parametrize("round_", range(8))
def test_starts_moves_archives_and_cancels_all_at_once(round_: int) -> None:
    stage = Stage()
    flow = stage.flow(TWO)
    made = [flows.start(stage.anna, flow, {}, f"Run {n}", step="backlog") for n in range(8)]
    luck = random.Random(round_)

    def act(seed: int) -> Callable[[], Any]:
        mine = random.Random(seed)

        def work() -> None:
            for _ in range(6):
                run = FlowRun.objects.get(pk=mine.choice(made).pk)
                verb = mine.random()
                try:
                    if verb < 0.15:
                        flows.start(stage.anna, flow, {}, "Another")
                    elif verb < 0.25:
                        flows.archive(stage.anna, run)
                    elif verb < 0.4:
                        flows.unarchive(stage.anna, run)
                    elif verb < 0.45:
                        flows.cancel_run(stage.anna, run)
                    else:
                        flows.move(stage.anna, run, mine.choice(["backlog", "write", "review", "done"]), before=0)
                except errors.Refusal:
                    pass  # somebody was faster

        return work

    at_once(*[act(luck.randrange(10**9)) for _ in range(8)])
    nobody_is_stranded(flow)
    open_visits = Visit.objects.filter(run__flow=flow, left_at=None).values_list("run", flat=True)
    assert len(set(open_visits)) == len(open_visits)
    queued = FlowRun.objects.filter(flow=flow).exclude(queued_step="")
    assert not queued.filter(pk__in=set(open_visits)).exists(), "what waits for a place stands nowhere"
    assert not Debt.objects.filter(kind="run_promote").exists()


@pytest.mark.parametrize("round_", range(6))
def test_a_place_comes_free_while_others_queue_for_it(round_: int) -> None:
    """The one that queues counts before the leave is committed, the leave pays before the other is: nobody waits on."""
    stage = Stage()
    flow = stage.flow(DESK)
    first = flows.start(stage.anna, flow, {}, "First")
    at_once(
        lambda: flows.move(stage.anna, first, "review"),
        *[lambda n=n: flows.start(stage.anna, flow, {}, f"Run {n}") for n in range(3)],
    )
    nobody_is_stranded(flow)
    assert wip.admitted(flow.pk, "write").count() == 1
    assert most_at_once(flow, "write") == 1


@pytest.mark.parametrize("round_", range(4))
def test_two_that_pay_the_same_promotion_let_one_in(round_: int) -> None:
    stage = Stage()
    flow = stage.flow(DESK)
    first, second, third = [flows.start(stage.anna, flow, {}, name) for name in ("First", "Second", "Third")]
    FlowRun.objects.filter(pk=first.pk).update(step_key="review")
    debts = [
        Debt.objects.create(kind="run_promote", unique_key=f"k{n}", data={"flow": flow.pk, "step": "write"})
        for n in range(4)
    ]
    at_once(*[lambda debt=debt: paying.pay(debt.pk) for debt in debts for _ in range(2)])
    assert StepChange.objects.filter(trigger="queue_promotion").count() == 1
    second.refresh_from_db()
    third.refresh_from_db()
    assert (second.step_key, third.queued_step) == ("write", "write")
    assert not Debt.objects.exists()


def test_a_limit_is_raised_while_runs_start() -> None:
    stage = Stage()
    flow = stage.flow(DESK)
    at_once(
        lambda: stage.flow(DESK.replace("wip_limit: 1", "wip_limit: 4")),
        *[lambda n=n: flows.start(stage.anna, flow, {}, f"Run {n}") for n in range(8)],
    )
    nobody_is_stranded(flow)
    assert wip.admitted(flow.pk, "write").count() == 4


@pytest.mark.parametrize("text", [DESK, FED], ids=["it queues", "it waits in the feeder"])
def test_whoever_finds_no_place_tries_again_once_it_waits(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place is given up, and the promotion paid, after it was counted and before the one that waits can be seen."""
    stage = Stage()
    flow = stage.flow(text)
    first = flows.start(stage.anna, flow, {}, "First")
    look = wip.seat_for_new

    def look_before_the_leave(*args: Any) -> Any:
        seat = look(*args)
        at_once(lambda: flows.move(stage.anna, first, "review"))
        return seat

    monkeypatch.setattr(wip, "seat_for_new", look_before_the_leave)
    second = flows.start(stage.anna, flow, {}, "Second")
    second.refresh_from_db()
    assert second.step_key == "write"
    assert [change.trigger for change in second.history.all()] == ["start", "queue_promotion"]
