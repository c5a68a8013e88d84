"""Brings flows of a text into a space: our envelope, a bare flow, or one of kandev's files (spec: 05 section 6).

A flow whose key or name the space has already is skipped and reported; everything else of a document is saved together,
or, where anything in it is wrong, nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from boards.actors import Chain
from boards.errors import InvalidFlow
from boards.flows import exporting, kandev, library
from boards.flows.definition import FlowDefinition
from boards.flows.document import Problems, read
from boards.flows.surroundings import NOTHING_KNOWN, Surroundings, surroundings_of
from boards.flows.validation import Document, validate_document
from boards.locks import engine_transaction
from boards.models import Board, Flow, Space


@dataclass(frozen=True, slots=True)
class Read:
    """What a text holds. `notes`: what has no counterpart here, each named in a sentence."""

    document: Document
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """`skipped`: a sentence for each flow that was left out; `notes`: for each thing that has no counterpart, and for
    each name that nobody on the roster has.
    """

    saved: tuple[Flow, ...]
    skipped: tuple[str, ...]
    notes: tuple[str, ...]


def read_document(text: str, around: Surroundings = NOTHING_KNOWN) -> Read:
    """Every flow of a text in either format. Raises InvalidFlow with every problem found."""
    problems = Problems()
    root = read(text, problems)
    if root is None or not kandev.is_kandev(root):
        return Read(validate_document(text, around))
    converted = kandev.converted(root, problems)
    if problems.found:
        raise InvalidFlow(problems.sentences())
    ours = exporting.written({"version": 1, "type": "orchestra_flow", "flows": converted.flows})
    try:
        document = validate_document(ours, around)
    except InvalidFlow as refused:
        # The lines are those of what was read out of the file, which nobody has before them.
        raise InvalidFlow([f"line 1: As read: {problem.partition(', ')[2]}" for problem in refused.problems]) from None
    return Read(document, tuple(converted.notes))


@engine_transaction
def import_flows(chain: Chain, space: Space, text: str, board: Board | None = None) -> Imported:
    """Save every new flow of `text`, each on `board` or on one of its own. Raises InvalidFlow, Forbidden, NotFound."""
    library.require(chain, space)
    told = read_document(text, surroundings_of(space, board))
    known = {flow.key: flow.name for flow in Flow.objects.filter(space=space)}
    saved: list[Flow] = []
    skipped: list[str] = []
    missed: list[str] = []
    for flow in told.document.flows:
        if flow.key in known:
            skipped.append(f'{flow.name}: a flow with the key "{flow.key}" is here already.')
        elif flow.name.casefold() in {name.casefold() for name in known.values()}:
            skipped.append(f'{flow.key}: a flow called "{flow.name}" is here already.')
        else:
            made = library.save_version(chain, space, board, flow, based_on=0)
            library.fill_roster(made.board, told.document.roster)
            missed += _missed(flow, made.board)
            saved.append(made)
            known[flow.key] = flow.name
    return Imported(tuple(saved), tuple(skipped), (*told.notes, *missed))


def _missed(flow: FlowDefinition, board: Board) -> list[str]:
    """A sentence for each name that is to work a step and that nobody on the board's roster has."""
    branches = [branch for step in flow.steps for branch in step.branches]
    afterwards = [each for step in flow.steps if step.on_failure is not None for each in step.on_failure.steps]
    working = [step for step in (*flow.steps, *branches, *afterwards) if step.files_task]
    wanted = {step.assignee or flow.agent for step in working}
    wanted |= {task.assignee or step.assignee or flow.agent for step in flow.steps for task in step.tasks}
    known = set(board.roster.values_list("name", flat=True))
    says = f"is on the roster of the board {board.name} yet, so their steps would fail"
    cure = "An operator adds them on the board's page in the admin."
    return [f'{flow.name}: nobody called "{name}" {says}. {cure}' for name in sorted(wanted - known - {""})]
