"""Operations on flows and their runs. Each is one verb of `boards.flows`, or one read."""

from __future__ import annotations

from django.urls import reverse

from boards import flows, policy
from boards.api import finding
from boards.api.operations import Answer, Call, operation
from boards.api.shapes import Paged, cursor_after, key_in
from boards.api.shapes_of_flows import (
    FlowPage,
    MoveBody,
    OneRun,
    RunPage,
    RunsQuery,
    StartBody,
    flow_told,
    run_brief,
    run_told,
)
from boards.models import Flow, FlowRun, FlowVersion, Scope

_RUN = "/flows/{flow}/runs/{run}"


@operation("list_flows", "GET", "/flows", Scope.READ, FlowPage, query=Paged)
def list_flows(call: Call) -> Answer:
    """List the flows with their steps and what a start asks for."""
    query: Paged = call.query
    seen = Flow.objects.filter(board__in=finding.boards_of(call.chain).order_by().values("pk"))
    rows = seen.select_related("board").order_by("pk").filter(pk__gt=key_in(query.cursor))
    found = list(rows[: query.limit + 1])
    page = found[: query.limit]
    newest = FlowVersion.objects.filter(flow__in=page).order_by("flow", "-number").distinct("flow")
    versions = {version.flow_id: version for version in newest.select_related("flow")}
    told = [
        flow_told(flow, flows.load(version) if version else None, version.number if version else None)
        for flow in page
        for version in [versions.get(flow.pk)]
    ]
    return Answer({"flows": told, "next": cursor_after(page[-1].pk) if len(found) > query.limit else None})


@operation("start_flow", "POST", "/flows/{flow}/runs", Scope.FILE, OneRun, body=StartBody, status=201, repeats=True)
def start_flow(call: Call) -> Answer:
    """Start a run of the flow's newest version. Each input that does not fit is named."""
    body: StartBody = call.body
    made = flows.start(
        call.chain,
        finding.flow(call.chain, call.names["flow"]),
        body.inputs,
        body.name,
        step=body.step,
        priority=body.priority,
        idempotency_key=call.idempotency_key,
    )
    where = reverse("api:get_run", args=[made.flow.key, made.number])
    return Answer({"run": run_told(finding.run(call.chain, made.flow.key, str(made.number)))}, location=where)


@operation("list_runs", "GET", "/flows/{flow}/runs", Scope.READ, RunPage, query=RunsQuery)
def list_runs(call: Call) -> Answer:
    """List the runs of a flow, newest first."""
    policy.require(call.chain, "boards.read", call.chain.space_id)
    query: RunsQuery = call.query
    rows = FlowRun.objects.filter(flow=finding.flow(call.chain, call.names["flow"])).select_related("flow")
    rows = rows.filter(archived_at__isnull=not query.archived).order_by("-pk")
    if query.status:
        rows = rows.filter(status=query.status)
    if before := key_in(query.cursor):
        rows = rows.filter(pk__lt=before)
    found = list(rows.defer("data", "inputs")[: query.limit + 1])
    page = found[: query.limit]
    more = cursor_after(page[-1].pk) if len(found) > query.limit else None
    return Answer({"runs": [run_brief(run) for run in page], "next": more})


@operation("get_run", "GET", _RUN, Scope.READ, OneRun)
def get_run(call: Call) -> Answer:
    """Read one run, whole. Where it stands, where it has been, and what it waits on people for."""
    policy.require(call.chain, "boards.read", call.chain.space_id)
    return Answer({"run": run_told(_found(call))})


@operation("move_run", "POST", f"{_RUN}/move", Scope.FILE, OneRun, body=MoveBody)
def move_run(call: Call) -> Answer:
    """Move a run to a step. In a flow in which people decide, a key needs the scope decide as well."""
    body: MoveBody = call.body
    flows.move(call.chain, _found(call), body.step, cancel_turn=body.cancel_turn, visit_id=body.visit)
    return Answer({"run": run_told(_found(call))})


def _found(call: Call) -> FlowRun:
    return finding.run(call.chain, call.names["flow"], call.names["run"])
