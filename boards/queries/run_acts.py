"""Which acts a member may do on a run now, and in words why not (spec: 05 sections 2.6-2.7, 3); pure.

What stands here shows or hides a button; the flow engine decides again under the run's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from boards import policy
from boards.flows.definition import ASKING_KINDS
from boards.models import FlowRun, Member, Task, Visit
from boards.states import RunStatus, Status


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands. `kind`: of its current step; `asks`: whether a question of it is open; `filed`: open tasks
    that the turn's task filed."""

    run: FlowRun
    visit: Visit | None
    kind: str = ""
    step_name: str = ""
    task: Task | None = None
    asks: bool = False
    filed: int = 0
    stopping: bool = False
    settling: bool = False  # an answer is about to move the run
    inner: Sequence[Task] = ()  # open tasks of works inside the step
    calls: str = ""  # the name of the run that it waits for

    @property
    def works(self) -> bool:
        return bool(self.inner or self.calls) or (self.task is not None and not self.task.is_ended)

    @property
    def has_turn(self) -> bool:
        """Whether a task of the step can be cancelled."""
        return bool(self.inner) or (self.task is not None and not self.task.is_ended)

    @property
    def is_active(self) -> bool:
        return self.run.status == RunStatus.ACTIVE


@dataclass(frozen=True, slots=True)
class RunAct:
    """One act. `reason`: why it is not allowed now; `confirm`: what it hits, asked before it is done."""

    verb: str
    label: str
    icon: str
    reason: str = ""
    confirm: str = ""
    danger: bool = False

    @property
    def allowed(self) -> bool:
        return not self.reason

    @property
    def name(self) -> str:
        """The act itself, as the button says that does it once it was asked about."""
        return self.label.rstrip("…")


def acts_on(at: Standing, member: Member) -> list[RunAct]:
    """Every act of the run page, in its order, each allowed or with its reason."""
    hidden = "archive" if at.run.archived_at else "unarchive"
    return [_act(rule, at, member) for rule in _RULES if rule.verb != hidden]


@dataclass(frozen=True, slots=True)
class _Rule:
    verb: str
    label: Callable[[Standing], str]
    icon: str
    action: str
    why_not: Callable[[Standing], str]
    confirm: Callable[[Standing], str] = lambda at: ""
    danger: bool = False


def _act(rule: _Rule, at: Standing, member: Member) -> RunAct:
    reason = rule.why_not(at)
    if at.run.archived_at and rule.verb not in _OF_THE_ARCHIVE:
        reason = _("The run is archived. Take it out of the archive first.")
    elif at.settling and not reason and rule.verb in _MOVES_ON:
        reason = _("An answer still settles; the run goes on by itself then.")
    if member.role not in policy.ROLE_ACTIONS[rule.action]:
        reason = _("You may read here, not act. Ask an operator of the space for the member role.")
    return RunAct(rule.verb, rule.label(at), rule.icon, reason, "" if reason else rule.confirm(at), rule.danger)


def _not_complete(at: Standing) -> str:
    if not at.is_active:
        return _("The run is over.")
    if at.stopping:
        return _("Its turn is still being stopped.")
    if at.works:
        return _("Its turn is still open. Cancel the turn first, or wait.")
    if at.kind in ASKING_KINDS:
        return (
            _("Only an answer completes an approval.") if at.kind == "approval" else _("Only an answer completes it.")
        )
    return _("A question of this step is still open. Answer it first.") if at.asks else ""


def _not_again(at: Standing) -> str:
    if at.run.status not in {RunStatus.ACTIVE, RunStatus.FAILED}:
        return _("The run is over. Start it again instead.")
    if at.stopping:
        return _("Its turn is still being stopped.")
    if at.works:
        return _("Its turn is still open. Cancel the turn first, or wait.")
    if at.kind in ASKING_KINDS and at.asks:
        return _("This step waits for an answer; there is nothing to run again.")
    return "" if at.visit else _("The run stands in no step yet.")


def _not_turn(at: Standing) -> str:
    if not at.is_active:
        return _("The run is over.")
    return "" if at.has_turn else _("Nothing works in this step now, so there is no turn to cancel.")


def _not_cancel(at: Standing) -> str:
    return "" if at.run.status in {RunStatus.ACTIVE, RunStatus.FAILED} else _("The run is over.")


def _not_move(at: Standing) -> str:
    if at.run.status == RunStatus.CANCELLED:
        return _("The run was cancelled. Start it again instead.")
    if at.stopping:
        return _("Its turn is still being stopped.")
    return "" if at.visit or at.run.queued_step else _("The run stands in no step yet.")


def _not_start(at: Standing) -> str:
    return _("The run is not over yet.") if at.is_active else ""


def _turn_confirm(at: Standing) -> str:
    who = at.task.assignee if at.task else ""
    sentence = _("The turn of %(who)s in %(step)s ends at once; what it hands in later is kept aside.") % {
        "who": who or _("this step"),
        "step": at.step_name,
    }
    if at.filed:
        sentence += " " + ngettext(
            "The open task that it filed is cancelled too.",
            "The %(count)d open tasks that it filed are cancelled too.",
            at.filed,
        ) % {"count": at.filed}
    return sentence


def _not_skip(at: Standing) -> str:
    """Like a completion, but a failed run may go on that way too."""
    if at.run.status not in {RunStatus.ACTIVE, RunStatus.FAILED}:
        return _("The run is over.")
    if at.stopping:
        return _("Its turn is still being stopped.")
    if at.works:
        return _("Its turn is still open. Cancel the turn first, or wait.")
    if at.kind in ASKING_KINDS:
        return _("Only an answer completes this step. Answer it, or move the run.")
    if at.asks:
        return _("A question of this step is still open. Answer it first.")
    return "" if at.visit else _("The run stands in no step yet.")


def _not_from(at: Standing) -> str:
    if at.run.status == RunStatus.CANCELLED:
        return _("The run was cancelled. Start it again instead.")
    if at.stopping:
        return _("Its turn is still being stopped.")
    if at.works:
        return _("Its turn is still open. Cancel the turn first, or wait.")
    return "" if at.visit else _("The run stands in no step yet.")


def stands_in_the_way(at: Standing) -> bool:
    """Whether work has begun that a move would have to stop first."""
    started = {Status.IN_PROGRESS, Status.NEEDS_CHECK}
    return bool(at.calls) or any(task.status in started for task in [*at.inner, *([at.task] if at.task else [])])


def _always(at: Standing) -> str:
    return ""


def _archive_confirm(at: Standing) -> str:
    return _("What works in it is stopped, and its place is free.") if at.works or at.asks else ""


def _move_confirm(at: Standing) -> str:
    if stands_in_the_way(at):
        return _("%(step)s is being worked. Moving cancels its turn; what it hands in later is kept aside.") % {
            "step": at.step_name
        }
    if not at.asks:
        return ""
    return _("%(step)s is still open; moving closes the question unanswered.") % {"step": at.step_name}


def _run_confirm(at: Standing) -> str:
    if at.works:
        return _("The run ends here, and its open task with it. What is done stays as it is.")
    return _("The run ends here. What is done stays as it is.")


_OF_THE_ARCHIVE: Final = frozenset({"unarchive", "start_again", "cancel_run"})  # what may be done to an archived run
_MOVES_ON: Final = frozenset({"mark_complete", "run_again", "complete_by_hand", "skip", "run_from"})

_RULES: Final = (
    _Rule("mark_complete", lambda at: _("Mark complete and advance"), "ok", "flows.move", _not_complete),
    _Rule("run_again", lambda at: _("Run step again"), "again", "flows.move", _not_again),
    _Rule("complete_by_hand", lambda at: _("Complete by hand…"), "form", "flows.move", _not_skip),
    _Rule("skip", lambda at: _("Skip with reason…"), "skip", "flows.move", _not_skip),
    _Rule("run_from", lambda at: _("Run again from…"), "undo", "flows.move", _not_from),
    _Rule("move", lambda at: _("Move to…"), "fwd", "flows.move", _not_move, _move_confirm),
    _Rule("cancel_turn", lambda at: _("Cancel turn…"), "pause", "flows.cancel", _not_turn, _turn_confirm, danger=True),
    _Rule("cancel_run", lambda at: _("Cancel run…"), "x", "flows.cancel", _not_cancel, _run_confirm, danger=True),
    _Rule("start_again", lambda at: _("Start again…"), "play", "flows.start", _not_start),
    _Rule("archive", lambda at: _("Archive"), "tray", "flows.archive", _always, _archive_confirm),
    _Rule("unarchive", lambda at: _("Take out of the archive"), "undo", "flows.archive", _always),
)
