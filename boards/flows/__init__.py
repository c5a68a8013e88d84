"""The flow engine: the only writer of flows, runs and visits (spec: 05).

Doors use the functions named here. A definition is judged by `validation`, where a run goes is decided by `decisions`
(pure), and the one `advance` writes it; tasks and holds of a step go through their own engines.
"""

from boards.flows import clearing as _clearing
from boards.flows import goal_judging as _goal_judging
from boards.flows.advance import Trigger, advance
from boards.flows.archiving import archive, archive_due, unarchive
from boards.flows.bulk import RunResult, for_each
from boards.flows.by_hand import complete_by_hand, run_from, skip_step
from boards.flows.cancelling import cancel_run, cancel_turn
from boards.flows.cron import CronError, next_times
from boards.flows.deadlines import late_since, move_due_time, withdraw_due
from boards.flows.definition import Action, FlowDefinition, StepDefinition, load
from boards.flows.events import forget as forget_events
from boards.flows.events import unmatched as unmatched_events
from boards.flows.goals import GoalState, goal
from boards.flows.importing import import_flows
from boards.flows.library import add_template, install, save_version
from boards.flows.moving import TURN_STARTED, mark_complete, message, move, run_again
from boards.flows.promotion import promote_waiting
from boards.flows.refusals import FlowChanged, IllegalRunMove, RunMovedOn, StepFull
from boards.flows.schedules import (
    ScheduleFields,
    add_schedule,
    change_schedule,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    start_due,
)
from boards.flows.signals import complete_step, signal
from boards.flows.starting import checked_inputs, start, start_again
from boards.flows.steps import calling as _calling
from boards.flows.steps import parallel as _parallel
from boards.flows.steps import stage as _stage
from boards.flows.stopping import awaits_stop
from boards.flows.validation import validate
from boards.flows.webhooks import (
    Message,
    NotSigned,
    WebhookFields,
    add_webhook,
    change_webhook,
    forget_calls,
    pause_webhook,
    remove_webhook,
    resume_webhook,
    rotate_secret,
    take_message,
)

__all__ = [
    "TURN_STARTED",
    "Action",
    "CronError",
    "FlowChanged",
    "FlowDefinition",
    "GoalState",
    "IllegalRunMove",
    "Message",
    "NotSigned",
    "RunMovedOn",
    "RunResult",
    "ScheduleFields",
    "StepDefinition",
    "StepFull",
    "Trigger",
    "WebhookFields",
    "_calling",
    "_clearing",
    "_goal_judging",
    "_parallel",
    "_stage",
    "add_schedule",
    "add_template",
    "add_webhook",
    "advance",
    "archive",
    "archive_due",
    "awaits_stop",
    "cancel_run",
    "cancel_turn",
    "change_schedule",
    "change_webhook",
    "checked_inputs",
    "complete_by_hand",
    "complete_step",
    "for_each",
    "forget_calls",
    "forget_events",
    "goal",
    "import_flows",
    "install",
    "late_since",
    "load",
    "mark_complete",
    "message",
    "move",
    "move_due_time",
    "next_times",
    "pause_schedule",
    "pause_webhook",
    "promote_waiting",
    "remove_schedule",
    "remove_webhook",
    "resume_schedule",
    "resume_webhook",
    "rotate_secret",
    "run_again",
    "run_from",
    "save_version",
    "signal",
    "skip_step",
    "start",
    "start_again",
    "start_due",
    "take_message",
    "unarchive",
    "unmatched_events",
    "validate",
    "withdraw_due",
]
