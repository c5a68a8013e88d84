"""Operations on tasks. Each is one verb of `boards.tasks`, or one read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.db.models import Q
from django.urls import reverse

from boards import tasks
from boards.api import finding
from boards.api.operations import Answer, Call, operation
from boards.api.shapes import cursor_after, key_in, said
from boards.api.shapes_of_tasks import (
    AcceptBody,
    BatchBody,
    CancelBody,
    ListQuery,
    ManyTasks,
    NoBody,
    OneTask,
    ReleaseBody,
    SendBackBody,
    TaskFields,
    TaskPage,
    UpdateBody,
    Written,
    briefs,
    filing_of,
    task_told,
)
from boards.errors import DueTimePassed, TaskWriteDeclined, TerminalTaskWriteDeclined
from boards.models import Scope, Task
from boards.states import Status
from boards.tasks import Reason, TaskWriteOutcome, idempotency, partitions
from boards.tasks.reading import with_current

_TASK = "/boards/{board}/tasks/{task}"


@operation(
    "create_task", "POST", "/boards/{board}/tasks", Scope.FILE, OneTask, body=TaskFields, status=201, repeats=True
)
def create_task(call: Call) -> Answer:
    """File a task. Everything but its goal may be left out; a refused filing writes nothing."""
    board = finding.board(call.chain, call.names["board"])
    made = tasks.file_task(call.chain, board, filing_of(call.body), idempotency_key=call.idempotency_key)
    return Answer({"task": _told(made)}, location=_address(made))


@operation(
    "create_tasks", "POST", "/boards/{board}/batch", Scope.FILE, ManyTasks, body=BatchBody, status=201, repeats=True
)
def create_tasks(call: Call) -> Answer:
    """File up to 1,000 tasks, all or none. Dependencies may name ids of the same batch; a refusal says which task."""
    board = finding.board(call.chain, call.names["board"])
    filings = [filing_of(each) for each in call.body.tasks]
    made = tasks.file_tasks(call.chain, board, filings, idempotency_key=call.idempotency_key)
    stored = Task.objects.in_bulk([task.pk for task in made])
    return Answer({"tasks": briefs(stored[task.pk] for task in made)})


@operation("list_tasks", "GET", "/boards/{board}/tasks", Scope.READ, TaskPage, query=ListQuery)
def list_tasks(call: Call) -> Answer:
    """List the tasks of a board, newest first. Each in short; get_task has the whole of one."""
    board = finding.board(call.chain, call.names["board"])
    query: ListQuery = call.query
    own = partitions.own_partitions(call.chain, board)
    rows = Task.objects.filter(_wanted(query), board=board, partition__in=own).order_by("-pk")
    if before := key_in(query.cursor):
        rows = rows.filter(pk__lt=before)
    found = list(rows.defer("output", "input", "context", "metadata")[: query.limit + 1])
    page = found[: query.limit]
    more = cursor_after(page[-1].pk) if len(found) > query.limit else None
    return Answer({"tasks": briefs(with_current(page)), "next": more})


@operation("get_task", "GET", _TASK, Scope.READ, OneTask)
def get_task(call: Call) -> Answer:
    """Read one task, whole. Its editable fields, how it stands, what it made, and what it waits for."""
    return Answer({"task": _told(_found(call))})


@operation("update_task", "PATCH", _TASK, Scope.FILE, Written, body=UpdateBody, repeats=True)
def update_task(call: Call) -> Answer:
    """Change named fields of a task. Most only until it was started, due_at and a message until it has finished."""
    fields = said(call.body)
    return _write(call, "update", lambda task: tasks.update_task(call.chain, task, **fields))


@operation("cancel_task", "POST", f"{_TASK}/cancel", Scope.FILE, Written, body=CancelBody, repeats=True)
def cancel_task(call: Call) -> Answer:
    """Cancel a task that has not ended. A worker that is at it is stopped."""
    body: CancelBody = call.body
    via = "tool" if call.chain.key else "person"

    def cancel(task: Task) -> TaskWriteOutcome:
        return tasks.cancel(call.chain, task, body.reason, via=via, cancel_filed=body.cancel_filed)

    return _write(call, "cancel", cancel)


@operation("release_task", "POST", f"{_TASK}/release", Scope.FILE, Written, body=ReleaseBody, repeats=True)
def release_task(call: Call) -> Answer:
    """Let a held task start. The same call may say who it goes to."""
    assignee = call.body.assignee
    return _write(call, "release", lambda task: tasks.release(call.chain, task, assignee=assignee))


@operation("retry_task", "POST", f"{_TASK}/retry", Scope.DECIDE, Written, body=NoBody, repeats=True)
def retry_task(call: Call) -> Answer:
    """Start a Stuck or Skipped task again. It is the same task, told what went wrong."""
    return _write(call, "retry", lambda task: tasks.retry(call.chain, task))


@operation("accept_task", "POST", f"{_TASK}/accept", Scope.DECIDE, Written, body=AcceptBody, repeats=True)
def accept_task(call: Call) -> Answer:
    """Accept what was handed in. Only its checker may, and never whoever handed it in."""
    return _write(call, "accept", lambda task: tasks.accept(call.chain, task, call.body.words))


@operation("send_back_task", "POST", f"{_TASK}/send_back", Scope.DECIDE, Written, body=SendBackBody, repeats=True)
def send_back_task(call: Call) -> Answer:
    """Send what was handed in back. The words are what the next attempt is told."""
    return _write(call, "send_back", lambda task: tasks.send_back(call.chain, task, call.body.words))


def _write(call: Call, verb: str, act: Callable[[Task], TaskWriteOutcome]) -> Answer:
    """One verb on the task that the address names, once under the call's idempotency key."""
    task = _found(call)
    told = said(call.body)
    outcome = idempotency.once(call.chain, verb, call.idempotency_key, task, told, lambda: act(task))
    if not outcome.landed:
        raise _declined(verb, task, outcome)
    return Answer({"result": outcome.result.value, "task": _told(_found(call))})


# The codes of `retry_task` (spec: 06 section 2.7).
_RETRY_CODES: Final[dict[Reason | None, str]] = {
    Reason.SETTLING: "settling",
    Reason.DEPENDENCY_ENDED: "dependency_ended",
    Reason.RETRY_BUDGET: "retry_budget_spent",
}


def _declined(verb: str, task: Task, outcome: TaskWriteOutcome) -> TaskWriteDeclined | DueTimePassed:
    """A decline as the refusal that pages show, with the reason and the status that was seen."""
    facts = {"reason": outcome.reason.value if outcome.reason else None, "status_seen": outcome.status}
    facts["task_id"] = task.public_id
    if task.withdrawn:
        return DueTimePassed(outcome.sentence, **facts)
    if verb == "cancel" and outcome.reason is Reason.TERMINAL:
        return TerminalTaskWriteDeclined(outcome.sentence, **facts)
    refusal = TaskWriteDeclined(outcome.sentence, **facts)
    if verb == "retry":
        refusal.code = _RETRY_CODES.get(outcome.reason) or _not_to_be_retried(outcome.status)
    return refusal


def _not_to_be_retried(status: str) -> str:
    return "task_finished" if status == Status.COMPLETED else "not_finished"


def _found(call: Call) -> Task:
    return finding.task(call.chain, call.names["board"], call.names["task"])


def _told(task: Task) -> dict[str, Any]:
    """As it is stored: what a write answers has the database's own times."""
    stored = Task.objects.select_related("board").get(pk=task.pk)
    return task_told(with_current([stored])[0])


def _address(task: Task) -> str:
    return reverse("api:get_task", args=[task.board.slug, task.public_id])


def _wanted(query: ListQuery) -> Q:
    wanted = Q()
    if query.status:
        wanted &= Q(status=query.status)
    if query.assignee:
        wanted &= Q(assignee=query.assignee)
    if query.label:
        wanted &= Q(labels__contains=[query.label])
    if query.filed_by_task:
        wanted &= Q(filed_by_task__public_id=query.filed_by_task)
    if query.text:
        wanted &= Q(title__icontains=query.text) | Q(goal__icontains=query.text) | Q(public_id=query.text)
    return wanted
