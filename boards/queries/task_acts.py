"""Which acts a member may do on a task now, and in words why not (spec: 01 section 2, 08 "Task page").

Pure: it decides from a `TaskView` and a role, reads nothing and writes nothing. The page, the card and the menu
show what it answers; the engine decides again inside its own write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from boards import policy
from boards.models import Member, Task
from boards.states import Status
from boards.tasks.cleaning import CASCADE_WAS_HELD
from boards.tasks.decisions import FILED

MAX_STEERS = 50


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task and what its own row does not say. User ids are of people of the space; counts are of tasks.

    `assigned_to`, `worked_by`, `handed_in_by`, `checked_by`: user id or None. `dependents`: live ones that a cancel
    would cancel too. `asks_again`: a question of its filing went unanswered and is asked again before it can start.
    `cascaded`: dependents that its ending cancelled. `ended_deps`: labels of dependencies that
    ended without completing.
    """

    task: Task
    assigned_to: int | None = None
    assigned_name: str = ""
    worked_by: int | None = None
    handed_in_by: int | None = None
    checked_by: int | None = None
    checker_name: str = ""
    dependents: int = 0
    cascaded: int = 0
    filed_open: int = 0
    ended_deps: tuple[str, ...] = field(default=())
    lapsed: bool = False
    settling: bool = False
    backing_off: bool = False
    asks_again: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """One act. `reason`: why it is not allowed now. `confirm`: what it hits, shown before; "" asks nothing."""

    verb: str
    label: str
    allowed: bool
    reason: str = ""
    confirm: str = ""
    icon: str = ""


def acts_for(view: TaskView, member: Member) -> list[Act]:
    """Every act of the task page in its order, each allowed or with its reason; pure."""
    return [_act(rule, view, member) for rule in _RULES]


def act_for(view: TaskView, member: Member, verb: str) -> Act:
    """The one act named `verb`; KeyError where there is none."""
    return _act(_BY_VERB[verb], view, member)


@dataclass(frozen=True, slots=True)
class _Rule:
    verb: str
    label: Callable[[], str]
    action: str
    why_not: Callable[[TaskView, Member], str]
    icon: str
    confirm: Callable[[TaskView], str] = lambda view: ""


def _act(rule: _Rule, view: TaskView, member: Member) -> Act:
    reason = _role_reason(member, rule.action) or rule.why_not(view, member)
    return Act(rule.verb, rule.label(), not reason, reason, "" if reason else rule.confirm(view), rule.icon)


def _role_reason(member: Member, action: str) -> str:
    if member.role in policy.ROLE_ACTIONS[action]:
        return ""
    if action == "tasks.reclaim":
        return _("Only an operator may do this.")
    return _("You may read here, not act. Ask an operator of the space for the member role.")


def _not_claim(view: TaskView, member: Member) -> str:
    task = view.task
    if view.assigned_to is None:
        return _("Only a task assigned to a person is started by hand.")
    if view.assigned_to != member.user_id:
        return _("It is assigned to %(name)s.") % {"name": view.assigned_name}
    if task.status != Status.PENDING:
        return _("Only a Ready task can be started.")
    if task.unmet_deps:
        return _("It waits for tasks that are not done yet.")
    if task.open_holds:
        return _("A question on it is still open.")
    return _("Its next try has not come yet.") if view.backing_off else ""


def _not_mine(view: TaskView, member: Member) -> str:
    if view.task.status != Status.IN_PROGRESS or view.worked_by is None:
        return _("Only a task that a person has started can be handed in or given back.")
    if view.task.kept_open_by == FILED:
        return _("It was handed in, and only waits for the tasks it filed.")
    return "" if view.worked_by == member.user_id else _("Somebody else has started it.")


def _not_check(view: TaskView, member: Member) -> str:
    if view.task.status != Status.NEEDS_CHECK:
        return _("Only a task that needs a check can be accepted or sent back.")
    if view.handed_in_by == member.user_id:
        return _("You handed this in, so somebody else has to check it.")
    if view.task.checker != "person" and view.checked_by != member.user_id:
        return _("%(name)s checks it.") % {"name": view.checker_name or view.task.checker}
    return ""


def _not_release(view: TaskView, member: Member) -> str:
    return "" if view.task.status == Status.HELD else _("Only a Held task can be released.")


def _not_hold(view: TaskView, member: Member) -> str:
    if view.task.status == Status.PENDING and not view.task.attempts:
        return ""
    return _("Only a Ready task that was never started can be held.")


def _not_retry(view: TaskView, member: Member) -> str:
    task = view.task
    if task.withdrawn:
        return _("Its due time passed and it was withdrawn. File it again as a new task.")
    if task.status not in {Status.ERRORED, Status.CANCELLED}:
        return _("Only a Stuck or Skipped task can be retried.")
    if view.settling:
        return _("What its last ending owes is still being settled. Try again in a moment.")
    if view.ended_deps:
        return _("It depends on “%(label)s”, which ended. Retry that one first.") % {"label": view.ended_deps[0]}
    return ""


def _not_start_anyway(view: TaskView, member: Member) -> str:
    if not view.ended_deps:
        return _("It waits for no task that ended.")
    never_ran = view.task.started_at is None and not view.task.withdrawn
    if not never_ran or view.task.status not in {Status.PENDING, Status.HELD, Status.CANCELLED}:
        return _("Only a task that never ran can be started anyway.")
    return ""


def _not_skip(view: TaskView, member: Member) -> str:
    if view.task.status in {Status.ERRORED, Status.PENDING}:
        return ""
    return _("Only a Stuck or Ready task can be skipped.")


def _not_cancel(view: TaskView, member: Member) -> str:
    return _("It has ended.") if view.task.is_ended else ""


def _not_reclaim(view: TaskView, member: Member) -> str:
    if view.task.status == Status.IN_PROGRESS and view.lapsed:
        return ""
    return _("Only a Working task that lost its worker can be reclaimed.")


def _not_steer(view: TaskView, member: Member) -> str:
    if view.task.is_ended:
        return _("The task has ended. File a follow-up.")
    if view.task.kept_open_by == FILED:
        return _("It was handed in, so nobody reads a message. Send it to one of the tasks it filed.")
    if len(view.task.steers) >= MAX_STEERS:
        return _("A task takes %(most)d messages at most.") % {"most": MAX_STEERS}
    return ""


def _not_follow_up(view: TaskView, member: Member) -> str:
    return _("It never ran, so there is nothing to follow up.") if view.task.started_at is None else ""


def _not_file_again(view: TaskView, member: Member) -> str:
    return "" if view.task.withdrawn else _("Only a task whose due time passed is filed again as a new one.")


def hits(view: TaskView) -> str:
    """What an ending of this task hits beside itself, as a sentence, or ""."""
    if not view.dependents:
        return ""
    return ngettext(
        "Also cancels the task that depends on it.",
        "Also cancels the %(count)d tasks that depend on it.",
        view.dependents,
    ) % {"count": view.dependents}


def _start_anyway_confirm(view: TaskView) -> str:
    names = ", ".join(f"“{label}”" for label in view.ended_deps)
    return " ".join([_("It will no longer wait for %(names)s.") % {"names": names}, _then(view)])


def _then(view: TaskView) -> str:
    """What comes of a task that never ran once it waits no longer for the tasks that ended."""
    task = view.task
    if task.status == Status.HELD or (task.status == Status.CANCELLED and CASCADE_WAS_HELD in task.metadata):
        return _("It stays held until somebody releases it.")
    if task.open_holds or view.asks_again:
        return _("It still waits for an answer.")
    if task.unmet_deps > len(view.ended_deps):
        return _("It still waits for other tasks.")
    return _("This will start it.")


def _retry_confirm(view: TaskView) -> str:
    if not view.cascaded:
        return ""
    return ngettext(
        "Its ending cancelled a task that depends on it.",
        "Its ending cancelled %(count)d tasks that depend on it.",
        view.cascaded,
    ) % {"count": view.cascaded}


def _reclaim_confirm(view: TaskView) -> str:
    return _("It goes back to Ready; what the lost worker still writes is refused.")


_RULES = (
    _Rule("claim", lambda: _("Start"), "tasks.claim", _not_claim, "working"),
    _Rule("complete", lambda: _("Hand in"), "tasks.complete", _not_mine, "ok"),
    _Rule("hand_back", lambda: _("Give back"), "tasks.hand_back", _not_mine, "undo"),
    _Rule("accept", lambda: _("Accept"), "tasks.check", _not_check, "ok"),
    _Rule("send_back", lambda: _("Send back"), "tasks.check", _not_check, "undo"),
    _Rule("retry", lambda: _("Retry"), "tasks.retry", _not_retry, "again", _retry_confirm),
    _Rule(
        "start_anyway",
        lambda: _("Start anyway"),
        "tasks.retry",
        _not_start_anyway,
        "right",
        _start_anyway_confirm,
    ),
    _Rule("release", lambda: _("Release"), "tasks.release", _not_release, "ready"),
    _Rule("hold", lambda: _("Hold"), "tasks.hold", _not_hold, "held"),
    _Rule("reclaim", lambda: _("Reclaim"), "tasks.reclaim", _not_reclaim, "again", _reclaim_confirm),
    _Rule("skip", lambda: _("Skip"), "tasks.skip", _not_skip, "skip", hits),
    _Rule("cancel", lambda: _("Cancel"), "tasks.cancel", _not_cancel, "x", hits),
    _Rule("steer", lambda: _("Send"), "tasks.steer", _not_steer, "right"),
    _Rule("follow_up", lambda: _("File a follow-up"), "tasks.file", _not_follow_up, "follow"),
    _Rule("file_again", lambda: _("File it again as a new task"), "tasks.file", _not_file_again, "again"),
)
_BY_VERB = {rule.verb: rule for rule in _RULES}
