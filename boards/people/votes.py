"""A hold that several persons decide: votes, of which the latest of each person counts (spec: 05 section 2.11).

Owns the rows of votes. The hold itself is closed by `answering` in the same transaction, once the votes decide it. Who
counts are the members with the quorum's role; silence is never a yes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import F

from boards.actors import Chain
from boards.errors import Forbidden, InvalidInput
from boards.event_log import Entry, record
from boards.models import Hold, Member, Role, Vote
from boards.people import decisions

THRESHOLDS = ("all_approve", "majority_approve", "any_reject", "n_approve:N")


def needed(threshold: str, electors: int) -> int:
    """How many have to say yes. Raises InvalidInput for a threshold that is none."""
    name, _, number = threshold.partition(":")
    if name in ("all_approve", "any_reject") and not number:
        return electors
    if name == "majority_approve" and not number:
        return electors // 2 + 1
    if name == "n_approve" and number.isascii() and number.isdecimal() and int(number) > 0:
        return int(number)
    raise InvalidInput(f"“{threshold}” is no threshold. There is {', '.join(THRESHOLDS)}.")


def tally(threshold: str, electors: int, yes: int, no: int) -> bool | None:
    """What the votes say: True and False decide, None leaves it open. Pure.

    `any_reject`: the first no is a no. Under the others a no stands once everybody has voted and the yeses do not
    suffice; until then people may think again.
    """
    if electors and yes >= needed(threshold, electors):
        return True
    if no and threshold == "any_reject":
        return False
    return False if yes + no >= electors else None


def electors(space_id: int, role: str) -> set[int]:
    """Ids of the users whose votes count: members with this role, or all who may answer."""
    members = Member.objects.filter(space=space_id, user__is_active=True)
    named = members.filter(role=role) if role else members.filter(role__in=[Role.MEMBER, Role.OPERATOR])
    return set(named.values_list("user", flat=True))


def check(space_id: int, quorum: Mapping[str, str]) -> None:
    """Refuse a quorum that could never be reached."""
    count = len(electors(space_id, quorum["role"]))
    if count < max(1, needed(quorum["threshold"], count)):
        who = f"the role {quorum['role']}" if quorum["role"] else "a right to decide"
        raise InvalidInput(f"“{quorum['threshold']}” cannot be reached: {count} members have {who}.")


def cast(chain: Chain, hold: Hold, answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """Record a person's vote on a locked hold; answers the answer that now stands, or None while it is open."""
    assert hold.quorum is not None  # whoever calls has looked
    counted = electors(chain.space_id, hold.quorum["role"])
    if chain.user_id is None or chain.user_id not in counted:
        raise Forbidden("Only the members whose votes count may decide this.")
    Vote.objects.create(
        hold=hold, user_id=chain.user_id, name=chain.name, choice=answer["choice"], note=answer.get("text", "")
    )
    Hold.objects.filter(pk=hold.pk).update(revision=F("revision") + 1)
    latest = [vote for vote in latest_of(hold) if vote.user_id in counted]
    yes = sum(vote.choice in decisions.YES for vote in latest)
    verdict = tally(hold.quorum["threshold"], len(counted), yes, len(latest) - yes)
    _record(chain, hold, answer, yes, len(latest) - yes, len(counted))
    if verdict is None:
        hold.refresh_from_db()
        return None
    words = "; ".join(f"{vote.name}: {vote.note}" for vote in latest if vote.note)
    told = {"choice": "approve" if verdict else "reject", "text": words[: decisions.MAX_WORDS]}
    return told | {"votes": [{"by": vote.name, "choice": vote.choice} for vote in latest]}


def take_back(hold: Hold, chain: Chain) -> None:
    """Forget the caller's last vote, in the transaction that opens the question again."""
    last = hold.votes.filter(user=chain.user_id).order_by("-pk").first()
    if last is not None:
        last.delete()


def latest_of(hold: Hold) -> list[Vote]:
    """The vote of each person that counts, in the order in which they first voted."""
    found: dict[int, Vote] = {}
    for vote in hold.votes.order_by("pk"):
        found[vote.user_id] = vote
    return list(found.values())


def _record(chain: Chain, hold: Hold, answer: Mapping[str, Any], yes: int, no: int, of: int) -> None:
    told = {"hold": hold.pk, "prompt": hold.prompt[:500], "choice": answer["choice"], "yes": yes, "no": no, "of": of}
    run_id = hold.visit.run_id if hold.visit else None
    data = told | {"text": str(answer.get("text", ""))[:2000]}
    record(Entry("hold.voted", chain, board_id=hold.board_id, task_key=hold.task_id, run_id=run_id, data=data))
