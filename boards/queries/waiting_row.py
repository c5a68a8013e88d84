"""A row of *Needs you* as a value, and the kinds of rows the list filters by (spec: 04 section 3). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from boards.queries.asks import Choice, choices_of
from boards.queries.silence import IfNobody
from boards.states import HoldKind

_SHORT_SAID: Final = 400  # characters
_FEW_LINES: Final = 8
NOTHING_DUE: Final = IfNobody(None, "", "")


@dataclass(frozen=True, slots=True)
class Group:
    """One kind of rows, as the rail filters by it."""

    value: str
    label: str | Promise
    icon: str


GROUPS: Final = (
    Group("gate", gettext_lazy("Gates"), "gate"),
    Group("approval", gettext_lazy("Approvals"), "ok"),
    Group("question", gettext_lazy("Questions"), "ask"),
    Group("input", gettext_lazy("Input"), "form"),
    Group("check", gettext_lazy("Checks"), "check"),
    Group("assigned", gettext_lazy("Assigned"), "tray"),
    Group("stuck", gettext_lazy("Stuck"), "stuck"),
    Group("flow", gettext_lazy("Flow steps"), "flow"),
    Group("lost", gettext_lazy("Lost workers"), "clock"),
    Group("debt", gettext_lazy("Not settled"), "mail-x"),
    Group("told", gettext_lazy("Told by a flow"), "bell"),
    Group("late", gettext_lazy("Due time passed"), "clock"),
    Group("silent", gettext_lazy("Silent runs"), "clock"),
    Group("notice", gettext_lazy("Not told"), "mail-x"),
    Group("record", gettext_lazy("Not recorded"), "stuck"),
)
_ICONS: Final = {group.value: group.icon for group in GROUPS}


@dataclass(frozen=True, slots=True)
class RowAct:
    """One small button. `to`: "task", "run", "debt" or "seen" posts the verb there; "open" is a link to the row's page,
    "again" one to the form of a new task with what this one said.
    """

    verb: str
    label: str
    to: str
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that waits. `key` is its id on the page; `rev` changes when what it says does.

    `since` and `due_at` are moments by the database clock; `silence` is what happens when nobody does anything.
    """

    key: str
    rev: int
    group: str
    title: str
    words: str
    who: str
    by_person: bool
    since: datetime
    mine: bool
    board_id: int
    board_slug: str
    board_name: str
    for_role: bool = False
    subject: str = ""
    silence: IfNobody = NOTHING_DUE
    priority: int = 0
    why: str = ""
    says: str = ""  # markdown of others, shown whole under the title
    tone: str = ""
    task_id: str = ""
    flow_key: str = ""
    run_number: int = 0
    version_id: int = 0
    step_key: str = ""
    step_name: str = ""
    task_key: int = 0
    run_id: int = 0
    hold_id: int = 0
    debt_id: int = 0
    hold_kind: str = ""
    options: Any = None
    reads_first: bool = False  # whether more belongs to the question than a collapsed row shows
    whose: str = ""
    acts: tuple[RowAct, ...] = ()
    is_served: bool = False
    is_outside: bool = False
    blocks: bool = True  # whether work waits for it; else it only wants to be read

    @property
    def due_at(self) -> datetime | None:
        return self.silence.at

    @property
    def icon(self) -> str:
        return _ICONS[self.group]

    @property
    def searched(self) -> str:
        return (
            f"{self.title} {self.subject} {self.who} {self.board_name} {self.words} {self.why} {self.says}".casefold()
        )

    @property
    def says_much(self) -> bool:
        """Whether it would push the rows below far down."""
        return len(self.says) > _SHORT_SAID or self.says.count("\n") > _FEW_LINES

    @property
    def quick_choices(self) -> tuple[Choice, ...]:
        """What may be answered without reading more: a question's few options, a confirm's two."""
        if self.hold_kind not in {HoldKind.QUESTION, HoldKind.CONFIRM} or not self.mine or self.reads_first:
            return ()
        choices = choices_of(self.hold_kind, self.options)
        return choices if len(choices) <= 4 and sum(len(c.label) for c in choices) <= 60 else ()

    @property
    def opens_here(self) -> bool:
        """Whether the whole of it opens in its place in the list: a question, or a result to check."""
        return bool(self.hold_id) or self.group == "check"

    @property
    def open_label(self) -> str:
        """The button that opens a row in its place."""
        if self.group == "check":
            return _("See the result")
        answered_here = self.hold_kind in {HoldKind.QUESTION, HoldKind.CONFIRM}
        if self.reads_first and answered_here:
            return _("Read and answer")
        labels: dict[str, str] = {
            HoldKind.INPUT: _("Fill in"),
            HoldKind.QUESTION: _("Answer"),
            HoldKind.CONFIRM: _("Answer"),
        }
        return labels.get(self.hold_kind, _("Read the draft"))
