"""Judges which flows a document's flows call: that they are there, and that no flow comes back to itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from boards.flows.cycles import loops
from boards.flows.definition import FlowDefinition
from boards.flows.document import Located, Problems
from boards.flows.reading import child
from boards.flows.surroundings import Surroundings


def judge_calls(
    flows: Sequence[FlowDefinition], nodes: Sequence[Located], around: Surroundings, problems: Problems
) -> None:
    """Add a problem for each call of a flow that is not known, and for each circle of flows that call one another."""
    called = dict(around.calls or {}) | {flow.key: _called_by(flow) for flow in flows}
    circles = loops({key: sorted(keys) for key, keys in called.items()})
    for flow, key, at in _calls(flows, nodes):
        circle = next((keys for keys in circles if _leads(keys, flow.key, key)), None)
        if circle:
            words = " → ".join((*circle, circle[0]))
            problems.add(at, f"These flows call one another, so none of them would end: {words}.")
        elif around.calls is not None and key not in called:
            problems.add(at, f'There is no flow with the key "{key}" in this space.')


def _called_by(flow: FlowDefinition) -> frozenset[str]:
    return frozenset(step.flow for step in flow.steps if step.kind == "call")


def _leads(keys: tuple[str, ...], caller: str, called: str) -> bool:
    return (caller, called) in zip(keys, (*keys[1:], keys[0]), strict=True)


def _calls(flows: Sequence[FlowDefinition], nodes: Sequence[Located]) -> list[tuple[FlowDefinition, str, Located]]:
    """(flow, key of the called one, where that is written) of every call."""
    by_key = {str(at.value): node for node in nodes if (at := child(node, "key")) is not None}
    found = []
    for flow in flows:
        for at in by_key[flow.key].value["steps"].value:
            kind, called = child(at, "kind"), child(at, "flow")
            if kind is not None and kind.value == "call" and called is not None:
                found.append((flow, str(called.value), called))
    return found
