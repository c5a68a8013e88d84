"""What one step change costs the database, and that it stays so however far the run has come."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from boards import tasks
from boards.flows import definition, library, wip
from boards.models import FlowRun, FlowVersion
from tests import cast
from tests.flows.cast import Stage, fresh, place, settle

pytestmark = pytest.mark.django_db

STEPS = 12
FLOW = "key: long\nname: Long\nsteps:\n" + "".join(
    f"  - {{key: s{n}, name: Step {n}, kind: agent, assignee: writer, prompt: Do it.}}\n" for n in range(STEPS)
)


def cost_of_a_step(stage: Stage) -> int:
    got = stage.claim()
    with CaptureQueriesContext(connection) as caught:
        tasks.complete(cast.agent_chain(stage.board), got.task, {"text": "Words"}, claim=got.ticket)
        settle()
    return sum("SAVEPOINT" not in query["sql"] for query in caught)


def test_a_step_change_is_few_statements_and_no_more_for_a_long_run(stage: Stage) -> None:
    run = stage.started(FLOW)
    costs = [cost_of_a_step(stage) for _ in range(STEPS - 1)]
    assert place(run) == f"s{STEPS - 1} active"
    assert len(set(costs)) == 1, costs
    assert costs[0] <= 30


def test_the_steps_of_a_version_are_read_once(stage: Stage, django_assert_num_queries) -> None:
    run = stage.started(FLOW)
    version = FlowVersion.objects.select_related("flow").get(pk=run.version_id)
    first = definition.load(version)
    with django_assert_num_queries(0):
        assert definition.load(version) == first


def test_a_new_version_is_another_and_its_limits_hold_at_once(stage: Stage) -> None:
    run = stage.started(FLOW)
    before = definition.load(FlowVersion.objects.get(pk=run.version_id))
    stage.flow(FLOW.replace("name: Step 1,", "name: Renamed, wip_limit: 2,"))
    newest = library.newest(stage.space, "long")
    assert newest.step("s1") != before.step("s1")
    assert wip.newest_limits(run.flow_id).of("s1") == 2
    assert definition.load(fresh_version(run)).steps == before.steps


def test_a_version_of_a_restored_database_under_a_key_given_out_before_is_read_anew(stage: Stage) -> None:
    run = stage.started(FLOW)
    version = fresh_version(run)
    definition.load(version)
    version.steps.filter(key="s0").update(name="Of the other database")
    FlowVersion.objects.filter(pk=version.pk).update(created_at="2025-01-01T00:00:00Z")
    step = definition.load(fresh_version(run)).step("s0")
    assert step is not None
    assert step.name == "Of the other database"


def fresh_version(run: FlowRun) -> FlowVersion:
    return FlowVersion.objects.select_related("flow").get(pk=fresh(run).version_id)
