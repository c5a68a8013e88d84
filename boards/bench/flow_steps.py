"""Runs that move through steps by themselves: what one step change costs, and whether it stays so.

The tasks are claimed and completed by the engine's verbs in this process, as a worker without any work would; each
completion pays for its run's advance, which files the next step's task.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import mean

from boards import actors, flows, tasks
from boards.bench.desk import AGENT, Desk
from boards.flows.definition import FlowDefinition, StepDefinition
from boards.models import FlowRun, StepChange
from boards.states import RunStatus
from boards.tasks import Wanted

STEPS = 5
SLICES = 5
BATCH = 50


@dataclass(frozen=True)
class Found:
    """Milliseconds of one step change in each fifth of them, and of starting one run.

    `cpu`: of processor time in this process, by which a machine that others use as well can be judged.
    """

    start_ms: float
    slices: list[float]
    cpu: list[float]

    @property
    def mean_ms(self) -> float:
        return mean(self.slices)

    @property
    def mean_cpu_ms(self) -> float:
        return mean(self.cpu)

    @property
    def growth(self) -> float:
        """The last fifth against the first: 1 where it is linear."""
        return self.slices[-1] / self.slices[0]

    @property
    def cpu_growth(self) -> float:
        return self.cpu[-1] / self.cpu[0]


def measured(desk: Desk, runs: int) -> Found:
    """Start so many runs and let each go through all steps; raises where one does not arrive, or arrives twice."""
    flow = flows.save_version(desk.chain, desk.board.space, desk.board, definition())
    tasks.set_paused(desk.chain, desk.board, False)
    began = time.perf_counter()
    for _ in range(runs):
        flows.start(desk.chain, flow, {})
    start_ms = (time.perf_counter() - began) / runs * 1000
    found = Found(start_ms, *_work_off(desk, runs * STEPS))
    done = FlowRun.objects.filter(flow=flow, status=RunStatus.COMPLETED).count()
    changes = StepChange.objects.filter(run__flow=flow).exclude(from_step="").count()
    if (done, changes) != (runs, runs * STEPS):
        raise RuntimeError(f"{runs} runs were to end after {STEPS} steps; {done} did, after {changes} step changes.")
    return found


def definition() -> FlowDefinition:
    """Five steps of an agent, one after the other, and the end."""
    steps = [
        StepDefinition(f"s{n}", f"Step {n}", n, kind="agent", assignee=AGENT, prompt="Do it.") for n in range(STEPS)
    ]
    return FlowDefinition("bench-steps", "Bench steps", (*steps, StepDefinition("done", "Done", STEPS)))


def _work_off(desk: Desk, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds of one step change in each fifth, and of processor time; claiming stands beside the clock."""
    chain = actors.agent(AGENT, desk.board.space_id)
    spent, worked, left = [0.0] * SLICES, [0.0] * SLICES, count
    ended = [0] * SLICES
    while left > 0:
        claims = tasks.claim([Wanted(desk.board.pk, {AGENT: BATCH})], limit=min(BATCH, left), claimed_by={})
        if not claims:
            raise RuntimeError(f"{left} step changes were left, and no task was ready.")
        for got in claims:
            place = (count - left) * SLICES // count
            began, began_cpu = time.perf_counter(), time.thread_time()
            tasks.complete(chain, got.task, {}, claim=got.ticket)
            spent[place] += time.perf_counter() - began
            worked[place] += time.thread_time() - began_cpu
            ended[place] += 1
            left -= 1
    return _each_ms(spent, ended), _each_ms(worked, ended)


def _each_ms(seconds: list[float], numbers: list[int]) -> list[float]:
    return [spent / number * 1000 for spent, number in zip(seconds, numbers, strict=True) if number]
