"""The flow engine: the only writer of flows, runs and visits (spec: 05).

Doors use the functions named here. A definition is judged by `validation`, where a run goes is decided by `decisions`
(pure), and the one `advance` writes it; tasks and holds of a step go through their own engines.
"""

from boards.flows.advance import Trigger, advance
from boards.flows.archiving import archive, archive_due, unarchive
from boards.flows.bulk import RunResult, for_each
from boards.flows.cancelling import cancel_run, cancel_turn
from boards.flows.definition import Action, FlowDefinition, StepDefinition, load
from boards.flows.library import install, save_version
from boards.flows.moving import mark_complete, move, run_again, signal
from boards.flows.promotion import promote_waiting
from boards.flows.refusals import IllegalRunMove, RunMovedOn, StepFull
from boards.flows.starting import checked_inputs, start, start_again
from boards.flows.validation import validate

__all__ = [
    "Action",
    "FlowDefinition",
    "IllegalRunMove",
    "RunMovedOn",
    "RunResult",
    "StepDefinition",
    "StepFull",
    "Trigger",
    "advance",
    "archive",
    "archive_due",
    "cancel_run",
    "cancel_turn",
    "checked_inputs",
    "for_each",
    "install",
    "load",
    "mark_complete",
    "move",
    "promote_waiting",
    "run_again",
    "save_version",
    "signal",
    "start",
    "start_again",
    "unarchive",
    "validate",
]
