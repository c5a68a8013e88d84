"""Which rows wait on a person, as conditions over the tables: the same for the list and for the count (spec: 04, 3).

Reads only. Each source answers light rows (dicts) of what a member's space holds, each with `mine`; the words are
made by `boards.queries.needs_you`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Coalesce, Left, Now

from boards import policy
from boards.flows.definition import MANY_KINDS
from boards.models import Branch, Debt, FlowRun, FlowStep, Hold, Member, Role, RosterEntry, Session, Task
from boards.queries import read_rows
from boards.queries.cards import step_due_at
from boards.queries.partitions import own_rows
from boards.queries.statements import Statement, made_once
from boards.queries.waiting_sources import flag, when
from boards.states import LIVE, HoldKind, HoldState, Phase, RunStatus, Status

# A lease that has just run out is the drain's business; after this it is a person's.
LOST_AFTER: Final = timedelta(seconds=5)
STOP_IS_LATE_AFTER: Final = timedelta(seconds=30)

ALL: Final = Q()
_SHORT: Final = 300

# What a collapsed row does not show: a context, a draft, and of a confirm the words under its title.
_UNSEEN: Final = ~Q(title="") & ~Q(prompt="") & ~Q(prompt=F("title")) | Q(prompt__regex=r"\n|.{250}")
_READ_FIRST: Final = ~Q(context="") | Q(draft__isnull=False) | Q(kind=HoldKind.CONFIRM) & _UNSEEN


# What a member filed: by hand, or by an agent that acts for them.
OWN_SESSIONS: Final = (Session.Kind.MEMBER, Session.Kind.KEY)


def named(field: str, user_id: int | None = None) -> Q:
    """Tasks whose `field` names a person of their board's roster; of one user where given."""
    person = RosterEntry.objects.filter(board=OuterRef("board"), name=OuterRef(field), kind=RosterEntry.Kind.PERSON)
    return Q(Exists(person.filter(user=user_id) if user_id is not None else person.filter(user__isnull=False)))


def may_act(member: Member) -> bool:
    return member.role in policy.ROLE_ACTIONS["holds.answer"]


@dataclass(frozen=True, slots=True)
class Counts:
    """`blocking`: rows of the member's own that block work. `to_read`: those that only want to be read."""

    blocking: int = 0
    to_read: int = 0


def count(member: Member) -> Counts:
    """How much waits on the member; one query."""
    if not may_act(member):
        return Counts(to_read=read_rows.told(member).count())
    found = _counts(*_asked_by(member)).tuples()
    return Counts(sum(n for blocks, n in found if blocks), sum(n for blocks, n in found if not blocks))


def _asked_by(member: Member) -> tuple[int, int, int, str]:
    """All of a member that a statement depends on."""
    return member.pk, member.user_id, member.space_id, member.role


def _member(pk: int, user_id: int, space_id: int, role: str) -> Member:
    return Member(pk=pk, user_id=user_id, space_id=space_id, role=role)


@made_once
def _counts(*asked_by: Any) -> QuerySet[Any, Any]:
    member = _member(*asked_by)
    blocking = [
        _open_holds(member).filter(_hold_mine(member)),
        *(source.filter(mine) for source, mine in _task_arms(member).values()),
        _runs(member).filter(_run_mine(member)),
        _debts(member),
    ]
    counted = [_counted(arm, blocks=True) for arm in blocking]
    counted += [_counted(arm, blocks=False) for arm in read_rows.arms(member)]
    return counted[0].union(*counted[1:], all=True).order_by()


def _counted(arm: QuerySet[Any], *, blocks: bool) -> QuerySet[Any]:
    return (
        arm.order_by().annotate(blocks=Value(blocks)).values("blocks").annotate(n=Count("*")).values_list("blocks", "n")
    )


def hold_rows(member: Member, only: Q = ALL) -> Iterator[Mapping[str, Any]]:
    """Open holds of every kind, whoever they are for; `visit_due_at` where the hold's task works in an open visit."""
    yield from _holds(member, only)


def all_holds(member: Member) -> Statement:
    """What reads `hold_rows` of a member."""
    return _all_holds(*_asked_by(member))


@made_once
def _all_holds(*asked_by: Any) -> QuerySet[Any, Any]:
    return _holds(_member(*asked_by), ALL)


def _holds(member: Member, only: Q) -> QuerySet[Any, Any]:
    return (
        _open_holds(member)
        .filter(only)
        .annotate(
            mine=flag(_hold_mine(member)),
            asks=Left("prompt", _SHORT),
            reads_first=flag(_READ_FIRST),
            goal=Left("task__goal", _SHORT),
            visit_due_at=step_due_at("task__", "task_id"),
            run_name=Coalesce("visit__run__name", "task__visit__run__name"),
            run_number=Coalesce("visit__run__number", "task__visit__run__number"),
            run_version=Coalesce("visit__run__version_id", "task__visit__run__version_id"),
            run_priority=Coalesce("visit__run__priority", "task__visit__run__priority"),
            flow_key=Coalesce("visit__run__flow__key", "task__visit__run__flow__key"),
            step_key=Coalesce("visit__step_key", "task__visit__step_key"),
        )
        .values(
            "pk", "kind", "revision", "title", "asks", "asker", "asked_at", "due_at", "default", "options", "schema",
            "assignee_id", "assignee_role", "assignee__first_name", "assignee__last_name", "assignee__username",
            "asker_session__kind", "visit_id", "visit_due_at", "mine", "goal", "board_id", "board__slug",
            "board__name", "task__public_id", "task__title", "task__priority", "run_name", "run_number",
            "run_version", "run_priority", "flow_key", "step_key", "reads_first",
        )
    )  # fmt: skip


def task_rows(member: Member, only: Q = ALL) -> Iterator[Mapping[str, Any]]:
    """Tasks to check, to work, Stuck, or without their worker. `arm` says which. One query."""
    yield from _tasks(_task_arms(member), member, only)


def all_tasks(member: Member) -> Statement:
    """What reads `task_rows` of a member, and those tasks that block nothing and only want to be read."""
    return _all_tasks(*_asked_by(member))


@made_once
def _all_tasks(*asked_by: Any) -> QuerySet[Any, Any]:
    member = _member(*asked_by)
    return _tasks(_task_arms(member) | read_rows.task_arms(member), member, ALL)


def _tasks(arms: Mapping[str, tuple[QuerySet[Task], Q]], member: Member, only: Q) -> QuerySet[Any, Any]:
    shaped = [
        source.filter(only)
        .order_by()
        .annotate(mine=flag(mine & when(may_act(member))), arm=Value(name), short_goal=Left("goal", _SHORT))
        .annotate(why=Left("error", 1_000), run_name=F("visit__run__name"), run_number=F("visit__run__number"))
        .annotate(flow_key=F("visit__run__flow__key"), run_version=F("visit__run__version_id"))
        .annotate(filer_kind=F("filer__kind"))
        .values(
            "arm", "pk", "mine", "partition", "revision", "public_id", "title", "short_goal", "assignee", "checker",
            "filed_by", "status", "why", "attempts", "failures", "max_attempts", "priority", "due_at", "created_at",
            "updated_at", "started_at", "completed_at", "lease_until", "board_id", "board__slug", "board__name",
            "run_name", "run_number", "run_version", "flow_key", "visit__step_key",
            "filer_kind",
        )
        for name, (source, mine) in arms.items()
    ]  # fmt: skip
    return shaped[0].union(*shaped[1:], all=True)


def run_rows(member: Member, only: Q = ALL) -> Iterator[Mapping[str, Any]]:
    """Flow runs that failed, and those whose turn is over with nobody and nothing to move them on."""
    yield from _all_runs(*_asked_by(member)).dicts() if only is ALL else _shown_runs(member, only)


@made_once
def _all_runs(*asked_by: Any) -> QuerySet[Any, Any]:
    return _shown_runs(_member(*asked_by), ALL)


def _shown_runs(member: Member, only: Q) -> QuerySet[Any, Any]:
    return (
        _runs(member)
        .filter(only)
        .annotate(mine=flag(_run_mine(member) & when(may_act(member))), why=Left("error", 1_000))
        .values(
            "pk", "revision", "mine", "name", "number", "status", "why", "version_id", "priority", "created_at",
            "completed_at", "flow__key", "flow__name", "flow__board_id", "flow__board__slug", "flow__board__name",
            "current_visit__step_key", "current_visit__phase", "current_visit__entered_at", "current_visit__error",
            "current_visit__task__assignee", "current_visit__task__updated_at", "current_visit__task__status",
            "started_by_name",
        )
    )  # fmt: skip


def debt_rows(member: Member, only: Q = ALL) -> Iterator[Mapping[str, Any]]:
    """Debts that failed for good, and stops that have not succeeded yet; operators only."""
    if member.role == Role.OPERATOR:
        yield from _all_debts(*_asked_by(member)).dicts() if only is ALL else _shown_debts(member, only)


@made_once
def _all_debts(*asked_by: Any) -> QuerySet[Any, Any]:
    return _shown_debts(_member(*asked_by), ALL)


def _shown_debts(member: Member, only: Q) -> QuerySet[Any, Any]:
    return (
        (_debts(member) | read_rows.unheard_notices(member))
        .filter(only)
        .annotate(why=Left("last_error", 1_000), goal=Left("task__goal", _SHORT))
        .values(
            "pk", "kind", "state", "tries", "why", "created_at", "goal", "task__public_id", "task__title",
            "task__board_id", "task__board__slug", "task__board__name", "run__name", "run__number", "run__flow__key",
            "run__flow__board_id", "run__flow__board__slug", "run__flow__board__name",
        )
    )  # fmt: skip


def told_rows(member: Member, only: Q = ALL) -> Iterator[Mapping[str, Any]]:
    """What flows told the member and they have not marked as seen."""
    yield from (
        read_rows.told(member)
        .filter(only)
        .values(
            "pk", "at", "data", "board_id", "board__slug", "board__name", "run_id", "run__name", "run__number",
            "run__version_id", "run__flow__key", "run__flow__name",
        )
    )  # fmt: skip


def _open_holds(member: Member) -> QuerySet[Hold]:
    own = Q(task=None) | own_rows(member, "task__partition")
    return Hold.objects.filter(own, state=HoldState.OPEN, board__space_id=member.space_id).order_by()


def _hold_mine(member: Member) -> Q:
    for_all = Q(assignee=None) & (Q(assignee_role="") | Q(assignee_role=member.role))
    return (Q(assignee_id=member.user_id) | for_all) & when(may_act(member))


def _task_arms(member: Member) -> dict[str, tuple[QuerySet[Task], Q]]:
    """Name -> (what is there to see in the space, the condition under which it is this member's)."""
    me = member.user_id
    tasks = Task.objects.filter(own_rows(member, "partition"), board__space_id=member.space_id)
    operator_or_filer = when(member.role == Role.OPERATOR) | Q(filer__user_id=me, filer__kind__in=OWN_SESSIONS)
    startable = Q(status=Status.PENDING, unmet_deps=0, open_holds=0) & (Q(not_before=None) | Q(not_before__lte=Now()))
    in_hand = Q(status=Status.IN_PROGRESS, lease_until=None, kept_open_by="", open_holds=0)
    return {
        "check": (
            tasks.filter(Q(checker="person") | named("checker"), status=Status.NEEDS_CHECK),
            (Q(checker="person") | named("checker", me)) & ~named("assignee", me),
        ),
        "assigned": (tasks.filter(named("assignee"), startable | in_hand), named("assignee", me)),
        "stuck": (tasks.filter(status=Status.ERRORED, visit=None), operator_or_filer),
        "lost": (
            tasks.filter(status=Status.IN_PROGRESS, lease_until__lt=Now() - LOST_AFTER, open_holds=0),
            operator_or_filer,
        ),
    }


def _runs(member: Member) -> QuerySet[FlowRun]:
    asks = Hold.objects.filter(state=HoldState.OPEN)
    open_hold = asks.filter(Q(visit=OuterRef("current_visit")) | Q(task=OuterRef("current_visit__task")))
    step = FlowStep.objects.filter(version=OuterRef("version"), key=OuterRef("current_visit__step_key"))
    # A wait that is over has an output; the other kinds without a task of their own say "working" until they are.
    by_itself = Exists(step.filter(kind__in=[*MANY_KINDS, "choice", "notify"]))
    waited = Exists(step.filter(kind="wait")) & Q(current_visit__output__isnull=False)
    failing = Branch.objects.filter(visit=OuterRef("current_visit"), role=Branch.Role.FAILURE, outcome="")
    idle = Q(current_visit__phase__in=[Phase.WAITING, Phase.PAUSED, Phase.FAILURE]) & ~Exists(failing)
    over = idle & (Q(current_visit__task__isnull=False) | by_itself | waited)
    live = Q(current_visit__task__isnull=False, current_visit__task__status__in=sorted(LIVE))
    stands = Q(status=RunStatus.ACTIVE) & over & ~live & ~Exists(open_hold)
    return FlowRun.objects.filter(
        Q(status=RunStatus.FAILED) | stands, flow__space_id=member.space_id, archived_at=None
    ).order_by()


def _run_mine(member: Member) -> Q:
    return when(member.role == Role.OPERATOR) | Q(started_by_id=member.user_id) | Q(started_by=None)


def _debts(member: Member) -> QuerySet[Debt]:
    if member.role != Role.OPERATOR:
        return Debt.objects.none()
    late_stop = Q(kind="session_stop", state=Debt.State.OWED, created_at__lt=Now() - STOP_IS_LATE_AFTER)
    in_space = Q(task__board__space_id=member.space_id) | Q(run__flow__space_id=member.space_id)
    return Debt.objects.filter(_lost_for_good() | late_stop).filter(in_space).order_by()


def _lost_for_good() -> Q:
    """What failed for good and keeps something from going on; the others only want to be read."""
    return Q(state=Debt.State.UNDELIVERABLE) & ~Q(kind__in=read_rows.ONLY_READ)
