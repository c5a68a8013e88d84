"""Reads one task with all that its page shows (spec: 08 "Task page").

Nothing here writes or decides a transition. No history makes the number of queries larger, and rows beside the
task are read as little `TaskRef`s, since a neighbour's output may be a megabyte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Case, Exists, F, OuterRef, Q, Subquery, Value, When
from django.db.models.fields.json import KT
from django.db.models.functions import Left, Now
from django.utils.translation import gettext as _

from boards import policy
from boards.models import (
    Attempt,
    Board,
    Debt,
    Event,
    Hold,
    Member,
    RosterEntry,
    Task,
    TranscriptItem,
)
from boards.queries import partitions
from boards.queries.drains import silent_since
from boards.queries.filed import waited_for
from boards.queries.task_acts import Act, TaskView, act_for, acts_for, hits
from boards.queries.task_log import EventPage, events_page
from boards.queries.task_output import DiffLine, Shown, changes, shown
from boards.queries.task_refs import (
    MAX_REFS,
    Neighbours,
    Spend,
    TaskRef,
    label_of,
    neighbours,
    refs,
    spend_of,
    start_state,
)
from boards.queries.task_words import check_words, event_words
from boards.queries.transcript import Line, Lines, lines_of
from boards.states import LIVE, Status
from boards.tasks.decisions import waits_for_filed

__all__ = [
    "Act",
    "AttemptView",
    "EventPage",
    "TaskPage",
    "TaskRef",
    "TaskView",
    "act_for",
    "acts_for",
    "attempt_lines",
    "event_words",
    "events_page",
    "find_board",
    "find_task",
    "hits",
    "lines_since",
    "start_state",
    "task_page",
]

MAX_ATTEMPTS: Final = 50
# Each has a form of its own on the page.
_AT_THE_HEAD: Final = frozenset(
    {"accept", "send_back", "complete", "hand_back", "claim", "steer", "follow_up", "file_again"}
)

_SETTLING: Final = ("cascade", "notice", "session_stop")


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One attempt. `verdict`: "sent back by Anna", where it was checked; `lines`: None while folded."""

    row: Attempt
    lines: Lines | None = None
    verdict: str = ""
    spend: Spend | None = None

    @property
    def took(self) -> float | None:
        """Seconds from its start to its end; None while it is open."""
        return (self.row.ended_at - self.row.started_at).total_seconds() if self.row.ended_at else None

    @property
    def outside(self) -> str:
        """By which key an outside worker took it, and where that says it runs: "codex on laptop-7"."""
        by = self.row.claimed_by or {}
        if "key" not in by:
            return ""
        return _("%(name)s on %(host)s") % by if by.get("host") else str(by["name"])

    @property
    def ending_words(self) -> str:
        """How it ended, as the end of a sentence; what the checker made of it comes first."""
        return self.verdict or str(self.row.get_ending_display()).lower()


@dataclass(frozen=True, slots=True)
class TaskPage:
    task: Task
    board: Board
    member: Member
    now: datetime
    view: TaskView
    acts: list[Act]
    beside: Neighbours
    roster: list[RosterEntry]
    attempts: list[AttemptView]
    events: EventPage
    input: Shown
    output: Shown
    changes: list[DiffLine]
    spend: Spend | None
    waits_for_filed: list[TaskRef] = field(default_factory=list)  # what keeps it open, once it has handed in

    @property
    def other_acts(self) -> list[Act]:
        """What stands among the acts beside the page: allowed, and not asked for at its head."""
        stuck = {"retry", "skip"} if self.task.status == Status.ERRORED and self.act["retry"].allowed else set()
        return [act for act in self.acts if act.allowed and act.verb not in _AT_THE_HEAD | stuck]

    @property
    def may_file(self) -> bool:
        """Whether the member files tasks here; in a partition that is only looked at nobody does."""
        looked_at = partitions.split(self.board.slug)[1]
        own = not looked_at or partitions.is_own(self.member, self.board, looked_at)
        return own and self.member.role in policy.ROLE_ACTIONS["tasks.file"]

    @property
    def closed_acts(self) -> list[Act]:
        """What is not possible now and why, without what only a form at the head offers."""
        return [act for act in self.acts if not act.allowed and act.verb not in _AT_THE_HEAD]

    @property
    def worker_name(self) -> str:
        """Who works it or handed it in, as people read it."""
        return self.view.assigned_name or self.task.assignee or self.board.default_worker or _("a worker")

    @property
    def filed_besides(self) -> list[TaskRef]:
        """What it filed without what it waits for, which is listed above."""
        waited_for = {ref.public_id for ref in self.waits_for_filed}
        return [ref for ref in self.beside.filed if ref.public_id not in waited_for]

    @property
    def takes_messages(self) -> bool:
        """Whether a worker that is at it looks for messages; a program does only where its roster entry says how."""
        names = {entry.name: entry for entry in self.roster}
        entry = names.get(self.task.assignee) or names.get(self.board.default_worker)
        return entry is None or entry.kind != RosterEntry.Kind.COMMAND or entry.config.get("messages") == "stdin"

    @property
    def act(self) -> dict[str, Act]:
        return {act.verb: act for act in self.acts}

    @property
    def newest(self) -> AttemptView | None:
        return self.attempts[0] if self.attempts else None

    @property
    def waiting_below(self) -> int:
        """How many tasks that depend on it directly still wait."""
        return sum(ref.status in {Status.PENDING, Status.HELD} for ref in self.beside.waited_by)

    @property
    def overdue(self) -> bool:
        return bool(self.task.due_at and self.task.due_at <= self.now and not self.task.is_ended)


def find_board(member: Member, slug: str) -> Board | None:
    slug, wanted = partitions.split(slug)
    board = Board.objects.filter(space=member.space_id, slug=slug).first()
    if board is None or not partitions.may_look_at(member, board, wanted):
        return None
    board.slug = partitions.address_of(slug, wanted)
    return board


def find_task(member: Member, slug: str, public_id: str) -> Task | None:
    """The task with its `board`; None for what is not there and for what is not the member's to see."""
    slug, wanted = partitions.split(slug)
    rows = Task.objects.filter(board__space=member.space_id, board__slug=slug, public_id=public_id)
    rows = rows.filter(Q(partition=wanted) if wanted else partitions.own_rows(member))
    owed = Debt.objects.filter(task=OuterRef("pk"))
    unanswered = Hold.objects.filter(task=OuterRef("pk"), attempt=0, source=Hold.Source.FILING, state="discarded")
    done = Task.objects.filter(follow_up_of=OuterRef("pk"), status=Status.COMPLETED)
    found = rows.select_related("board", "visit__run__flow").annotate(
        db_now=Now(),
        drain=KT("claimed_by__drain"),
        silent_since=silent_since("drain"),
        settling=Exists(owed.filter(kind__in=_SETTLING)),
        stopping=Exists(owed.filter(kind="session_stop")),
        run_name=F("visit__run__name"),
        run_number=F("visit__run__number"),
        flow_key=F("visit__run__flow__key"),
        root_id=F("follow_up_of__public_id"),
        parent_id=F("filed_by_task__public_id"),
        asks_again=Case(When(status=Status.CANCELLED, then=Exists(unanswered)), default=Value(False)),
        current_id=Subquery(done.order_by("-completed_at", "-pk").values("public_id")[:1]),
    )
    task = found.order_by("pk").first()
    if task is None or not partitions.may_look_at(member, task.board, wanted):
        return None
    task.board.slug = partitions.address_of(slug, wanted)
    return task


def task_page(task: Task, member: Member, *, attempt: int = 0, before: int = 0, events_before: int = 0) -> TaskPage:
    """All that the page shows. `attempt`: whose transcript is open (0: the newest); `before`: its cursor."""
    roster = list(task.board.roster.select_related("user"))
    beside = neighbours(task)
    # What each handed in may be a megabyte: only the one that is compared is read.
    rows = list(Attempt.objects.filter(task=task.pk).defer("output", "steps").order_by("-number")[:MAX_ATTEMPTS])
    events = events_page(task, member, before=events_before)
    view = _view(task, roster, rows, beside)
    return TaskPage(
        task=task,
        board=task.board,
        member=member,
        now=_now(task),
        view=view,
        acts=acts_for(view, member),
        beside=beside,
        roster=roster,
        attempts=_attempts(task, rows, member, attempt or (rows[0].number if rows else 0), before),
        events=events,
        input=shown(task.input),
        output=shown(task.output),
        changes=_changed_since(task, rows),
        spend=spend_of(part for row in rows for part in row.spend),
        waits_for_filed=_filed(task) if waits_for_filed(task) else [],
    )


def attempt_lines(task: Task, number: int, *, before: int = 0) -> Lines:
    """One page of an attempt's transcript, the newest lines where `before` is 0."""
    return lines_of(TranscriptItem.objects.filter(task=task.pk, attempt=number), before=before)


def lines_since(task: Task, number: int, seen: int) -> list[Line] | None:
    """What the open transcript does not show yet; None where that is more than a page."""
    page = lines_of(TranscriptItem.objects.filter(task=task.pk, attempt=number, pk__gt=seen))
    return None if page.before else page.lines


def _filed(task: Task) -> list[TaskRef]:
    """What a task that handed in waits for; that may be on another board."""
    filed = waited_for(task.pk, task.follow_up_of_id or task.pk)
    here = refs(filed.filter(board=task.board_id))
    fields = ("public_id", "title", Left("goal", 300), "status", "board__slug")
    elsewhere = filed.exclude(board=task.board_id).values_list(*fields)[:MAX_REFS]
    return here + [
        TaskRef(key, label_of(title, goal) or key, status, slug) for key, title, goal, status, slug in elsewhere
    ]


def _now(task: Task) -> datetime:
    now: datetime = task.db_now  # type: ignore[attr-defined]
    return now


def _view(
    task: Task,
    roster: Sequence[RosterEntry],
    rows: Sequence[Attempt],
    beside: Neighbours,
) -> TaskView:
    by_name = {entry.name: entry for entry in roster if entry.kind == RosterEntry.Kind.PERSON}
    assignee, checker = by_name.get(task.assignee), by_name.get(task.checker)
    dependents, cascaded = _below(task)
    now, last = _now(task), rows[0] if rows else None
    return TaskView(
        task=task,
        assigned_to=assignee.user_id if assignee else None,
        assigned_name=_name(assignee),
        worked_by=worker(task.claimed_by) if task.status == Status.IN_PROGRESS else None,
        handed_in_by=worker(last.claimed_by) if last and last.ending == Attempt.Ending.HANDED_IN else None,
        checked_by=checker.user_id if checker else None,
        checker_name=_name(checker),
        dependents=dependents,
        cascaded=cascaded if task.is_ended else 0,
        filed_open=sum(ref.status in LIVE for ref in beside.filed),
        ended_deps=tuple(ref.label for ref in beside.waits_for if ref.ended_otherwise),
        lapsed=bool(task.lease_until and task.lease_until <= now),
        settling=bool(task.settling),  # type: ignore[attr-defined]
        asks_again=bool(task.asks_again),  # type: ignore[attr-defined]
        backing_off=bool(task.not_before and task.not_before > now),
    )


def _name(entry: RosterEntry | None) -> str:
    return entry.user.display if entry and entry.user else ""


def worker(claimed_by: Any) -> int | None:
    """The user id of the person who claimed, None for every other worker."""
    user = claimed_by.get("user") if isinstance(claimed_by, dict) else None
    return int(user) if user else None


def _below(task: Task) -> tuple[int, int]:
    """How many live tasks depend on this one, however far down, and how many its own cascade cancelled."""
    with connection.cursor() as cursor:
        cursor.execute(
            """with recursive below(key) as (
                 select dependent_id from boards_taskdep where dependency_id = %s
                 union
                 select d.dependent_id from below join boards_taskdep d on d.dependency_id = below.key)
               select count(*) filter (where t.status = any(%s)),
                      count(*) filter (where t.status = 'cancelled' and t.cancelled_via = 'cascade'
                                         and t.metadata ->> 'orchestra:cascade_from' = %s)
                 from below join boards_task t on t.pk = below.key""",
            [task.pk, sorted(LIVE), task.public_id],
        )
        live, cascaded = cursor.fetchone()
    return live, cascaded


def _attempts(task: Task, rows: Sequence[Attempt], member: Member, opened: int, before: int) -> list[AttemptView]:
    verdicts = _verdicts(task, rows, member)
    return [
        AttemptView(
            row,
            lines=attempt_lines(task, row.number, before=before) if row.number == opened else None,
            verdict=verdicts.get(row.number, ""),
            spend=spend_of(row.spend),
        )
        for row in rows
    ]


def _verdicts(task: Task, rows: Sequence[Attempt], member: Member) -> dict[int, str]:
    """The latest check of each attempt; asked for only where something was handed in for one."""
    if not any(row.ending == Attempt.Ending.HANDED_IN for row in rows):
        return {}
    checks = Event.objects.filter(task=task.pk, kind="task.checked").order_by("-id")[:MAX_ATTEMPTS]
    return {event.attempt: check_words(event, member.user_id) for event in reversed(checks)}


def _changed_since(task: Task, rows: Sequence[Attempt]) -> list[DiffLine]:
    """The result against the last one that was handed in before it, where it needs a check."""
    handed_in = [row for row in rows if row.ending == Attempt.Ending.HANDED_IN]
    if task.status != Status.NEEDS_CHECK or len(handed_in) < 2:
        return []
    return changes(handed_in[1].output, task.output)
