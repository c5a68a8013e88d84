"""What the rows say that only want to be read, and which acts they carry (spec: 04 section 3; 05, `notify`). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from boards.markup import plain
from boards.queries.cards import task_dom_id
from boards.queries.waiting_row import Row, RowAct
from boards.queries.waiting_words import name_of

TITLE: Final = 160
# Signs of markdown that a title leaves out: at the beginning of its line, around words, under a heading.
_BEGINS: Final = re.compile(r"^(?:[#>]+|[-*+]|\d+[.)])\s+")
_AROUND: Final = re.compile(r"\*\*|__|~~|`")
_UNDER: Final = re.compile(r"=+|-+")
# A first line with more to it than words: the text is then shown whole.
_LINK: Final = re.compile(r"!?\[([^\[\]]*)\]\((?:[^()]|\([^()]*\))*\)")
_BLOCK: Final = ("```", "~~~", "|")


def told_row(it: Mapping[str, Any]) -> Row:
    """What a flow told: the first line is the row's title, and what that does not say stands below."""
    title, says = titled(plain(str(it["data"].get("text", ""))))
    flow = it["run__flow__name"]
    return Row(
        key=f"told-{it['pk']}",
        rev=0,
        group="told",
        title=title or flow,
        words=_("Told by %(flow)s") % {"flow": flow},
        who="",
        by_person=False,
        since=it["at"],
        mine=True,
        blocks=False,
        board_id=it["board_id"],
        board_slug=it["board__slug"],
        board_name=it["board__name"],
        subject=it["run__name"],
        says=says,
        flow_key=it["run__flow__key"],
        run_id=it["run_id"],
        run_number=it["run__number"],
        version_id=it["run__version_id"],
        step_key=str(it["data"].get("step", "")),
        acts=(RowAct("seen", _("Mark as seen"), "seen"), RowAct("", _("Open the run"), "open", True)),
    )


def titled(text: str) -> tuple[str, str]:
    """A title of plain words for a markdown text, and the markdown of what it leaves out; each may be ""."""
    first, _newline, rest = text.strip().partition("\n")
    rest = rest.strip("\n")
    if first.startswith(_BLOCK):
        return "", text.strip()
    words = _AROUND.sub("", _LINK.sub(r"\1", _BEGINS.sub("", first))).strip()
    title = words if len(words) <= TITLE else f"{words[: TITLE - 1]}…"
    if title != words or _LINK.search(first) or "://" in first:
        return title, text.strip()
    under, _newline, below = rest.partition("\n")
    return title, (below if _UNDER.fullmatch(under.strip()) else rest).strip()


def read_task_row(it: Mapping[str, Any]) -> Row:
    """A task whose step's due time passed, or one whose worker says nothing."""
    withdrawn = it["arm"] == "withdrawn"
    seen = RowAct("seen", _("Mark as seen"), "seen", True)
    acts: tuple[RowAct, ...] = (RowAct("", _("File it again…"), "again"), seen)
    if not withdrawn:
        acts = (RowAct("", _("Watch, or cancel…"), "open"),)
    return Row(
        key=f"{it['arm']}-{it['pk'] if withdrawn else task_dom_id(it['board_id'], it['public_id'], it['partition'])}",
        rev=it["revision"],
        group="late" if withdrawn else "silent",
        title=name_of(it["title"], it["short_goal"]),
        words=_("The due time passed; it was withdrawn") if withdrawn else _("No output for 5 minutes"),
        who=it["assignee"],
        by_person=False,
        since=(it["completed_at"] if withdrawn else None) or it["updated_at"],
        mine=it["mine"],
        blocks=False,
        board_id=it["board_id"],
        board_slug=it["board__slug"],
        board_name=it["board__name"],
        subject=it["run_name"] or "",
        priority=it["priority"],
        task_id=it["public_id"],
        flow_key=it["flow_key"] or "",
        run_number=it["run_number"] or 0,
        version_id=it["run_version"] or 0,
        step_key=it["visit__step_key"] or "",
        acts=acts if it["mine"] else (RowAct("", "", "open"),),
    )
