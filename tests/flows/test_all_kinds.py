"""One flow of every kind, as its author writes and saves it, from its start to its end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import sweeping
from boards.flows import goals
from boards.models import StepChange, Visit
from tests import cast
from tests.flows.cast import Stage, fresh, place, settle
from tests.flows.kinds_cast import answer, define, is_judged, started, work

pytestmark = pytest.mark.django_db

STEPS = """
- {key: ask, kind: input, prompt: "Of what?", schema: {type: object, properties: {topic: {type: string}}}}
- key: write
  kind: agent
  assignee: writer
  prompt: Write of {{ steps.ask.output.topic }}.
  auto_advance_requires_signal: false
  on_failure: {steps: [{key: clean, kind: task, assignee: reader, prompt: Clean.}], then: continue}
- key: both
  kind: parallel
  join: 2
  branches:
    - {key: one, kind: agent, assignee: writer, prompt: One.}
    - {key: two, kind: task, assignee: reader, prompt: Two.}
    - {key: three, kind: approval, prompt: "Three?"}
- key: build
  kind: stage
  assignee: writer
  tasks: [{key: a, goal: A, title: A-task}, {key: b, goal: B, title: B-task, deps: [a], required: false}]
- key: seek
  kind: loop
  assignee: writer
  judge: all-kinds-judge
  max_iterations: 2
  tasks: [{key: try, goal: Try, title: Try}]
- key: choose
  kind: choice
  choices: [{when: "steps.seek.output.reason == 'done'", step: pause}, {step: never}]
- {key: never, kind: column}
- {key: pause, kind: wait, duration_ms: 1000}
- {key: tell, kind: notify, to: operators, prompt: Nearly there.}
- {key: part, kind: call, flow: child}
- key: last
  kind: task
  assignee: writer
  prompt: The last.
  events:
    on_turn_complete:
      - {type: move_to_next, requires_approval: true, quorum: {role: members, threshold: all_approve}}
"""


@pytest.fixture(autouse=True)
def judge() -> Iterator[None]:
    goals.GOALS["all-kinds-judge"] = lambda state: {"decision": "done"}
    yield
    del goals.GOALS["all-kinds-judge"]


def test_every_kind_in_a_row(stage: Stage) -> None:
    assert is_judged(stage, STEPS)
    define(stage, "- {key: inner, kind: agent, assignee: writer, prompt: Inner.}", key="child")
    run = started(stage, STEPS)
    answer(stage, "Ask", values={"topic": "boats"})
    work(stage, "Write", fails="No ink.")
    work(stage, "clean", who=cast.READER)
    work(stage, "one")
    work(stage, "two", who=cast.READER)
    work(stage, "A-task")
    work(stage, "B-task")
    work(stage, "Try")
    assert place(run) == "pause active"
    Visit.objects.update(due_at=Now() - timedelta(seconds=1))
    sweeping.sweep_once()
    settle()
    assert place(run) == "part active"
    work(stage, "Inner")
    work(stage, "Last")
    answer(stage, "Last", "approve")
    assert fresh(run).status == "completed"
    way = list(StepChange.objects.filter(run=run).values_list("to_step", flat=True))
    assert way == ["ask", "write", "both", "build", "seek", "choose", "pause", "tell", "part", "last", "done"]
