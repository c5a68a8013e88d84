"""Saves versions of flows, and installs the ready templates of `templates/` into a space (spec: 05 section 6).

Installing again changes nothing; a template that changed makes a new version, and runs keep the one they began with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from boards import policy
from boards.actors import Chain
from boards.errors import NotFound
from boards.event_log import Entry, record
from boards.flows import definition, wip
from boards.flows.definition import FlowDefinition
from boards.flows.validation import Document, validate_document
from boards.locks import engine_transaction
from boards.models import Board, Flow, FlowStep, FlowVersion, RosterEntry, Space

TEMPLATES: Final = Path(__file__).with_name("templates")


def template_keys() -> list[str]:
    """The keys of the ready templates."""
    return sorted(path.stem for path in TEMPLATES.glob("*.yaml"))


def template(key: str) -> Document:
    """A ready template. Raises NotFound naming those there are."""
    if key not in template_keys():
        raise NotFound(f'There is no template "{key}". There is {", ".join(template_keys())}.')
    return validate_document((TEMPLATES / f"{key}.yaml").read_text(encoding="utf-8"))


@engine_transaction
def install(space: Space, key: str, board: Board | None = None) -> Flow:
    """The flow of a ready template in `space`, with its board and roster; made, or brought up to date.

    A flow that was installed before keeps its board, and roster entries that somebody changed stay as they are.
    """
    document = template(key)
    flow = Flow.objects.filter(space=space, key=document.flows[0].key).select_related("board").first()
    place = flow.board if flow else board or _board(space, document.flows[0])
    _fill_roster(place, document.roster)
    return _save(space, place, document.flows[0], None)


@engine_transaction
def save_version(chain: Chain, space: Space, board: Board, flow: FlowDefinition) -> Flow:
    """Save a judged definition: a new flow, or a new version where it differs from the newest."""
    if space.pk != chain.space_id or board.space_id != space.pk:
        raise NotFound("There is no such board.")
    policy.require(chain, "flows.edit", space.pk)
    return _save(space, board, flow, chain)


def _board(space: Space, flow: FlowDefinition) -> Board:
    board, _ = Board.objects.get_or_create(space=space, slug=flow.key, defaults={"name": flow.name})
    return board


def _fill_roster(board: Board, roster: Sequence[Mapping[str, Any]]) -> None:
    for position, entry in enumerate(roster):
        RosterEntry.objects.get_or_create(
            board=board,
            name=entry["name"],
            defaults={"kind": entry["kind"], "config": entry.get("config") or {}, "position": position},
        )


def _save(space: Space, board: Board, told: FlowDefinition, chain: Chain | None) -> Flow:
    flow, _ = Flow.objects.get_or_create(
        space=space, key=told.key, defaults={"board": board, "name": told.name, "description": told.description}
    )
    # The flow's row is the lock of its versions: two that save at once make two numbers, or one where they agree.
    flow = Flow.objects.select_for_update(no_key=True).get(pk=flow.pk)
    newest = flow.versions.order_by("-number").first()
    if (flow.name, flow.description) != (told.name, told.description):
        Flow.objects.filter(pk=flow.pk).update(name=told.name, description=told.description)
        flow.name, flow.description = told.name, told.description
    if newest is not None:
        newest.flow = flow
        if definition.load(newest).wire() == told.wire():
            return flow
    number = newest.number + 1 if newest else 1
    # The database keeps no order of an object's names, and the form that starts a run asks in the author's.
    order = {"inputs_order": list(told.inputs.get("properties") or ())}
    version = FlowVersion.objects.create(
        flow=flow, number=number, settings=told.settings() | order, created_by_id=chain.user_id if chain else None
    )
    FlowStep.objects.bulk_create(
        FlowStep(
            version=version,
            key=step.key,
            name=step.name,
            position=step.position,
            kind=step.kind,
            settings=step.settings(),
        )
        for step in told.steps
    )
    if newest is not None:
        wip.owe_limits(flow.pk, version)
    if chain is not None:
        record(Entry("flow.edited", chain, board_id=flow.board_id, data={"flow": flow.key, "version": number}))
    return flow
