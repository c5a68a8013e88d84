"""The tables. Columns and constraints only: state is written by the engines."""

from boards.models.attempts import Attempt
from boards.models.boards import Board, BoardCounter, RosterEntry
from boards.models.checks import AgentCheck, Seen
from boards.models.debts import Debt
from boards.models.events import Event, LogEpoch
from boards.models.flows import Flow, FlowStep, FlowVersion
from boards.models.holds import Hold, Vote
from boards.models.keys import AgentKey, CallCount, Scope
from boards.models.processes import Process
from boards.models.runs import Branch, FlowOperation, FlowRun, StepChange, StepSlot, Visit
from boards.models.sessions import Session, TranscriptItem
from boards.models.spaces import Member, Role, SigninLink, Space, User
from boards.models.starts import EventWait, KeptEvent, Schedule, Webhook, WebhookCall
from boards.models.tasks import SERVER_ONLY_TASK_FIELDS, IdempotencyKey, Task, TaskDep
from boards.models.telling import Channel, Delivery, LogReader, Preference

__all__ = [
    "SERVER_ONLY_TASK_FIELDS",
    "AgentCheck",
    "AgentKey",
    "Attempt",
    "Board",
    "BoardCounter",
    "Branch",
    "CallCount",
    "Channel",
    "Debt",
    "Delivery",
    "Event",
    "EventWait",
    "Flow",
    "FlowOperation",
    "FlowRun",
    "FlowStep",
    "FlowVersion",
    "Hold",
    "IdempotencyKey",
    "KeptEvent",
    "LogEpoch",
    "LogReader",
    "Member",
    "Preference",
    "Process",
    "Role",
    "RosterEntry",
    "Schedule",
    "Scope",
    "Seen",
    "Session",
    "SigninLink",
    "Space",
    "StepChange",
    "StepSlot",
    "Task",
    "TaskDep",
    "TranscriptItem",
    "User",
    "Visit",
    "Vote",
    "Webhook",
    "WebhookCall",
]
