"""NUL bytes and lone surrogates in what people and agents say to a run (spec: 01 section 1, fault 23)."""

from __future__ import annotations

import pytest

from boards import flows
from boards.actors import agent
from boards.errors import InvalidInput
from boards.models import FlowRun
from tests.flows.cast import Stage, fresh

pytestmark = pytest.mark.django_db(transaction=True)

BAD, GOOD = "x\x00y\ud800z", "x\ufffdy\ufffdz"


def test_the_reason_of_a_cancel(stage: Stage) -> None:
    run = stage.started()
    assert GOOD in flows.cancel_run(stage.anna, run, BAD).error
    with pytest.raises(InvalidInput):
        flows.cancel_run(stage.anna, run, "x" * 10_001)


def test_the_signal_of_an_agent(stage: Stage) -> None:
    run = stage.started()
    visit = fresh(run).current_visit
    assert visit is not None
    assert flows.signal(agent("writer", stage.space.pk), visit.pk, BAD, handoff={BAD: BAD}, blockers=[BAD])
    signal = fresh(run).signal
    assert signal is not None
    assert (signal["summary"], signal["handoff"], signal["blockers"]) == (GOOD, {GOOD: GOOD}, [GOOD])


def test_the_key_of_a_start(stage: Stage) -> None:
    flow = stage.flow()
    first, again = (flows.start(stage.anna, flow, {}, idempotency_key=BAD) for _ in range(2))
    assert first.pk == again.pk
    with pytest.raises(InvalidInput):
        flows.start(stage.anna, flow, {}, idempotency_key="k" * 201)
    assert FlowRun.objects.count() == 1
