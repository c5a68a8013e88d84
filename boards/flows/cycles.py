"""Finds loops in which a flow could go round by itself (spec: 05 section 1, "automatic cycles"). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from boards.flows.decisions import target_of
from boards.flows.definition import FlowDefinition, StepDefinition


@dataclass(frozen=True, slots=True)
class Cycle:
    """Step keys in the order in which a run would go round; `person`: somebody stands in it and can stop it."""

    keys: tuple[str, ...]
    person: bool

    @property
    def words(self) -> str:
        return " → ".join((*self.keys, self.keys[0]))


def automatic_cycles(flow: FlowDefinition) -> list[Cycle]:
    """Every loop that a run can go round through `on_turn_complete`; those with no person in them cannot be saved."""
    alone = {step.key for step in flow.steps if not waits_for_person(flow, step)}
    edges = {step.key: _targets(flow, step) for step in flow.steps}
    unattended = _loops({key: [to for to in edges[key] if to in alone] for key in edges if key in alone})
    known = {frozenset(keys) for keys in unattended}
    attended = [keys for keys in _loops(edges) if frozenset(keys) not in known and not set(keys) <= alone]
    return [Cycle(keys, person=False) for keys in unattended] + [Cycle(keys, person=True) for keys in attended]


def waits_for_person(flow: FlowDefinition, step: StepDefinition) -> bool:
    """Whether a run that enters `step` stays there until a person acts."""
    return not step.files_task or step.checker == "person" or flow.is_terminal(step)


def _targets(flow: FlowDefinition, step: StepDefinition) -> list[str]:
    if flow.is_terminal(step):
        return []
    targets = [target_of(flow, step, action) for action in flow.completion(step)]
    return list(dict.fromkeys(target for target in targets if target is not None))


def _loops(edges: dict[str, list[str]]) -> list[tuple[str, ...]]:
    """One shortest loop through each step that lies on one, each loop once."""
    found: dict[frozenset[str], tuple[str, ...]] = {}
    for start in edges:
        if loop := _shortest_loop(edges, start):
            found.setdefault(frozenset(loop), loop)
    return list(found.values())


def _shortest_loop(edges: dict[str, list[str]], start: str) -> tuple[str, ...] | None:
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
