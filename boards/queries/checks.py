"""Results that wait for a person's check, ready to be read and decided in a list (spec: 04 sections 3 and 5).

Reads only. What is long is not read for a list of many: its row says how long it is and fetches it when it is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.db.models import CharField, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast, Coalesce, Length
from django.utils.translation import gettext as _

from boards.models import Attempt, Member, Task
from boards.queries.task_output import DiffLine, Shown, as_text, changes, shown
from boards.queries.waiting_row import Row
from boards.states import Status

SHORT: Final = 4_000  # characters as JSON that a list of many reads at once
LONG_TEXT: Final = 1_500  # characters of a result, or
LONG_LINES: Final = 24  # lines, beyond which it is folded
HEAD_TEXT: Final = 900  # and what of it stands before the fold
HEAD_LINES: Final = 12


@dataclass(frozen=True, slots=True)
class CheckView:
    """One hand-in. `output` None: too long for a list of many. `head`: the beginning of what is folded.

    `refusal`: why this member may not decide it, as far as a list can tell; "" where they may.
    """

    row: Row
    task: Task
    size: int
    output: Shown | None = None
    head: Shown | None = None
    changes: tuple[DiffLine, ...] = ()
    waited_by: int = 0
    refusal: str = ""

    @property
    def has_long_changes(self) -> bool:
        return len(self.changes) > LONG_LINES

    @property
    def form_id(self) -> str:
        """What tells this row's form from all others on the page."""
        return self.row.key


def check(member: Member, row: Row) -> CheckView | None:
    """The whole of one check, its difference to the last hand-in included; None where it waits no more."""
    task = _checks([row]).first()
    if task is None:
        return None
    return replace(_view(member, row, task, _handed_in([task])), waited_by=task.dependent_edges.count())


def checks(member: Member, rows: Sequence[Row]) -> dict[str, CheckView]:
    """The checks of many rows by their keys, each with its result where that is short; two queries."""
    tasks = {task.pk: task for task in _checks(rows).defer("output")}
    short = [task.pk for task in tasks.values() if _size(task) <= SHORT]
    outputs = dict(Task.objects.filter(pk__in=short).values_list("pk", "output"))
    before = _handed_in([tasks[key] for key in outputs])
    made = {}
    for row in rows:
        task = tasks.get(row.task_key)
        if task is None:
            continue
        if task.pk in outputs:
            task.output = outputs[task.pk]
            made[row.key] = _view(member, row, task, before)
        else:
            made[row.key] = CheckView(row, task, _size(task), refusal=_refusal(member, row, task))
    return made


def _checks(rows: Sequence[Row]) -> QuerySet[Task]:
    found = Task.objects.filter(pk__in=[row.task_key for row in rows], status=Status.NEEDS_CHECK)
    last = Attempt.objects.filter(task=OuterRef("pk"), ending=Attempt.Ending.HANDED_IN).order_by("-number")
    return found.select_related("board").annotate(
        size=Coalesce(Length(Cast("output", CharField())), 0, output_field=IntegerField()),
        handed_in_by=Subquery(last.values("claimed_by__user")[:1]),
    )


def _size(task: Task) -> int:
    size: int = task.size  # type: ignore[attr-defined]
    return size


def _handed_in(tasks: Sequence[Task]) -> dict[int, Any]:
    """What each had handed in before the result that waits, where it had; by the task's key."""
    if not tasks:
        return {}
    earlier = Q()
    for task in tasks:
        earlier |= Q(task=task.pk, number__lt=task.attempts)
    rows = Attempt.objects.filter(earlier, ending=Attempt.Ending.HANDED_IN).order_by("number")
    return dict(rows.values_list("task_id", "output"))


def _view(member: Member, row: Row, task: Task, before: dict[int, Any]) -> CheckView:
    text = as_text(task.output) if task.output is not None else ""
    is_long = len(text) > LONG_TEXT or text.count("\n") > LONG_LINES
    return CheckView(
        row=row,
        task=task,
        size=len(text),
        output=shown(task.output),
        head=_head(task.output, text) if is_long else None,
        changes=tuple(changes(before[task.pk], task.output)) if task.pk in before else (),
        refusal=_refusal(member, row, task),
    )


def _head(output: Any, text: str) -> Shown:
    """The first lines, in the manner of the whole."""
    cut = "\n".join(text[:HEAD_TEXT].splitlines()[:HEAD_LINES])
    return Shown("markdown" if shown(output).kind == "markdown" else "text", f"{cut} …")


def _refusal(member: Member, row: Row, task: Task) -> str:
    """Why the buttons are not there; the verb decides again, on the row that it locks."""
    by: object = task.handed_in_by  # type: ignore[attr-defined]
    if by is not None and str(by) == str(member.user_id):
        return _("You handed this in, so somebody else has to check it.")
    if not row.mine:
        return _("This is not yours to check.")
    return ""
