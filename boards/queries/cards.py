"""One card of a board as values: all that `board/_card.html` shows, whoever reads it (spec: 08 sections 1.2 and 2).

Reads only, one query for any number of cards. A `CardView` can be compared and hashed: equal values are rendered once
per process, and nothing in it depends on the reader. It holds no server-only field, only words made from them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, DateTimeField, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, JSONObject, Least, Left, Now

from boards.models import Attempt, Board, Branch, Debt, Hold, RosterEntry, Task, TaskDep
from boards.queries.drains import silent_since
from boards.queries.filed import waited_for
from boards.queries.lanes import place, place_ticks
from boards.queries.statements import has_asked_key, made_once
from boards.states import TERMINAL, HoldState, Status
from boards.tasks.decisions import FILED

NOTE_LENGTH: Final = 300  # three lines of a card; the task page has the whole

_FILED_READ: Final = 60  # as on the task page
_FILED_SHOWN: Final = 3
_ENDED_OTHERWISE: Final = {Status.ERRORED.value, Status.CANCELLED.value}


@dataclass(frozen=True, slots=True)
class Ask:
    """What a card asks of a person. `you`: "any", "role:<role>" or a user's id; `more`: further open questions."""

    text: str
    you: str
    kind: str = ""
    due_at: datetime | None = None
    name: str = ""
    more: int = 0


@dataclass(frozen=True, slots=True)
class CardView:
    dom_id: str
    board: str
    public_id: str
    revision: int
    status: str
    place: str
    title: str
    since: datetime
    assignee: str = ""
    person: str = ""  # the name of the person who is the assignee, else ""
    falls_to: str = ""  # whom the board has work what nobody is assigned to, where this is such a task
    note: str = ""
    error: str = ""
    done: int | None = None
    total: int | None = None
    waits_for: int = 0
    blocked_by: tuple[tuple[str, str], ...] = ()  # (label, status) of dependencies that are not completed
    asks: tuple[str, ...] = ()
    ask: Ask | None = None
    due_at: datetime | None = None
    attempt: str = ""
    next_try: datetime | None = None
    follow_up: bool = False
    chain_busy: bool = False  # another task of its chain is being worked
    stopping: bool = False
    served: bool = True
    outside: bool = False  # Ready, for a worker that takes it by itself
    run_name: str = ""
    held_by: str = ""
    checker: str = ""  # the agent that checks it now
    silent_since: datetime | None = None  # its worker's last sign of life, where that is too long ago
    lease_until: datetime | None = None  # when another may take it up; only beside `silent_since`
    lost: bool = False  # its lease ran out, and nobody has taken it up since
    kept_open: bool = False  # it handed in, and waits for tasks that it filed
    filed_open: int = 0  # how many of those are open
    filed: tuple[tuple[str, str, str], ...] = ()  # (board, id, label) of the first of them
    step_due_at: datetime | None = None  # when its flow step's due time withdraws it

    @property
    def ended(self) -> bool:
        return self.status in TERMINAL

    @property
    def badges(self) -> list[str]:
        """At most two, the most telling first; the strip at the foot says "on you" (spec: 08 section 2)."""
        there = {
            "lost": self.lost,
            "silent": self.silent_since is not None and not self.lost,
            "stopping": self.stopping,
            "waiting": self.waits_for > 0,
            "left": self.step_due_at is not None,
            "due": self.due_at is not None,
            "attempt": bool(self.attempt),
            "follow": self.follow_up,
        }
        return [name for name, shown in there.items() if shown][:2]


@dataclass(frozen=True, slots=True)
class Roster:
    """Who may be assigned on a board, and which of them a living drain works for."""

    people: dict[str, tuple[int, str]]  # roster name -> (user id, the person's name)
    served: frozenset[str]  # roster names that some living drain has a worker for
    outside: frozenset[str]  # names whose workers take their tasks by themselves; no drain serves them
    default_worker: str = ""

    def serves(self, assignee: str) -> bool:
        names = {assignee, self.default_worker} - {""} or {""}
        return not names.isdisjoint(self.served | self.outside | self.people.keys())

    def is_outside(self, assignee: str) -> bool:
        return (assignee or self.default_worker) in self.outside


def task_dom_id(board_id: int, public_id: str, partition: str = "") -> str:
    """A task's id within a page: stable, without its key, and nothing that a filer could choose."""
    told = f"{board_id}\n{partition}\n{public_id}".encode()
    return "t-" + hashlib.blake2b(told, digest_size=8).hexdigest()


def read_cards(board: Board, roster: Roster, keys: Iterable[int]) -> list[CardView]:
    """The cards of these tasks, in the order of their places. One query."""
    rows = _rows(board.pk).dicts(list(keys))
    return sorted((_view(board, roster, row) for row in rows), key=lambda card: card.place)


@made_once
def _rows(board_id: int) -> QuerySet[Any, Any]:
    tasks = Task.objects.filter(has_asked_key(), board=board_id)
    # Wide columns (goal, output, context) are cut or picked from in the database: a card needs a line of each.
    open_holds = Hold.objects.filter(task=OuterRef("pk"), state=HoldState.OPEN).order_by("pk")
    unmet = TaskDep.objects.filter(dependent=OuterRef("pk")).exclude(dependency__status=Status.COMPLETED)
    taken = Attempt.objects.filter(task=OuterRef("pk"), ended_at=None).values("started_at")
    stop = Debt.objects.filter(task=OuterRef("pk"), kind="session_stop", state=Debt.State.OWED)
    asked = JSONObject(
        kind="kind", title=Left("title", 120), prompt=Left("prompt", 120), due="due_at", user="assignee_id",
        role="assignee_role", first="assignee__first_name", last="assignee__last_name", login="assignee__username",
    )  # fmt: skip
    blocked = JSONObject(title="dependency__title", goal=Left("dependency__goal", 120), status="dependency__status")
    filed = waited_for(OuterRef("pk"), Coalesce(OuterRef("follow_up_of"), OuterRef("pk")))
    of_filed = JSONObject(id="public_id", title="title", goal=Left("goal", 120), board="board_id", slug="board__slug")
    return tasks.annotate(
        filed=Case(When(kept_open_by=FILED, then=ArraySubquery(filed.values(json=of_filed)[:_FILED_READ]))),
        drain=KT("claimed_by__drain"),
        goal_head=Left("goal", NOTE_LENGTH),
        note=Left("status_note", NOTE_LENGTH),
        why=Left("error", NOTE_LENGTH),
        done=Case(When(output_is_checkpoint=True, then=KT("output__done"))),
        total=Case(When(output_is_checkpoint=True, then=KT("output__total"))),
        holds_open=Case(When(open_holds__gt=0, then=ArraySubquery(open_holds.values(json=asked)[:5]))),
        blocked=Case(When(unmet_deps__gt=0, then=ArraySubquery(unmet.order_by("pk").values(json=blocked)[:3]))),
        since=_since(taken),
        ticks=place_ticks(),
        stopping=Case(When(Q(attempts__gt=0) & ~Q(status=Status.PENDING), then=Exists(stop)), default=Value(False)),
        run_name=Coalesce(F("visit__run__name"), Value("")),
        silent_since=silent_since("drain"),
        lost=Case(When(status=Status.IN_PROGRESS, lease_until__lte=Now(), then=True), default=Value(False)),
        chain_busy=_chain_busy(),
        step_due=step_due_at(),
    ).values(
        "key", "partition", "public_id", "revision", "status", "title", "assignee", "checker", "attempts", "failures",
        "max_attempts", "unmet_deps", "open_holds", "due_at", "not_before", "since", "ticks", "follow_up_of_id",
        "filed_by", "goal_head", "note", "why", "done", "total", "holds_open", "blocked", "stopping", "run_name",
        "silent_since", "lease_until", "lost", "chain_busy", "step_due", "filed", "kept_open_by",
    )  # fmt: skip


def step_due_at(task: str = "", key: str = "pk") -> Case:
    """When the due time of its flow step withdraws a task: the stay's, or its own branch's where that is sooner.

    `task`: the way from the row to the task ("task__"), `key`: the column that names it.
    """
    works = Branch.objects.filter(task=OuterRef(key), ended_at=None)
    turn = Q(**{f"{task}visit__task": F(key)}) | Exists(works.exclude(role=Branch.Role.FAILURE))
    stay = Case(When(turn, then=F(f"{task}visit__due_at")))
    in_step = Q(**{f"{task}visit__isnull": False, f"{task}visit__left_at": None})
    ended = Q(**{f"{task}status__in": sorted(TERMINAL)})
    return Case(
        When(in_step & ~ended, then=Least(stay, Subquery(works.values("due_at")[:1]))), output_field=DateTimeField()
    )


def _chain_busy() -> Case:
    """Whether a Ready follow-up waits for another task of its chain; asked of follow-ups only."""
    root = OuterRef("follow_up_of")
    others = Task.objects.filter(Q(follow_up_of=root) | Q(pk=root), status=Status.IN_PROGRESS)
    waiting = Q(status=Status.PENDING, follow_up_of__isnull=False)
    return Case(When(waiting, then=Exists(others)), default=Value(False))


def _since(taken: QuerySet[Attempt, Any]) -> Case:
    """Since when the card stands as it does: filed, taken, handed in, ended."""
    return Case(
        When(status=Status.IN_PROGRESS, then=Coalesce(taken[:1], "started_at", "updated_at")),
        When(status=Status.NEEDS_CHECK, then="updated_at"),
        default=Coalesce("completed_at", "created_at"),
    )


def _view(board: Board, roster: Roster, row: dict[str, Any]) -> CardView:
    status = row["status"]
    done, total = _progress(row) if status == Status.IN_PROGRESS else (None, None)
    pending = status == Status.PENDING
    asked_people = {"person", "none", *roster.people}
    return CardView(
        dom_id=task_dom_id(board.pk, row["public_id"], row["partition"]),
        board=board.slug,
        public_id=row["public_id"],
        revision=row["revision"],
        status=status,
        place=place(status, row["ticks"], row["public_id"], row["open_holds"] > 0),
        title=label(row["title"], row["goal_head"]) or row["public_id"],
        since=row["since"],
        assignee=row["assignee"],
        person=roster.people[row["assignee"]][1] if row["assignee"] in roster.people else "",
        falls_to="" if row["assignee"] or status in TERMINAL else roster.default_worker,
        note="" if status in {Status.ERRORED, Status.COMPLETED} else _note(row),
        error=_first_line(row["why"]) if status == Status.ERRORED else "",
        done=done,
        total=total,
        waits_for=row["unmet_deps"] if status in {Status.PENDING, Status.HELD} else 0,
        blocked_by=tuple((label(d["title"], d["goal"]), d["status"]) for d in row["blocked"] or ()),
        asks=tuple(_said(hold) for hold in row["holds_open"] or ()),
        ask=_ask(roster, row),
        due_at=row["due_at"] if status not in TERMINAL else None,
        attempt="" if status in {Status.COMPLETED, Status.CANCELLED} else _attempt(row),
        next_try=row["not_before"] if pending else None,
        follow_up=row["follow_up_of_id"] is not None,
        chain_busy=row["chain_busy"],
        stopping=row["stopping"],
        served=roster.serves(row["assignee"]) if pending else True,
        outside=pending and roster.is_outside(row["assignee"]),
        run_name=row["run_name"],
        held_by=row["filed_by"] if status == Status.HELD else "",
        checker=row["checker"] if status == Status.NEEDS_CHECK and row["checker"] not in asked_people else "",
        silent_since=row["silent_since"],
        lease_until=row["lease_until"] if row["silent_since"] else None,
        lost=row["lost"],
        step_due_at=row["step_due"],
        kept_open=row["kept_open_by"] == FILED,
        filed_open=len(row["filed"] or ()),
        filed=tuple(_filed(board, each) for each in (row["filed"] or ())[:_FILED_SHOWN]),
    )


def _filed(board: Board, task: dict[str, Any]) -> tuple[str, str, str]:
    """Where a filed task is, as addresses name it: a board that is partitioned by its partition."""
    place = board.slug if task["board"] == board.pk else task["slug"]
    return place, task["id"], label(task["title"], task["goal"]) or task["id"]


def label(title: str, goal: str) -> str:
    """The title, else the goal's first line with something on it; at most 200 characters."""
    return (title or _first_line(goal))[:200]


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _note(row: dict[str, Any]) -> str:
    """The worker's latest line while it works; why it was cancelled; who checks."""
    if row["status"] == Status.CANCELLED:
        return _first_line(row["why"])
    return _first_line(row["note"])


def _attempt(row: dict[str, Any]) -> str:
    """`2/3` from the second attempt on, for a Ready task of the one that comes; the budget only while within it."""
    number = row["attempts"] + (1 if row["status"] == Status.PENDING and row["failures"] else 0)
    most = row["max_attempts"]
    if number < 2:
        return ""
    return f"{number}/{most}" if most and number <= most else str(number)


def _progress(row: dict[str, Any]) -> tuple[int | None, int | None]:
    """`{"done": n, "total": m}` of a checkpoint, where both are whole numbers that make sense together."""
    try:
        done, total = int(row["done"]), int(row["total"])
    except (TypeError, ValueError):
        return None, None
    return (done, total) if 0 <= done <= total < 2**53 and total else (None, None)


def _ask(roster: Roster, row: dict[str, Any]) -> Ask | None:
    """The one thing that the card asks of a person now: an open hold, a check, or work for a person."""
    status = row["status"]
    if status in TERMINAL:
        return None
    if row["holds_open"]:
        return _held_ask(row["holds_open"], row["open_holds"], row["step_due"])
    if status == Status.NEEDS_CHECK and row["checker"] == "person":
        return Ask("", "any", "check")
    if status == Status.NEEDS_CHECK and row["checker"] in roster.people:
        user_id, name = roster.people[row["checker"]]
        return Ask("", str(user_id), "check", name=name)
    if row["assignee"] in roster.people and status in {Status.PENDING, Status.IN_PROGRESS} and not row["unmet_deps"]:
        user_id, name = roster.people[row["assignee"]]
        return Ask("", str(user_id), "start" if status == Status.PENDING else "hand_in", name=name)
    return None


def _held_ask(holds: list[dict[str, Any]], count: int, step_due: datetime | None) -> Ask:
    """The oldest question; its time is the sooner of its own and its step's, as in every list (spec: 04, 3.1)."""
    hold = holds[0]
    you, name = "any", ""
    if hold["user"]:
        you = str(hold["user"])
        name = f"{hold['first']} {hold['last']}".strip() or hold["login"]
    elif hold["role"]:
        you = name = hold["role"]
        you = f"role:{you}"
    moments = [datetime.fromisoformat(hold["due"]) if hold["due"] else None, step_due]
    due = min((moment for moment in moments if moment is not None), default=None)
    return Ask(_said(hold), you, hold["kind"], due, name, count - 1)


def _said(hold: dict[str, Any]) -> str:
    return _first_line(hold["title"]) or _first_line(hold["prompt"])


def roster_of(board: Board, entries: Iterable[dict[str, Any]], drains: Iterable[dict[str, Any]]) -> Roster:
    """The roster from rows of `boards.queries.board`: entries, and the drains that are alive."""
    people: dict[str, tuple[int, str]] = {}
    outside: set[str] = set()
    for entry in entries:
        if entry["kind"] == RosterEntry.Kind.PERSON:
            people[entry["name"]] = (entry["user"], f"{entry['first']} {entry['last']}".strip() or entry["login"])
        elif entry["kind"] == RosterEntry.Kind.PULL:
            outside.add(entry["name"])
    prefix = f"{board.pk}:"
    served = {
        pair.removeprefix(prefix)
        for drain in drains
        if not drain["boards"] or board.pk in drain["boards"]
        for pair in drain["assignees"]
        if pair.startswith(prefix)
    }
    return Roster(people, frozenset(served), frozenset(outside), board.default_worker)
