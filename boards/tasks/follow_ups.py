"""Follow-ups: which chain a filing belongs to, its next free id, and the rule that one of a chain runs at a time.

A chain is a root and the tasks stored with `follow_up_of` = that root. What is written stays with `filing` and
`claims`; this module locks and reads for them (spec: 01 section 3, "Follow-ups").
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from django.db import connection
from django.db.models import Q

from boards import errors
from boards.locks import Rank, sorted_keys, taking
from boards.models import Board, Task
from boards.states import Status
from boards.tasks import cleaning
from boards.tasks.types import Filing

Roots = Mapping[str, Task]

# For the claim's arms of rows that are not at work yet: nothing of the row's chain is. Only rows with a chain pay for
# the look, since only a task that ran can be followed up; the partial unique index of follow-ups at work serves it. Not
# as `not exists`: that the planner may answer from a table of all rows at work.
NOBODY_OF_ITS_CHAIN_WORKS: Final = """(
    (t.follow_up_of_id is null and t.attempts = 0)
    or ((select o.pk from boards_task o where o.follow_up_of_id = coalesce(t.follow_up_of_id, t.pk)
            and o.status = 'in_progress' limit 1) is null
        and (select r.pk from boards_task r where r.pk = t.follow_up_of_id and r.status = 'in_progress') is null))"""
_MAX_ID: Final = 200


def resolve(board: Board, partition: str, filings: Sequence[Filing]) -> tuple[list[Filing], Roots]:
    """The filings, each follow-up naming its root and with the root's assignee; and the roots by their ids.

    Raises TaskNotFound, FollowUpOfUnrun, FollowUpTakesNoAssignee, InvalidInput.
    """
    names = {cleaning.checked_id(f.follow_up_of) for f in filings if f.follow_up_of}
    if not names:
        return list(filings), {}
    rows = Task.objects.filter(board=board, partition=partition, public_id__in=names).select_related("follow_up_of")
    named = {task.public_id: task for task in rows}
    roots: dict[str, Task] = {}
    resolved = []
    for filing in filings:
        if not filing.follow_up_of:
            resolved.append(filing)
            continue
        root = _root(named, filing, {f.id for f in filings if f.id})
        roots[root.public_id] = root
        resolved.append(replace(filing, follow_up_of=root.public_id, assignee=root.assignee))
    return resolved, roots


def _root(named: Mapping[str, Task], filing: Filing, batch: Collection[str]) -> Task:
    name = filing.follow_up_of
    task = named.get(name)
    if task is None and name in batch:
        raise errors.FollowUpOfUnrun
    if task is None:
        raise errors.TaskNotFound(f"There is no task {name} on this board to follow up.", id=name)
    if task.started_at is None:
        raise errors.FollowUpOfUnrun(
            f"“{task.label}” never ran, so there is nothing to follow up. Edit it, or send it a message.",
            task_id=task.public_id,
        )
    if filing.assignee:
        raise errors.FollowUpTakesNoAssignee(field="assignee")
    if filing.id:
        raise errors.InvalidInput("id of a follow-up is made from its first task's. Leave it out.", field="id")
    return task.follow_up_of or task


def locks_of_numbers(roots: Roots) -> list[tuple[str, list[Any]]]:
    """The statements by which two filings that number follow-ups of one root do so one after the other."""
    keys = sorted_keys(root.pk for root in roots.values())
    return [("select pg_advisory_xact_lock(%s, %s)", [0x0B0C, key % 2**31]) for key in keys]


def keep(roots: Roots) -> None:
    """Keep the roots there until the filing commits; TaskNotFound where retention removed one meanwhile."""
    if not roots:
        return
    taking(Rank.TASK)
    keys = sorted_keys(root.pk for root in roots.values())
    with connection.cursor() as cursor:
        cursor.execute("select pk from boards_task where pk = any(%s) order by pk for key share", [keys])
        if len(cursor.fetchall()) < len(keys):
            raise errors.TaskNotFound


def with_ids(filings: Sequence[Filing], roots: Roots) -> list[Filing]:
    """Each follow-up with the lowest free `<root>-f<n>`; the caller holds the `locks_of_numbers`."""
    if not roots:
        return list(filings)
    taken = _taken(roots.values()) | {f.id for f in filings if f.id}
    free = {name: (n for n in itertools.count(1) if _id(name, n) not in taken) for name in roots}
    return [replace(f, id=_id(f.follow_up_of, next(free[f.follow_up_of]))) if f.follow_up_of else f for f in filings]


def _taken(roots: Iterable[Task]) -> set[str]:
    found: set[str] = set()
    for root in roots:
        same = Task.objects.filter(board=root.board_id, partition=root.partition)
        found |= set(same.filter(public_id__startswith=_id(root.public_id, "")).values_list("public_id", flat=True))
        found |= set(root.follow_ups.values_list("public_id", flat=True))
    return found


def _id(root: str, n: int | str) -> str:
    """A long root's id is cut, so that the follow-up's is no longer than an id may be."""
    return f"{root[: _MAX_ID - 8]}-f{n}"


def alone(keys: Sequence[int]) -> set[int]:
    """Those of these locked rows that may start now, at most one of a chain; the chains' roots are locked with it.

    A claim saw each row free before it had the locks; this looks again under them. Roots that somebody else holds are
    passed over, never waited for, since the follow-ups are locked already (the order is by key).
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """select r.pk from boards_task r
                where r.pk in (select coalesce(follow_up_of_id, pk) from boards_task where pk = any(%s))
                order by r.pk for no key update skip locked""",
            [list(keys)],
        )
        held = [row[0] for row in cursor.fetchall()]
        cursor.execute(
            f"""select t.pk, coalesce(t.follow_up_of_id, t.pk) from boards_task t
                 where t.pk = any(%s) and coalesce(t.follow_up_of_id, t.pk) = any(%s)
                   and {NOBODY_OF_ITS_CHAIN_WORKS}""",
            [list(keys), held],
        )
        chains = dict(cursor.fetchall())
    first: dict[int, int] = {}
    for key in keys:
        if key in chains:
            first.setdefault(chains[key], key)
    return set(first.values())


def at_work(task: Task) -> Task | None:
    """The other task of its chain that is being worked, for which this one waits; None where nothing is."""
    if task.follow_up_of_id is None and not task.attempts:
        return None
    root = task.follow_up_of_id or task.pk
    chain = Q(follow_up_of=root) | Q(pk=root)
    return Task.objects.filter(chain, status=Status.IN_PROGRESS).exclude(pk=task.pk).first()


def chain_of(task: Task) -> list[Task]:
    """The whole chain of a task, root first, then in the order of filing."""
    root = task.follow_up_of_id or task.pk
    return list(Task.objects.filter(Q(pk=root) | Q(follow_up_of=root)).order_by("pk"))


def current_of(tasks: Iterable[Task]) -> dict[int, Task]:
    """By root key: the latest completed follow-up of each that has one."""
    keys = [task.pk for task in tasks]
    if not keys:
        return {}
    done = Task.objects.filter(follow_up_of__in=keys, status=Status.COMPLETED)
    latest = done.order_by("follow_up_of", "-completed_at", "-pk").distinct("follow_up_of")
    return {task.follow_up_of_id: task for task in latest if task.follow_up_of_id is not None}
