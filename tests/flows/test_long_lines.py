"""A line of 1,000 runs before a step that holds one: letting in the next costs the same however long the line is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from boards import flows
from boards.flows import column_order, wip
from boards.models import FlowRun
from tests.flows.cast import Stage, fresh, settle
from tests.flows.wip_cast import DESK, queued, standing

pytestmark = pytest.mark.django_db


def in_line(stage: Stage, first: FlowRun, count: int) -> None:
    """So many runs queued behind the first, by one statement: verbs would take too long."""
    number = FlowRun.objects.filter(flow=first.flow_id).count()
    FlowRun.objects.bulk_create(
        FlowRun(
            flow_id=first.flow_id,
            version_id=first.version_id,
            number=number + n,
            name=f"Queued {n:04}",
            session_id=first.session_id,
            queued_step="write",
            queued_at=Now(),
        )
        for n in range(1, count + 1)
    )
    with connection.cursor() as cursor:
        cursor.execute("analyze boards_flowrun")


@pytest.fixture
def first(stage: Stage) -> FlowRun:
    run = flows.start(stage.anna, stage.flow(DESK), {}, "First")
    settle()
    return fresh(run)


def queries_of_a_leave(stage: Stage) -> int:
    """Of a move out of the step and of all that it owes: the next one enters."""
    run = FlowRun.objects.get(step_key="write", status="active")
    with CaptureQueriesContext(connection) as caught:
        flows.move(stage.anna, run, "review")
        settle()
    return len(caught)


def plan_nodes(rows: QuerySet[Any]) -> list[dict[str, Any]]:
    told = json.loads(rows.explain(format="json"))
    nodes: list[dict[str, Any]] = []

    def walk(node: dict[str, Any]) -> None:
        nodes.append(node)
        for inner in node.get("Plans", []):
            walk(inner)

    walk(told[0]["Plan"])
    return nodes


def test_the_next_one_costs_as_many_queries_as_in_a_short_line(stage: Stage, first: FlowRun) -> None:
    in_line(stage, first, 3)
    short = queries_of_a_leave(stage)
    in_line(stage, first, 1_000)
    assert [queries_of_a_leave(stage) for _ in range(5)] == [short] * 5
    assert len(queued(first, "write")) == 997
    assert len(standing(first, "write")) == 1


def test_the_first_in_line_and_the_places_that_are_taken_are_read_by_index_alone(stage: Stage, first: FlowRun) -> None:
    in_line(stage, first, 5_000)
    line = FlowRun.objects.filter(flow=first.flow_id, queued_step="write", archived_at=None)
    nodes = plan_nodes(line.order_by(*column_order.QUEUED).values_list("pk", flat=True)[:1])
    assert [node.get("Index Name") for node in nodes if "Scan" in node["Node Type"]] == ["run_queued"]
    assert not [node for node in nodes if "Sort" in node["Node Type"]], "the index has the order of the line"
    taken = plan_nodes(wip.admitted(first.flow_id, "write").order_by().values_list("pk", flat=True))
    assert {node.get("Index Name") for node in taken if "Scan" in node["Node Type"]} == {"run_in_step"}
