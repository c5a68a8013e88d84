"""What a question that several persons decide shows: who said what so far, and what it takes (spec: 05 section 2.11).

Reads only; nothing for a question that the first answer decides.
"""

from __future__ import annotations

from django.utils.translation import gettext as _

from boards.models import Hold
from boards.people import votes
from boards.people.decisions import YES


def vote_words(hold: Hold) -> str:
    """ "2 of 3 have decided: Anna yes, Bo no. All of them have to say yes." """
    if not hold.quorum:
        return ""
    threshold = str(hold.quorum["threshold"])
    of = len(votes.electors(hold.board.space_id, str(hold.quorum["role"])))
    latest = votes.latest_of(hold)
    said = ", ".join(f"{vote.name} {_('yes') if vote.choice in YES else _('no')}" for vote in latest)
    words = _("%(n)d of %(all)d have decided") % {"n": len(latest), "all": of}
    return f"{words}{f': {said}' if said else ''}. {_needs(threshold)}"


def _needs(threshold: str) -> str:
    name, _sep, number = threshold.partition(":")
    words = {
        "all_approve": _("All of them have to say yes."),
        "any_reject": _("All of them have to say yes; the first no is enough for a no."),
        "majority_approve": _("More than half of them have to say yes."),
        "n_approve": _("%(n)s of them have to say yes.") % {"n": number},
    }
    return words.get(name, "")
