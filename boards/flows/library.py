"""Saves versions of flows, and installs the ready templates of `templates/` into a space (spec: 05 section 6).

Versions are immutable: saving makes a new one, and runs keep the one they began with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from boards import policy
from boards.actors import Chain
from boards.errors import NotFound
from boards.event_log import Entry, record
from boards.flows import definition, ordering, wip
from boards.flows.definition import FlowDefinition
from boards.flows.refusals import FlowChanged
from boards.flows.validation import Document, validate_document
from boards.locks import engine_transaction
from boards.models import Board, Flow, FlowStep, FlowVersion, RosterEntry, Space

TEMPLATES: Final = Path(__file__).with_name("templates")


def template_text(key: str) -> str:
    """The text of a ready template. Raises NotFound naming those there are."""
    if key not in template_keys():
        raise NotFound(f'There is no template "{key}". There is {", ".join(template_keys())}.')
    return (TEMPLATES / f"{key}.yaml").read_text(encoding="utf-8")


def template_keys() -> list[str]:
    """The keys of the ready templates."""
    return sorted(path.stem for path in TEMPLATES.glob("*.yaml"))


def template(key: str) -> Document:
    """A ready template. Raises NotFound naming those there are."""
    return validate_document(template_text(key))


def newest(space: Space, key: str) -> FlowDefinition:
    """The newest version of a flow. Raises NotFound."""
    version = FlowVersion.objects.filter(flow__space=space, flow__key=key).select_related("flow").last()
    if version is None:
        raise NotFound(f'There is no flow with the key "{key}".')
    return definition.load(version)


@engine_transaction
def install(space: Space, key: str, board: Board | None = None) -> Flow:
    """The flow of a ready template in `space`, with its board and roster; made where it is not there yet.

    A flow that is there already stays as it is: neither an edit of it nor an upgrade of the template is undone by this.
    """
    document = template(key)
    flow = Flow.objects.filter(space=space, key=document.flows[0].key).select_related("board", "space").first()
    if flow is not None:
        return flow
    place = board or new_board(space, document.flows[0])
    fill_roster(place, document.roster)
    return _save(space, place, document.flows[0], None)


@engine_transaction
def add_template(chain: Chain, space: Space, key: str) -> Flow:
    """Install a ready template for somebody who may edit flows."""
    require(chain, space)
    return install(space, key)


@engine_transaction
def save_version(
    chain: Chain, space: Space, board: Board | None, flow: FlowDefinition, *, based_on: int | None = None
) -> Flow:
    """Save a judged definition: a new flow, or a new version where it differs from the newest.

    `board` None: an existing flow stays on its own, a new one gets a board of its own. `based_on`: the number of the
    version that was edited, 0 for a new flow; raises FlowChanged where another has been saved since.
    """
    require(chain, space)
    if board is not None and board.space_id != space.pk:
        raise NotFound("There is no such board.")
    known = Flow.objects.filter(space=space, key=flow.key).select_related("board").first()
    place = board or (known.board if known else new_board(space, flow))
    return _save(space, place, flow, chain, based_on)


def require(chain: Chain, space: Space) -> None:
    """Refuse whoever may not edit the flows of `space`."""
    if space.pk != chain.space_id:
        raise NotFound("There is no such space.")
    policy.require(chain, "flows.edit", space.pk)


def new_board(space: Space, flow: FlowDefinition) -> Board:
    """The board of a flow that has none yet: the one with the flow's key, made where it is not there."""
    board, _ = Board.objects.get_or_create(space=space, slug=flow.key, defaults={"name": flow.name})
    return board


def fill_roster(board: Board, roster: Sequence[Mapping[str, Any]]) -> None:
    """Make the entries that are not there yet; what an operator changed stays."""
    for position, entry in enumerate(roster):
        RosterEntry.objects.get_or_create(
            board=board,
            name=entry["name"],
            defaults={"kind": entry["kind"], "config": entry.get("config") or {}, "position": position},
        )


def _save(space: Space, board: Board, told: FlowDefinition, chain: Chain | None, based_on: int | None = None) -> Flow:
    flow, _ = Flow.objects.get_or_create(
        space=space, key=told.key, defaults={"board": board, "name": told.name, "description": told.description}
    )
    # The flow's row is the lock of its versions: two that save at once make two numbers, or one where they agree.
    flow = Flow.objects.select_for_update(no_key=True).get(pk=flow.pk)
    newest = flow.versions.order_by("-number").first()
    number = newest.number if newest else 0
    if newest is not None:
        newest.flow = flow
        if _as_text(definition.load(newest)) == _as_text(told):
            return flow
    if based_on is not None and based_on != number:
        raise FlowChanged(f"Version {number} of {flow.name} has been saved meanwhile.", version=number)
    if (flow.name, flow.description) != (told.name, told.description):
        Flow.objects.filter(pk=flow.pk).update(name=told.name, description=told.description)
        flow.name, flow.description = told.name, told.description
    _insert(flow, number + 1, told, chain)
    if newest is not None:
        wip.owe_limits(flow.pk, number + 1)
    if chain is not None:
        record(Entry("flow.edited", chain, board_id=flow.board_id, data={"flow": flow.key, "version": number + 1}))
    return flow


def _as_text(flow: FlowDefinition) -> str:
    """For comparing two definitions: the order of names counts too."""
    return json.dumps(flow.wire())


def _insert(flow: Flow, number: int, told: FlowDefinition, chain: Chain | None) -> None:
    # The database keeps no order of an object's names, and the form that starts a run asks in the author's.
    settings = told.settings()
    kept = {"inputs_order": list(told.inputs.get("properties") or ()), "order": ordering.orders(settings)}
    version = FlowVersion.objects.create(
        flow=flow, number=number, settings=settings | kept, created_by_id=chain.user_id if chain else None
    )
    FlowStep.objects.bulk_create(
        FlowStep(
            version=version,
            key=step.key,
            name=step.name,
            position=step.position,
            kind=step.kind,
            settings=definition.stored(step),
        )
        for step in told.steps
    )
