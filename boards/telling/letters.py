"""What a message says: its subject and a line for each thing that waits, in words of the list (spec: 04 section 4).

Titles are other people's text (spec: 08 section 4): one line, without signs that would steer a header, a terminal or
the direction of the line, cut to a length. HTML is escaped by its template, Slack's own signs here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from boards.markup import plain
from boards.models import Preference
from boards.queries.waiting_row import GROUPS, Row
from boards.telling.times import zone_of

MOST: Final = 20  # lines of one message; how many more there are is said
TITLE: Final = 160
SAYS: Final = 2_000
# Controls, and what turns a line around or hides in it.
_UNSEEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that waits. `then`: what happens when nobody does anything, as a sentence, or "".

    `says`: more of what a flow told, in lines of its own; markdown stays as it was written.
    """

    title: str
    kind: str
    about: str
    then: str
    url: str
    says: str = ""


@dataclass(frozen=True, slots=True)
class Letter:
    """`id` is the same for the same things told to the same member, so a receiver can know a copy."""

    id: str
    subject: str
    lines: tuple[Line, ...]
    all_url: str
    settings_url: str
    more: int = 0

    @property
    def text(self) -> str:
        return render_to_string("told/mail.txt", {"letter": self})

    @property
    def html(self) -> str:
        return render_to_string("told/mail.html", {"letter": self})

    @property
    def slack(self) -> str:
        """Slack's own markup, which Mattermost and others read as well."""
        parts = [f"*{for_slack(self.subject)}*"] if len(self.lines) > 1 else []
        for line in self.lines:
            words = " · ".join(for_slack(part) for part in (line.kind, line.about, line.then) if part)
            says = f"\n{for_slack(line.says)}" if line.says else ""
            parts.append(f"<{line.url}|{for_slack(line.title)}>{says}\n{words}")
        if self.more:
            parts.append(f"<{self.all_url}|{for_slack(self.more_words)}>")
        return "\n\n".join(parts)

    @property
    def more_words(self) -> str:
        return ngettext("and %(n)d more", "and %(n)d more", self.more) % {"n": self.more}


def letter(ident: str, told: Preference, rows: Sequence[tuple[Row, str]], site: str, paths: dict[str, str]) -> Letter:
    """The message about these rows, each with the path of its link; `paths`: of the list and of the settings."""
    lines = tuple(_line(row, site + path, told) for row, path in rows[:MOST])
    space = one_line(told.member.space.name, 60)
    if len(rows) == 1:
        subject = f"{lines[0].kind}: {lines[0].title}"
    else:
        count = ngettext("%(n)d thing waits on you", "%(n)d things wait on you", len(rows)) % {"n": len(rows)}
        subject = f"{count} · {space}"
    return Letter(ident, subject, lines, site + paths["all"], site + paths["settings"], max(len(rows) - MOST, 0))


def sample(ident: str, told: Preference, site: str, paths: dict[str, str]) -> Letter:
    """What the button "send me a test" sends."""
    then = _("Nothing waits; you asked for this message to see whether it arrives.")
    line = Line(_("This is a test"), _("Test"), one_line(told.member.space.name, 60), then, site + paths["all"])
    return Letter(ident, _("A test from Orchestra"), (line,), site + paths["all"], site + paths["settings"])


def one_line(text: str, limit: int = TITLE) -> str:
    """Any text as one line of that length at most; never empty."""
    words = " ".join(_UNSEEN.sub(" ", plain(text, 4 * limit)).split())
    return (words if len(words) <= limit else f"{words[: limit - 1]}…") or "…"


def in_lines(text: str, limit: int = SAYS) -> str:
    """Any text in lines of its own, each without what steers a header, a terminal or its direction."""
    lines = (_UNSEEN.sub(" ", line).rstrip() for line in plain(text).splitlines())
    words = re.sub("\n{3,}", "\n\n", "\n".join(lines)).strip()
    return words if len(words) <= limit else f"{words[: limit - 1]}…"


def for_slack(text: str) -> str:
    """Without links, mentions or markup of its own: what stands in it stays words."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return safe.replace("|", "¦").replace("@", "@\u200b")


def _line(row: Row, url: str, told: Preference) -> Line:
    kind = next((str(group.label) for group in GROUPS if group.value == row.group), row.group)
    about = [row.words or kind, row.subject if row.subject != row.title else "", row.board_name]
    who = [_("from %(who)s") % {"who": row.who}] if row.who else []
    return Line(
        title=one_line(row.title),
        kind=one_line(_SINGULAR.get(row.group, kind)),
        about=" · ".join(one_line(part, 100) for part in [*about, *who] if part),
        then=_silence(row, told),
        url=url,
        says=in_lines(row.says),
    )


_SINGULAR: Final = {
    "gate": "Gate",
    "approval": "Approval",
    "question": "Question",
    "input": "Input",
    "check": "Check",
    "assigned": "Assigned to you",
    "stuck": "Stuck",
    "flow": "Flow step",
    "lost": "Lost worker",
    "told": "Told by a flow",
    "debt": "Not settled",
}


def _silence(row: Row, told: Preference) -> str:
    """What happens when nobody answers, with the time on the member's own clock."""
    it = row.silence
    if not it.then:
        return _("Due %(when)s.") % {"when": _clock(it.at, told)} if it.at else ""
    if it.at is None:
        return one_line(it.then, 300)
    then = {"when": _clock(it.at, told), "then": one_line(it.then, 300)}
    return _("If nobody answers by %(when)s, %(then)s") % then


def _clock(moment: datetime, told: Preference) -> str:
    here = moment.astimezone(zone_of(told.zone))
    return f"{here:%a} {here.day} {here:%b %H:%M} ({told.zone})"
