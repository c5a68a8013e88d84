"""What an approval, a review or a gate shows: the draft itself, never a link to it (spec: 04 sections 1 and 3.1).

Pure. Text becomes markup only in `boards.markup`, called by the template; differences are split into lines here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from boards.queries.task_output import MAX_TEXT, DiffLine, Shown, pretty, shown

# The texts that a draft may carry, in the order in which one is taken for the thing itself.
_BODIES: Final = ("markdown", "diff", "body", "draft", "text", "notes", "content")
_TITLES: Final = ("title", "subject", "heading")
_HUNK: Final = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)")


@dataclass(frozen=True, slots=True)
class DraftView:
    """`body` for everything but a difference, whose lines are in `diff`; `rest`: the other fields as JSON, or ""."""

    title: str
    body: Shown | None
    diff: tuple[DiffLine, ...]
    rest: str
    size: int
    hash: str

    @property
    def short_hash(self) -> str:
        return self.hash[:6]


def draft_view(draft: Any, draft_hash: str = "") -> DraftView:
    """Any JSON value that a worker or a step drafted, ready for its template."""
    title, value, rest = _parts(draft)
    text = value if isinstance(value, str) else ""
    size = len(text) if text else len(pretty(value))
    if text and is_diff(text):
        return DraftView(title, None, tuple(diff_lines(text)), rest, size, draft_hash)
    return DraftView(title, shown(value), (), rest, size, draft_hash)


def is_diff(text: str) -> bool:
    """Whether a text is a unified difference."""
    return text.startswith("diff --git ") or bool(re.match(r"--- .*\n\+\+\+ .*\n@@ ", text)) or bool(_HUNK.match(text))


def diff_lines(text: str) -> list[DiffLine]:
    """The lines of a unified difference, numbered as in the new file (removed ones as in the old)."""
    lines: list[DiffLine] = []
    old = new = 0
    for line in text[:MAX_TEXT].splitlines():
        if hunk := _HUNK.match(line):
            old, new = int(hunk[1]), int(hunk[2])
            lines.append(DiffLine(0, "gap", line))
        elif not (old or new) or line.startswith(("diff --git ", "index ", "--- ", "+++ ")):
            lines.append(DiffLine(0, "gap", line))
        elif line.startswith("-"):
            lines.append(DiffLine(old, "del", line[1:]))
            old += 1
        else:
            lines.append(DiffLine(new, "add" if line.startswith("+") else "", line[1:]))
            new += 1
            old += not line.startswith("+")
    return lines


def _parts(draft: Any) -> tuple[str, Any, str]:
    """Title, the thing itself, and what else there is."""
    if not isinstance(draft, dict):
        return "", draft, ""
    body = next((name for name in _BODIES if isinstance(draft.get(name), str) and draft[name].strip()), "")
    if not body:
        return "", draft, ""
    title = next((name for name in _TITLES if isinstance(draft.get(name), str) and draft[name].strip()), "")
    rest = {name: value for name, value in draft.items() if name not in {body, title}}
    return draft[title] if title else "", draft[body], pretty(rest) if rest else ""
