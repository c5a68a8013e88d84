"""The task engine: the only writer of task rows (spec: 01, 02).

Doors and other engines use the functions named here; the modules below are its inside. Every verb takes the caller
chain first, answers a typed result, and raises a `boards.errors.Refusal` for what the rules do not allow.
"""

from boards.tasks import cascade as _payers  # registers its debts
from boards.tasks.aftermath import WITHDRAW
from boards.tasks.by_people import claim_for_person, person_ticket
from boards.tasks.claims import MAX_BATCH as MAX_CLAIMED
from boards.tasks.claims import abandon_spent, claim, mint
from boards.tasks.current import current_claim
from boards.tasks.decisions import Options
from boards.tasks.edits import (
    TASK_FIELD_RULES,
    add_label,
    has_started,
    locked_fields,
    patch_metadata,
    remove_label,
    set_assignee,
    set_priority,
    steer,
    update_task,
)
from boards.tasks.endings import Settlement, settle_many
from boards.tasks.filing import file_task, file_tasks
from boards.tasks.filing_again import file_again
from boards.tasks.follow_ups import at_work, chain_of, current_of
from boards.tasks.gate import Started, start
from boards.tasks.grants import link_run, link_runs, owns, renew_leases
from boards.tasks.leases import committed_lease_span, keep_lease, renew_lease
from boards.tasks.moving import cancelled_by, hold, release, retry, set_paused, start_anyway
from boards.tasks.notices import Deferred, Notice, Taken, defer, on_task_settled
from boards.tasks.partitions import find_task_partitions, partition_of, require_unfiled
from boards.tasks.progress import (
    Line,
    LostClaim,
    add_transcript,
    add_transcript_lines,
    begin_task_write,
    did_write_land,
    record_step,
    recorded_steps,
    report_lines,
    report_progress,
)
from boards.tasks.reading import list_tasks, rows_in_session
from boards.tasks.recorder_failures import note_recorder_failure
from boards.tasks.recording import EndingSeen, record_ending, record_spend, spend_of, spend_view
from boards.tasks.recounting import recount
from boards.tasks.retention import drop_events, remove_ended
from boards.tasks.settling_parents import settle_kept
from boards.tasks.telling import clear_notice, resend_now, take_owed_notice
from boards.tasks.types import (
    Claimed,
    Filing,
    HoldFiling,
    Reason,
    Recorded,
    RunLink,
    Start,
    TaskWriteOutcome,
    Ticket,
    Wanted,
)
from boards.tasks.verbs import (
    accept,
    cancel,
    complete,
    end_for_good,
    fail,
    hand_back,
    reclaim,
    send_back,
    skip,
    stopping,
    withdraw,
    withdraw_many,
)
from boards.tasks.waiting import get_task

__all__ = [
    "MAX_CLAIMED",
    "TASK_FIELD_RULES",
    "WITHDRAW",
    "Claimed",
    "Deferred",
    "EndingSeen",
    "Filing",
    "HoldFiling",
    "Line",
    "LostClaim",
    "Notice",
    "Options",
    "Reason",
    "Recorded",
    "RunLink",
    "Settlement",
    "Start",
    "Started",
    "Taken",
    "TaskWriteOutcome",
    "Ticket",
    "Wanted",
    "_payers",
    "abandon_spent",
    "accept",
    "add_label",
    "add_transcript",
    "add_transcript_lines",
    "at_work",
    "begin_task_write",
    "cancel",
    "cancelled_by",
    "chain_of",
    "claim",
    "claim_for_person",
    "clear_notice",
    "committed_lease_span",
    "complete",
    "current_claim",
    "current_of",
    "defer",
    "did_write_land",
    "drop_events",
    "end_for_good",
    "fail",
    "file_again",
    "file_task",
    "file_tasks",
    "find_task_partitions",
    "get_task",
    "hand_back",
    "has_started",
    "hold",
    "keep_lease",
    "link_run",
    "link_runs",
    "list_tasks",
    "locked_fields",
    "mint",
    "note_recorder_failure",
    "on_task_settled",
    "owns",
    "partition_of",
    "patch_metadata",
    "person_ticket",
    "reclaim",
    "record_ending",
    "record_spend",
    "record_step",
    "recorded_steps",
    "recount",
    "release",
    "remove_ended",
    "remove_label",
    "renew_lease",
    "renew_leases",
    "report_lines",
    "report_progress",
    "require_unfiled",
    "resend_now",
    "retry",
    "rows_in_session",
    "send_back",
    "set_assignee",
    "set_paused",
    "set_priority",
    "settle_kept",
    "settle_many",
    "skip",
    "spend_of",
    "spend_view",
    "start",
    "start_anyway",
    "steer",
    "stopping",
    "take_owed_notice",
    "update_task",
    "withdraw",
    "withdraw_many",
]
