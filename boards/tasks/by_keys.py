"""What a key may not do although its member may (spec: 01 section 2, 04 section 2.3, 06 section 6).

A key reaches the tasks that its own session filed, unless it has the scope `admin`; and whoever asked never lets go on
what waits for the answer. Nothing here concerns people, services or workers under their ticket.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from boards import errors
from boards.actors import Chain
from boards.models import Hold, Scope, Task
from boards.states import HoldKind, HoldState

# A check is made by whoever is the checker, whoever filed the task.
_OF_ANYBODY: Final = frozenset({"tasks.check"})
# What a person looks at who is asked whether it shall start.
_READ_BEFORE_A_YES: Final = frozenset({"goal", "title", "context", "input", "assignee"})
# What would let a task start in spite of a question or of a no.
_LETS_START: Final = frozenset({"tasks.release", "tasks.retry"})


def require(chain: Chain, task: Task, action: str) -> None:
    """Refuse with `Forbidden` what the acting key may not do to this task; the policy was asked before."""
    key = chain.key
    if key is None:
        return
    if action not in _OF_ANYBODY and Scope.ADMIN not in key.scopes and task.filer_id != chain.session_id:
        raise errors.Forbidden(
            f"This task was filed by {task.filed_by or 'somebody else'}. A key acts on what it filed itself; "
            "one with the scope admin also on what others filed."
        )
    if action in _LETS_START and _has_the_last_word(chain, task):
        raise errors.Forbidden("A person decides whether this task starts, and whoever asked does not. Ask a member.")


def require_edit(chain: Chain, task: Task, changes: Mapping[str, object]) -> None:
    """Refuse with `Forbidden` an edit by the acting key that would take away what a person is there for.

    Whoever works it never names its own reviewer, and no other key that does not decide; and what a person is asked to
    say yes to at the filing, or did, stays as it was read.
    """
    key = chain.key
    if key is None:
        return
    of_own = chain.acting.name in {task.assignee, changes.get("assignee")}
    if (
        "checker" in changes
        and changes["checker"] != task.checker != "none"
        and (of_own or Scope.DECIDE not in key.scopes)
    ):
        raise errors.Forbidden("Whoever works on it or files it does not change who checks it. Ask a member.")
    asked = Hold.objects.filter(task=task.pk, source=Hold.Source.FILING, kind=HoldKind.CONFIRM)
    changed = {name for name in _READ_BEFORE_A_YES & changes.keys() if changes[name] != getattr(task, name)}
    if changed and asked.exclude(state=HoldState.DISCARDED).exists():
        raise errors.Forbidden("A person is asked about it as it stands, so it stays so. Cancel it and file it anew.")


def _has_the_last_word(chain: Chain, task: Task) -> bool:
    """Whether a question of this key's own is open, or a person said no to starting the task."""
    closed = [HoldState.ANSWERED, HoldState.EXPIRED]
    confirms = Hold.objects.filter(task=task.pk, source=Hold.Source.FILING, kind=HoldKind.CONFIRM, state__in=closed)
    if confirms.exclude(answer__choice="yes").exists():
        return True
    return Hold.objects.filter(task=task.pk, state=HoldState.OPEN, asker_session=chain.session_id).exists()
