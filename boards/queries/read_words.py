"""What the rows say that only want to be read, and which acts they carry (spec: 04 section 3). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from boards.queries.cards import task_dom_id
from boards.queries.waiting_row import Row, RowAct
from boards.queries.waiting_words import name_of


def read_task_row(it: Mapping[str, Any]) -> Row:
    """A task whose step's due time passed, or one whose worker says nothing."""
    withdrawn = it["arm"] == "withdrawn"
    seen = RowAct("seen", _("Mark as seen"), "seen", True)
    acts: tuple[RowAct, ...] = (RowAct("", _("File again with changes"), "again"), seen)
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
