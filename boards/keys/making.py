"""Making a key, and replacing its secret; each answers the secret, which nothing shows again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F
from django.db.models.functions import Now

from boards import errors, policy
from boards.actors import Chain
from boards.event_log import Entry, record
from boards.keys.secrets import hash_of, new_secret, prefix_of
from boards.locks import engine_transaction
from boards.models import AgentKey, Board, Member, Scope, Session
from boards.tasks import cleaning

MAX_KEYS: Final = 100  # of one member that are not revoked
OVERLAP: Final = timedelta(hours=24)  # how long the old secret goes on beside the new one
_ACTION: Final = "keys.manage"


@dataclass(frozen=True, slots=True)
class KeyFields:
    """What a member says of a key. `boards`: ids, None for every board; `expires_at`: None for never."""

    name: str
    scopes: Sequence[str]
    boards: Sequence[int] | None = None
    expires_at: datetime | None = None


def make(chain: Chain, fields: KeyFields) -> tuple[AgentKey, str]:
    """A key of the member who acts, and its secret. Raises InvalidInput naming the field, Forbidden."""
    member = acting_member(chain)
    name = cleaning.checked_text(fields.name, "name", 100).strip()
    if cleaning.is_blank(name):
        raise errors.InvalidInput("Give the agent a name: people read it beside what it does.", field="name")
    scopes = _checked_scopes(fields.scopes)
    expires_at = cleaning.checked_moment(fields.expires_at, "expires_at")
    return _insert(chain, member, KeyFields(name, scopes, fields.boards, expires_at))


def rotate(chain: Chain, key: AgentKey, *, keep_old: bool = True) -> str:
    """A new secret for one's own key, which keeps everything else; `keep_old`: the old one is let in for a day yet."""
    member = acting_member(chain)
    if key.member_id != member.pk:
        raise errors.NotFound("There is no such key.")
    return _rotate(chain, key.pk, keep_old)


def acting_member(chain: Chain) -> Member:
    """The member who manages keys; an agent never does, whatever its key."""
    policy.require(chain, _ACTION, chain.space_id)
    member = Member.objects.select_related("space", "user").filter(space=chain.space_id, user=chain.user_id).first()
    if member is None or chain.acting.kind != "person":
        raise errors.Forbidden("Only a member makes keys.")
    return member


def _checked_scopes(given: Sequence[str]) -> list[str]:
    scopes = [scope for scope in Scope.values if scope in given]
    if unknown := sorted(set(given) - set(scopes)):
        raise errors.InvalidInput(
            f"There is no scope {unknown[0][:40]}. There is {', '.join(Scope.values)}.", field="scopes"
        )
    if not scopes:
        raise errors.InvalidInput("Choose at least one scope.", field="scopes")
    if Scope.WORK in scopes and Scope.DECIDE in scopes:
        raise errors.InvalidInput(
            "A key that works on tasks decides nothing: leave out work or decide, or make two keys.", field="scopes"
        )
    return scopes


@engine_transaction
def _insert(chain: Chain, member: Member, fields: KeyFields) -> tuple[AgentKey, str]:
    Member.objects.select_for_update(no_key=True).get(pk=member.pk)  # so that the count below holds
    if AgentKey.objects.filter(member=member, revoked_at=None).count() >= MAX_KEYS:
        raise errors.InvalidInput(f"A member has at most {MAX_KEYS} keys. Revoke one first.", field="name")
    boards = _checked_boards(member, fields.boards)
    if fields.expires_at is not None and not _lies_ahead(fields.expires_at):
        raise errors.InvalidInput("The key has to end at a time that lies ahead.", field="expires_at")
    session = Session.objects.create(space=member.space, kind=Session.Kind.KEY, user=member.user, label=fields.name)
    secret = new_secret()
    key = AgentKey.objects.create(
        member=member,
        name=fields.name,
        scopes=list(fields.scopes),
        every_board=fields.boards is None,
        session=session,
        prefix=prefix_of(secret),
        secret_hash=hash_of(secret),
        expires_at=fields.expires_at,
    )
    key.boards.set(boards)
    record(Entry("key.made", chain, data=described(key) | {"scopes": list(fields.scopes)}))
    return key, secret


def _checked_boards(member: Member, ids: Sequence[int] | None) -> list[Board]:
    if ids is None:
        return []
    found = list(Board.objects.filter(space=member.space_id, pk__in=ids).order_by("pk"))
    if not found or len(found) != len(set(ids)):
        raise errors.InvalidInput("Choose the boards of the key, or every board.", field="boards")
    return found


def _lies_ahead(moment: datetime) -> bool:
    """By the database's clock."""
    return Member.objects.annotate(db_now=Now()).filter(db_now__lt=moment).exists()


@engine_transaction
def _rotate(chain: Chain, pk: int, keep_old: bool) -> str:
    secret = new_secret()
    old = {"old_hash": F("secret_hash"), "old_until": Now() + OVERLAP} if keep_old else {"old_hash": None}
    landed = AgentKey.objects.filter(pk=pk, revoked_at=None).update(
        **({"old_until": None} | old), secret_hash=hash_of(secret), prefix=prefix_of(secret)
    )
    if not landed:
        raise errors.TaskWriteDeclined("The key is revoked, so it stays as it is. Make another one.")
    record(Entry("key.rotated", chain, data=described(AgentKey.objects.get(pk=pk))))
    return secret


def described(key: AgentKey) -> dict[str, str | int]:
    """What an event says of a key; never more of its secret than people see anyway."""
    return {"key": key.pk, "name": key.name, "prefix": key.prefix}
