"""The flow engine: the only writer of flows, runs and visits (spec: 05).

Doors use the functions named here. A definition is judged by `validation`, where a run goes is decided by `decisions`
(pure), and the one `advance` writes it; tasks and holds of a step go through their own engines.
"""

from boards.flows.advance import Trigger, advance
from boards.flows.cancelling import cancel_run, cancel_turn
from boards.flows.definition import Action, FlowDefinition, StepDefinition, load
from boards.flows.importing import import_flows
from boards.flows.library import add_template, install, save_version
from boards.flows.moving import mark_complete, move, run_again, signal
from boards.flows.refusals import FlowChanged, IllegalRunMove, RunMovedOn
from boards.flows.starting import checked_inputs, start, start_again
from boards.flows.validation import validate

__all__ = [
    "Action",
    "FlowChanged",
    "FlowDefinition",
    "IllegalRunMove",
    "RunMovedOn",
    "StepDefinition",
    "Trigger",
    "add_template",
    "advance",
    "cancel_run",
    "cancel_turn",
    "checked_inputs",
    "import_flows",
    "install",
    "load",
    "mark_complete",
    "move",
    "run_again",
    "save_version",
    "signal",
    "start",
    "start_again",
    "validate",
]
