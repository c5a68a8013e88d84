"""Finds loops in which a flow could go round by itself (spec: 05 section 1, "automatic cycles"), and others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from boards.flows.decisions import target_of
from boards.flows.definition import Action, FlowDefinition, StepDefinition

_ASKS: Final = frozenset({"approval", "input"})
# Kinds that do something on entry and then go on without anybody's word.
_BY_THEMSELVES: Final = frozenset({"wait", "choice", "stage", "loop", "call", "notify"})


@dataclass(frozen=True, slots=True)
class Cycle:
    """Step keys in the order in which a run would go round; `person`: somebody stands in it and can stop it."""

    keys: tuple[str, ...]
    person: bool

    @property
    def words(self) -> str:
        return " → ".join((*self.keys, self.keys[0]))


@dataclass(frozen=True, slots=True)
class _Way:
    """From one step to another; `person`: somebody has to say yes on the way."""

    to: str
    person: bool = False


def automatic_cycles(flow: FlowDefinition, people: frozenset[str] = frozenset()) -> list[Cycle]:
    """Every loop that a run can go round without being moved; those with no person in them cannot be saved.

    Followed are transitions on completion, the ways of a choice, and `goto` after a failure.
    """
    ways = {step.key: _ways(flow, step, people) for step in flow.steps}
    edges = {key: _targets(each) for key, each in ways.items()}
    by_itself = {key: _targets(way for way in each if not way.person) for key, each in ways.items()}
    unattended = loops(by_itself)
    known = {frozenset(keys) for keys in unattended}
    attended = [keys for keys in loops(edges) if frozenset(keys) not in known]
    return [Cycle(keys, person=False) for keys in unattended] + [Cycle(keys, person=True) for keys in attended]


def pull_cycles(flow: FlowDefinition) -> list[Cycle]:
    """Every circle of steps that would pull cards from one another."""
    edges = {step.key: [step.pull_from] for step in flow.steps if step.pull_from and step.pull_from != step.key}
    return [Cycle(keys, person=False) for keys in loops(edges)]


def waits_for_person(flow: FlowDefinition, step: StepDefinition, people: frozenset[str] = frozenset()) -> bool:
    """Whether a run that enters `step` stays there until a person acts."""
    if flow.is_terminal(step) or step.kind in _ASKS or step.checker == "person":
        return True
    if step.kind == "parallel":
        return _join_needs_person(flow, step, people)
    if step.kind in {"stage", "loop"}:
        required = [task for task in step.tasks if task.required or step.kind == "loop"]
        return any(_is_person(task.assignee or step.assignee or flow.agent, task.checker, people) for task in required)
    if step.kind in _BY_THEMSELVES:
        return False
    return not step.files_task or _is_person(step.assignee or flow.agent, "", people)


def _is_person(assignee: str, checker: str, people: frozenset[str]) -> bool:
    return checker == "person" or assignee in people


def _inner_person(flow: FlowDefinition, step: StepDefinition, people: frozenset[str]) -> bool:
    """Whether a step inside another waits for a person."""
    return step.kind in _ASKS or _is_person(step.assignee or flow.agent, step.checker, people)


def _join_needs_person(flow: FlowDefinition, step: StepDefinition, people: frozenset[str]) -> bool:
    """Whether so many branches have to end that one with a person is among them."""
    by_themselves = sum(not _inner_person(flow, branch, people) for branch in step.branches)
    needed = {"all": len(step.branches), "any": 1}.get(str(step.join), step.join)
    return int(needed) > by_themselves


def _ways(flow: FlowDefinition, step: StepDefinition, people: frozenset[str]) -> list[_Way]:
    """Where a run can go from `step`, each with whether a person has a say before it does."""
    if flow.is_terminal(step):
        return []
    waits = waits_for_person(flow, step, people)
    ways = [_Way(way.step, waits) for way in step.choices if flow.step(way.step) and way.step != step.key]
    if all(way.when for way in step.choices):  # also where there is none: the ordinary completion
        for action in flow.completion(step):
            if (target := target_of(flow, step, action)) is not None:
                ways.append(_Way(target, waits or _asks(action)))
    failed = step.on_failure
    if failed is not None and failed.then == "goto" and flow.step(failed.goto) and failed.goto != step.key:
        asked = any(_inner_person(flow, inner, people) for inner in failed.steps)
        ways.append(_Way(failed.goto, asked or not _fails_by_itself(step)))
    return ways


def _fails_by_itself(step: StepDefinition) -> bool:
    """Whether the step can fail with no person's word; a check that a person makes keeps no task from failing."""
    return step.files_task or step.timeout_ms is not None or step.kind not in {"column", *_ASKS}


def _asks(action: Action) -> bool:
    return bool(action.options.get("requires_approval") or action.options.get("quorum"))


def _targets(ways: Iterable[_Way]) -> list[str]:
    return list(dict.fromkeys(way.to for way in ways))


def loops(edges: Mapping[str, list[str]]) -> list[tuple[str, ...]]:
    """One shortest loop through each node that lies on one, each loop once."""
    found: dict[frozenset[str], tuple[str, ...]] = {}
    for start in edges:
        if loop := _shortest_loop(edges, start):
            found.setdefault(frozenset(loop), loop)
    return list(found.values())


def _shortest_loop(edges: Mapping[str, list[str]], start: str) -> tuple[str, ...] | None:
    paths: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    for path in paths:  # grows while it is walked: breadth first
        for to in edges.get(path[-1], []):
            if to == start:
                return path
            if to not in seen:
                seen.add(to)
                paths.append((*path, to))
    return None
