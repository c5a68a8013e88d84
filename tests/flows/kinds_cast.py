"""Flows of every kind, written as their steps stand in the YAML, and what a test asks of a run of them."""

from __future__ import annotations

import textwrap
from typing import Any

import yaml
from django.db import transaction

from boards import errors, flows, people, tasks
from boards.actors import service
from boards.debts import paying
from boards.flows import library
from boards.flows.definition import FlowDefinition, step_from
from boards.models import Branch, Debt, Event, Flow, FlowRun, Hold, Task
from boards.states import TERMINAL
from tests import cast
from tests.flows.cast import Stage, fresh, settle


def define(stage: Stage, steps: str, key: str = "kinds", **fields: Any) -> Flow:
    """Save a flow of these steps, which end in a column Done. A step without a name is called by its key."""
    told = [*yaml.safe_load(textwrap.dedent(steps)), {"key": "done"}]
    named = [{"name": each["key"].title(), **each} for each in told]
    with transaction.atomic():
        return library._save(stage.space, stage.board, _judged(key, named, fields), stage.olga)


def _judged(key: str, steps: list[dict[str, Any]], fields: dict[str, Any]) -> FlowDefinition:
    """As an author would save it. What validation refuses is made without it: the engine has to stand that too."""
    try:
        return flows.validate(yaml.safe_dump({"key": key, "name": key.title(), "steps": steps, **fields}))
    except errors.InvalidFlow:
        made = tuple(
            step_from(each["key"], each["name"], place, each.get("kind", "column"), each)
            for place, each in enumerate(steps)
        )
        return FlowDefinition(key, key.title(), made, **fields)


def started(stage: Stage, steps: str, inputs: dict[str, Any] | None = None, **fields: Any) -> FlowRun:
    run = flows.start(stage.anna, define(stage, steps, **fields), inputs or {})
    settle()
    return fresh(run)


def work(stage: Stage, title: str, output: Any = None, *, fails: str = "", who: str = cast.WRITER) -> Task:
    """Claim tasks of the agent until the one whose title begins so comes, and end it; the others are handed back."""
    passed = []
    while True:
        got = stage.claim(who)
        if got.task.label.startswith(title):
            break
        passed.append(got)
    chain = cast.agent_chain(stage.board, who)
    if fails:
        tasks.fail(chain, got.task, fails, claim=got.ticket, for_good=True)
    else:
        tasks.complete(chain, got.task, output or {"text": title}, claim=got.ticket)
    for other in passed:
        tasks.hand_back(chain, other.task, claim=other.ticket)
    settle()
    return got.task


def answer(stage: Stage, title: str, choice: str = "", chain: Any = None, **words: Any) -> Hold:
    hold = Hold.objects.get(title__startswith=title, state="open")
    told = people.answer_hold(chain or stage.anna, hold.pk, choice=choice, shown_hash=hold.draft_hash, **words)
    settle()
    return told


def withdraw(stage: Stage, title: str) -> Task:
    task = open_task(title)
    tasks.withdraw(service("flows", stage.space.pk), task)
    for stop in Debt.objects.filter(kind="session_stop", task=task):
        paying.pay(stop.pk)
    settle()
    return task


def open_task(title: str) -> Task:
    return Task.objects.exclude(status__in=sorted(TERMINAL)).get(title__startswith=title)


def outcomes(run: FlowRun) -> dict[str, str]:
    """Branch key -> outcome, "open" while it goes on."""
    return {b.key: b.outcome or "open" for b in Branch.objects.filter(visit__run=run)}


def output(run: FlowRun, step: str) -> Any:
    return run.visits.filter(step_key=step).order_by("pk").last().output  # type: ignore[union-attr]


def events(run: FlowRun, kind: str) -> list[Event]:
    return list(Event.objects.filter(run=run, kind=kind).order_by("pk"))


def is_judged(stage: Stage, steps: str) -> bool:
    """Whether an author could save a flow of these steps."""
    told = [*yaml.safe_load(textwrap.dedent(steps)), {"key": "done"}]
    named = [{"name": each["key"].title(), **each} for each in told]
    flows.validate(yaml.safe_dump({"key": "kinds", "name": "Kinds", "steps": named}))
    return True
