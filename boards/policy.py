"""Who may do what: one table of actions by role, and the manifest of each service (spec: 06 section 1).

Default is refusal. Verbs call `require`; doors call `allowed` to show or hide an act.
"""

from __future__ import annotations

import logging
from typing import Final

from boards.actors import Chain, KeyRights
from boards.errors import Forbidden
from boards.models import Role, Scope

log = logging.getLogger(__name__)

_EVERYONE = frozenset({Role.VIEWER, Role.MEMBER, Role.OPERATOR})
_MEMBERS = frozenset({Role.MEMBER, Role.OPERATOR})
_OPERATORS = frozenset({Role.OPERATOR})

ROLE_ACTIONS: Final[dict[str, frozenset[str]]] = {
    "boards.read": _EVERYONE,
    "tasks.file": _MEMBERS,
    "tasks.edit": _MEMBERS,
    "tasks.hold": _MEMBERS,
    "tasks.release": _MEMBERS,
    "tasks.claim": _MEMBERS,  # a person works what is assigned to them; an outside worker, by a key, what is for it
    "tasks.complete": _MEMBERS,
    "tasks.hand_back": _MEMBERS,
    "tasks.check": _MEMBERS,
    "tasks.cancel": _MEMBERS,
    "tasks.skip": _MEMBERS,
    "tasks.retry": _MEMBERS,
    "tasks.steer": _MEMBERS,
    "tasks.reclaim": _OPERATORS,
    "holds.answer": _MEMBERS,
    "holds.dismiss": _MEMBERS,
    "holds.assign": _MEMBERS,
    "flows.start": _MEMBERS,
    "flows.move": _MEMBERS,
    "flows.cancel": _MEMBERS,
    "flows.archive": _MEMBERS,
    "flows.edit": _OPERATORS,
    "boards.edit": _OPERATORS,
    "boards.pause": _MEMBERS,
    "debts.pay": _OPERATORS,
    "debts.drop": _OPERATORS,
    "keys.manage": _MEMBERS,  # one's own; operators revoke those of others
}

# What each scope of a key lets an agent do, as far as its member may. `admin` adds nothing of its own: with it the
# other scopes reach what others filed (`boards.tasks.by_keys`).
SCOPE_ACTIONS: Final[dict[str, frozenset[str]]] = {
    Scope.READ: frozenset({"boards.read"}),
    Scope.FILE: frozenset(
        {
            "tasks.file",
            "tasks.edit",
            "tasks.hold",
            "tasks.release",
            "tasks.cancel",
            "tasks.steer",
            "flows.start",
            "flows.move",
        }
    ),
    Scope.WORK: frozenset({"tasks.claim"}),  # the claim gives the rights on its task, as a lend
    Scope.DECIDE: frozenset({"tasks.check", "tasks.retry", "holds.answer", "holds.dismiss"}),
    Scope.ADMIN: frozenset(),
}

# `tasks.withdraw` is in the Flows manifest and in no role.
SERVICE_ACTIONS: Final[dict[str, frozenset[str]]] = {
    "flows": frozenset(
        {"tasks.file", "tasks.cancel", "tasks.withdraw", "tasks.retry", "holds.ask", "flows.move", "flows.archive"}
    ),
    "drain": frozenset({"tasks.claim", "tasks.complete", "tasks.fail", "tasks.hand_back", "tasks.cancel"}),
    "sweeper": frozenset({"tasks.abandon", "holds.expire", "debts.pay", "tasks.cancel"}),
    "operator": frozenset({"tasks.reclaim", "debts.pay"}),
    "demo": frozenset({"tasks.file", "flows.start"}),
    "checks": frozenset({"tasks.file", "tasks.check"}),
    # Schedules and webhooks; the right of whoever they act for is asked first.
    "starts": frozenset({"flows.start", "flows.move"}),
}

# What a worker's lend covers, on its own task and attempt only (the ticket says which).
LEND_ACTIONS: Final = frozenset(
    {
        "tasks.read",
        "tasks.progress",
        "tasks.file",
        "tasks.complete",
        "tasks.fail",
        "tasks.hand_back",
        "holds.ask",
        "flows.signal",
    }
)


def allowed(chain: Chain, action: str) -> bool:
    """Whether the acting hop of `chain` may do `action` at all; the object's own rules come on top."""
    hop = chain.acting
    if hop.kind == "person":
        return hop.role in ROLE_ACTIONS.get(action, frozenset())
    if hop.kind == "service":
        return action in SERVICE_ACTIONS.get(hop.id, frozenset())
    if hop.key is not None:
        return action in ROLE_ACTIONS and hop.role in ROLE_ACTIONS[action] and _in_scope(hop.key, action)
    return action in LEND_ACTIONS


def _in_scope(key: KeyRights, action: str) -> bool:
    return any(action in SCOPE_ACTIONS.get(scope, frozenset()) for scope in key.scopes)


def note_refusal(chain: Chain, action: str) -> None:
    """Log that somebody tried what they may not; for those who are told that there is no such thing, too."""
    log.warning("Refused: %s %r may not %s", chain.acting.kind, chain.acting.name, action)


def require(chain: Chain, action: str, space_id: int | None = None) -> None:
    """Refuse with `Forbidden` unless `allowed`, and unless the chain acts in that space."""
    if not allowed(chain, action) or (space_id is not None and space_id != chain.space_id):
        note_refusal(chain, action)
        raise Forbidden(f"{chain.acting.name} may not do this ({action}). Ask an operator of the space.")
