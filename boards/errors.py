"""Every anticipated refusal, with its stable code. The message is the sentence a person or an agent reads.

A refusal writes nothing. Doors translate: `code` into the wire, the sentence onto the page (spec: 01 sections 2-4,
02 section 5, 06 section 2).
"""

from __future__ import annotations


class Refusal(Exception):
    """A move or a filing that the rules do not allow; `code` is stable, `str(self)` is for the reader."""

    code = "refused"
    http_status = 409
    bare = False  # whether tools answer with the code alone, where nothing more is to be said

    def __init__(self, sentence: str = "", **facts: object) -> None:
        self._says_more = bool(sentence)
        self.sentence = sentence or (self.__doc__ or "").strip()
        self.facts = facts
        super().__init__(self.sentence)

    @property
    def wire(self) -> str:
        """The form tools answer with: `code: sentence`; the code is matched by prefix, and of some it is the whole."""
        return self.code if self.bare and not self._says_more else f"{self.code}: {self.sentence}"


class TaskNotFound(Refusal):
    """There is no such task on this board."""

    code, http_status = "task_not_found", 404
    bare = True


class BoardNotFound(Refusal):
    """There is no such board."""

    code, http_status = "no_delegation_board", 404
    bare = True


class NoRoute(Refusal):
    """There is no such address in this API."""

    code, http_status = "no_route", 404


class NotFound(Refusal):
    """There is no such thing here."""

    code, http_status = "not_found", 404


class Forbidden(Refusal):
    """Your role does not allow this. Ask an operator of the space."""

    code, http_status = "forbidden", 403


class IllegalTaskTransition(Refusal):
    """This task cannot make that move from its present status."""

    code = "bad_state"

    def __init__(self, task_id: str, from_status: str, to_status: str, sentence: str = "") -> None:
        self.task_id, self.from_status, self.to_status = task_id, from_status, to_status
        super().__init__(
            sentence or f"Task {task_id} is {from_status} and cannot become {to_status}.",
            task_id=task_id,
            from_status=from_status,
            to_status=to_status,
        )


class DueTimePassed(Refusal):
    """The due time passed, so this task was withdrawn. File it again as a new task."""

    code = "bad_state"


class InvalidInput(Refusal):
    """A field has the wrong type or size."""

    code, http_status = "invalid_input", 422


class TotalTaskCapExceeded(Refusal):
    """This board has filed as many tasks as its limit allows. An operator can raise max_total_tasks."""

    code = "total_task_cap_exceeded"
    bare = True


class EnqueuedTaskCapExceeded(Refusal):
    """As many tasks are Ready as this board allows. Wait until some start, or have max_enqueued_tasks raised."""

    code = "enqueued_task_cap_exceeded"
    bare = True


class TaskIdTaken(Refusal):
    """A task with that id exists on this board. Choose another id."""

    code = "task_id_taken"


class UnknownAssignee(Refusal):
    """Nobody on this board's roster has that name."""

    code = "unknown_assignee"


class AlreadyOpen(Refusal):
    """The same goal for the same assignee is still open. Use that one, or name another goal."""

    code = "already_open"


class DependencyNotOnBoard(Refusal):
    """A dependency is not on this board."""

    code = "dependency_not_on_board"


class DependencyEnded(Refusal):
    """A dependency ended without completing, so this could never start. Retry it first, or leave it out."""

    code = "dependency_ended"


class DependencyLoop(Refusal):
    """These dependencies would form a loop."""

    code = "dependency_loop"


class ParentCancelled(Refusal):
    """The task this would be filed from was cancelled. Stop working on it; nothing is filed for it any more."""

    code = "parent_cancelled"


class NoPartition(Refusal):
    """This board keeps a partition for each user or session, and this caller has none."""

    code, http_status = "no_partition", 403


class PartitionFixed(Refusal):
    """How a board is partitioned cannot be changed once a task was filed on it. Make another board."""

    code = "partition_fixed"


class FollowUpOfUnrun(Refusal):
    """The task never ran, so there is nothing to follow up. Edit it, or send it a message."""

    code = "follow_up_of_unrun"


class FollowUpTakesNoAssignee(Refusal):
    """A follow-up runs with its first task's worker. Leave the assignee out."""

    code, http_status = "follow_up_takes_no_assignee", 422


class WouldStart(Refusal):
    """Nothing else holds it back, so this will start it. Send it again if it is to start."""

    code = "would_start"


class FieldLocked(Refusal):
    """This field is locked: the task was started."""

    code = "field_locked_after_start"


class TaskFinished(Refusal):
    """The task has ended. File a follow-up."""

    code = "task_finished"


class NothingToUpdate(Refusal):
    """Name at least one field to change."""

    code, http_status = "nothing_to_update", 422


class CancelTakesNoEdits(Refusal):
    """A cancel is sent alone. Send the other fields before it, or leave them out."""

    code, http_status = "cancel_takes_no_edits", 422


class MessageTakesNoEdits(Refusal):
    """A message is sent alone. Send the other fields in a request of their own."""

    code, http_status = "message_takes_no_edits", 422


class TaskWriteDeclined(Refusal):
    """The task changed meanwhile, so this was not done. Read it again."""

    code = "task_write_declined"


class TerminalTaskWriteDeclined(TaskWriteDeclined):
    """The task ended meanwhile, so this was not done. File a follow-up."""

    code = "terminal_task_write_declined"


class MessageNotSupported(Refusal):
    """Nobody reads a message to this task any more. File a follow-up."""

    code = "message_not_supported"


class CreateTaskDoesNotWait(Refusal):
    """Filing a task does not wait for it. Leave wait and deadline_ms out, and wait with get_task."""

    code, http_status = "create_task_does_not_wait", 422


class SteerLimit(Refusal):
    """A task takes 50 messages at most. File a follow-up."""

    code = "steer_limit"


class WaitTimedOut(Refusal):
    """The task has not ended in time. It goes on; wait again, or read it later."""

    code, http_status = "wait_timed_out", 408


class WaitDeadlineOutOfRange(Refusal):
    """A wait lasts 30,000 to 3,600,000 ms."""

    code, http_status = "wait_deadline_out_of_range", 422


class WaitAlreadyPending(Refusal):
    """This turn waits already. One wait at a time."""

    code = "wait_already_pending"


class WaitUnavailable(Refusal):
    """This cannot be waited for from here."""

    code = "wait_unavailable"


class KeyReused(Refusal):
    """That idempotency key was used for another request. Use a new key."""

    code, http_status = "idempotency_key_reused", 422


class AlreadyAnswered(Refusal):
    """Somebody answered this before you."""

    code = "already_answered"


class AlreadyChecked(Refusal):
    """Somebody decided on this result before you."""

    code = "bad_state"


class DraftChanged(Refusal):
    """This changed while you were reading. The new version is shown; decide again."""

    code = "draft_changed"


class InvalidFlow(Refusal):
    """The flow's definition has errors."""

    code, http_status = "invalid_flow", 422

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems), problems=problems)


class StaleTaskClaim(Refusal):
    """This claim has moved on, so its run does not start."""

    code = "stale_task_claim"


class NotStarted(Refusal):
    """This run was not started. Start it with its ticket first, then work."""

    code = "not_started"


class TicketRefused(Refusal):
    """There is no such ticket. Send the one that the claim answered, whole and with the key that claimed."""

    code, http_status = "ticket_not_found", 404


class KeyRefused(Refusal):
    """This key is unknown, revoked or past its time. Make another one."""

    code, http_status = "key_refused", 401


class NotAnOutsideWorkers(Refusal):
    """Its tasks are not for outside workers."""

    code, http_status = "not_for_outside_workers", 403


class ReplayMismatch(Refusal):
    """Another question was asked under this key. Give each question a key of its own."""

    code = "replay_mismatch"


class EndsForGood(Exception):
    """Raised by a worker: end the task for good on this attempt, with tries left unspent (spec: 01 section 2)."""

    def __init__(self, task_id: str, reason: str = "", *, ending: str = "errored") -> None:
        if ending not in {"errored", "cancelled"}:
            raise ValueError(f"ending must be errored or cancelled, not {ending!r}.")
        self.task_id, self.ending = task_id, ending
        super().__init__(reason or "The worker ended this task for good.")
