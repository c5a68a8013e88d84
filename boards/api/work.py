"""Operations of outside workers: a claim, and the verbs under its ticket. Each is one call of `boards.workers.outside`.

A ticket is in a body and never in an address, and shows itself in no log: its field hides what it holds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.views.decorators.debug import sensitive_variables

from boards import errors
from boards.api import finding
from boards.api.operations import Answer, Call, operation
from boards.api.shapes import said
from boards.api.shapes_of_tasks import filing_of
from boards.api.shapes_of_work import (
    AskBody,
    AskedTold,
    ClaimBody,
    Claimed,
    CompleteBody,
    FailBody,
    FileBody,
    FiledTold,
    HandBackBody,
    LeaseTold,
    OutputBody,
    ProgressBody,
    RenewBody,
    SpendBody,
    StartBody,
    StartedTold,
    StepBody,
    StepTold,
    TicketBody,
    WorkWritten,
    answer_told,
    started_told,
    work_told,
)
from boards.models import Scope
from boards.tasks import Line, TaskWriteOutcome
from boards.workers import outside
from boards.workers.protocol import Ask


@operation("claim", "POST", "/work/claim", Scope.WORK, Claimed, body=ClaimBody, repeats=True, waits=True)
def claim(call: Call) -> Answer:
    """Take tasks that are ready, each with its ticket. Waits up to `wait_s` where there is nothing. A repeat under the
    same Idempotency-Key answers the same tickets while they hold.
    """
    body: ClaimBody = call.body
    outside.may_work(call.chain)
    board = finding.board(call.chain, body.board) if body.board else finding.only_board(call.chain)
    place = outside.place_for(call.chain, board, body.assignees, body.host)
    got = outside.claim(call.chain, place, body.limit, body.lease_ms, call.idempotency_key)
    ended = bool(got) or outside.claimed_before(call.chain, call.idempotency_key)
    return Answer({"claimed": [work_told(one) for one in got]}, waits_at=None if ended else place.where)


@operation("start", "POST", "/work/start", Scope.WORK, StartedTold, body=StartBody, repeats=True)
def start(call: Call) -> Answer:
    """Start the run of a ticket, once. The lease counts anew, also where it ran out while the run waited and nobody
    else took the task. Answers the task as it is now.
    """
    body: StartBody = call.body
    return Answer({"started": started_told(outside.start(_held(call), body.lease_ms, call.idempotency_key))})


@operation("renew", "POST", "/work/renew", Scope.WORK, LeaseTold, body=RenewBody)
def renew(call: Call) -> Answer:
    """Keep the task: move its lease. Do so every third of it. 409: stop working, it is not yours any more."""
    return _lease(*outside.renew(_held(call), call.body.lease_ms))


@operation("output", "POST", "/work/output", Scope.WORK, WorkWritten, body=OutputBody, repeats=True)
def output(call: Call) -> Answer:
    """Append lines to the transcript that people read."""
    own = _held(call)
    lines = [Line(0, 0, _text(item.text, "text"), item.kind, own.who, item.data) for item in call.body.items]
    return _written(outside.say(own, lines, call.idempotency_key))


@operation("progress", "POST", "/work/progress", Scope.WORK, LeaseTold, body=ProgressBody, repeats=True)
def progress(call: Call) -> Answer:
    """Report a note for the card and a checkpoint. Answers the messages that people sent."""
    own, fields = _held(call), {n: v for n, v in said(call.body).items() if n in {"note", "output"}}
    if fields.get("note") is None:
        fields.pop("note", None)
    else:
        fields["note"] = _text(fields["note"], "note")
    if not fields:
        raise errors.InvalidInput("Send a note, an output, or both.", field="note")
    return _lease(*outside.progress(own, fields, call.idempotency_key))


@operation("ask", "POST", "/work/ask", Scope.WORK, AskedTold, body=AskBody)
def ask(call: Call) -> Answer:
    """Ask a person, or look whether a question was answered: the same again is the same question. Then go on, or
    suspend until the answer is there.
    """
    body: AskBody = call.body
    question = Ask(
        kind=body.kind,
        prompt=_text(body.prompt, "prompt"),
        title=_text(body.title, "title"),
        context=body.context,
        options=[each.model_dump(exclude_unset=True) for each in body.options],
        schema=body.schema_,
        draft=body.draft,
        due_in_ms=body.due_in_ms,
        default=body.default,
        key=body.key,
        assignee=body.assignee,
    )
    hold, answer = outside.ask(_held(call), question)
    return Answer({"hold": hold.pk, "state": hold.state, "answer": answer_told(answer) if answer else None})


@operation("file_task", "POST", "/work/file_task", Scope.WORK, FiledTold, body=FileBody, status=201, repeats=True)
def file_task(call: Call) -> Answer:
    """File a task that this one needs, on the same board. It is known as filed from it."""
    body: FileBody = call.body
    made = outside.file(_held(call), filing_of(body.filing), call.idempotency_key)
    return Answer({"id": made.public_id, "status": made.status})


@operation("complete_step", "POST", "/work/complete_step", Scope.WORK, StepTold, body=StepBody)
def complete_step(call: Call) -> Answer:
    """Say that the flow step is complete of which this task is the turn. The step still ends with the turn."""
    body: StepBody = call.body
    own, summary = _held(call), _text(body.summary, "summary")
    return Answer({"taken": outside.complete_step(own, summary, body.handoff, body.blockers)})


@operation("suspend", "POST", "/work/suspend", Scope.WORK, WorkWritten, body=TicketBody, repeats=True)
def suspend(call: Call) -> Answer:
    """End the turn until what was asked is answered. A later claim hands the task out again, on the same attempt and
    with the answers; this ticket is void then.
    """
    return _written(outside.suspend(_held(call), call.idempotency_key))


@operation("complete", "POST", "/work/complete", Scope.WORK, WorkWritten, body=CompleteBody, repeats=True)
def complete(call: Call) -> Answer:
    """Hand in the result. One that does not match the board's schema fails the attempt: see `status`."""
    body: CompleteBody = call.body
    given = "output" in body.model_fields_set
    return _written(outside.complete(_held(call), body.output, call.idempotency_key, given=given))


@operation("fail", "POST", "/work/fail", Scope.WORK, WorkWritten, body=FailBody, repeats=True)
def fail(call: Call) -> Answer:
    """Say that it failed. It is tried again while tries are left; an `ending` ends it for good."""
    return _written(outside.fail(_held(call), call.body.error, call.body.ending, call.idempotency_key))


@operation("hand_back", "POST", "/work/hand_back", Scope.WORK, WorkWritten, body=HandBackBody, repeats=True)
def hand_back(call: Call) -> Answer:
    """Give the task back unworked: it is ready again, and no try is spent."""
    return _written(outside.hand_back(_held(call), call.body.reason, call.idempotency_key))


@operation("spend", "POST", "/work/spend", Scope.WORK, WorkWritten, body=SpendBody, repeats=True)
def spend(call: Call) -> Answer:
    """Report what was spent, also after the task has ended."""
    body: SpendBody = call.body
    spent = None if body.spend is None else {n: v for n, v in body.spend.model_dump().items() if v not in {None, ""}}
    if spent is None and body.part == "settled":
        raise errors.InvalidInput("Say what was spent.", field="spend")
    return _written(outside.spend(_held(call), body.part, spent, call.idempotency_key))


@sensitive_variables()
def _held(call: Call) -> outside.Held:
    return outside.held(call.chain, call.body.ticket.get_secret_value(), call.body.task)


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise errors.InvalidInput(f"{field} must be text.", field=field)
    return value


def _lease(until: datetime | None, messages: list[str]) -> Answer:
    told: dict[str, Any] = {"lease_until": until.isoformat() if until else None, "messages": messages}
    return Answer(told)


def _written(outcome: TaskWriteOutcome) -> Answer:
    return Answer({"result": outcome.result.value, "status": outcome.status})
