"""The Python workers of the flow `release-notes`: group commits, draft the notes, publish the approved draft.

Deterministic writers, no model: what they do is what stands here. They read the task's input and write nothing but the
published file, in the data folder (spec: 05 section 6, `release-notes`).
"""

from __future__ import annotations

import os
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from boards.workers.builtin.review_words import Wishes, read_wishes
from boards.workers.protocol import SyncWorkerTask, worker

Commit = Mapping[str, Any]

GROUPS: Final = ("Features", "Fixes", "Documentation", "Performance", "Other")
_GROUP_OF_TYPE: Final = {"feat": "Features", "fix": "Fixes", "docs": "Documentation", "perf": "Performance"}
_CONVENTIONAL: Final = re.compile(
    r"(?P<type>feat|feature|fix|bugfix|hotfix|docs?|perf|refactor|tests?|build|ci|chore|style|revert)"
    r"(?:\((?P<scope>[^()]{1,60})\))?(?P<breaking>!)?:\s*(?P<rest>\S.*)",
    re.IGNORECASE,
)
_SAME_TYPE: Final = {"feature": "feat", "bugfix": "fix", "hotfix": "fix", "doc": "docs", "tests": "test"}
_BREAKING_FOOTER: Final = re.compile(r"^BREAKING[ -]CHANGE:", re.MULTILINE)
# The first word of a subject without a prefix, and what it says of the commit.
_FIRST_WORDS: Final = {
    **dict.fromkeys(("add", "adds", "added", "support", "allow", "introduce", "implement", "show", "offer"), "feat"),
    **dict.fromkeys(("fix", "fixes", "fixed", "correct", "repair", "prevent", "avoid", "handle", "restore"), "fix"),
    **dict.fromkeys(("document", "documents", "docs", "explain", "describe", "readme", "clarify"), "docs"),
    **dict.fromkeys(("speed", "optimise", "optimize", "cache", "faster"), "perf"),
    **dict.fromkeys(("bump", "upgrade", "pin", "lint", "format", "merge", "release", "prepare"), "chore"),
    **dict.fromkeys(("refactor", "rename", "move", "simplify", "extract", "remove", "drop", "clean"), "refactor"),
    **dict.fromkeys(("test", "tests"), "test"),
}
SHORT_LIMIT: Final = 5
_FOLDER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


@worker("release_notes.group")
def group(task: SyncWorkerTask) -> dict[str, Any]:
    """{"from", "to", "total", "groups": [{"title", "items": [...]}], "contributors": [names]}, no empty groups."""
    collected = _output(task, "collect")
    commits = collected.get("commits") or []
    groups: dict[str, list[dict[str, Any]]] = {title: [] for title in GROUPS}
    for done, commit in enumerate(commits, 1):
        item = sorted_commit(commit)
        groups[_GROUP_OF_TYPE.get(item["type"], "Other")].append(item)
        if done % 100 == 0 or done == len(commits):
            task.report_progress({"done": done, "of": len(commits)}, note=f"{done} of {len(commits)} commits sorted")
    return {
        "from": collected.get("from", ""),
        "to": collected.get("to", ""),
        "total": len(commits),
        "groups": [{"title": title, "items": items} for title, items in groups.items() if items],
        "contributors": _contributors(commits),
    }


@worker("release_notes.draft")
def draft(task: SyncWorkerTask) -> dict[str, Any]:
    """{"title", "markdown", "honoured": [what the reviewers asked for and got]}."""
    words = reviewers_words(task.input, task.feedback)
    wishes = read_wishes(words)
    inputs = task.input.get("inputs") or {}
    run = task.input.get("run") or {}
    title = wishes.title or str(inputs.get("title") or "") or str(run.get("name") or "Release notes")
    grouped = _output(task, "group")
    if words:
        task.log(f"Reading what was asked: {' / '.join(words)}")
    return {"title": title, "markdown": markdown(title, grouped, wishes), "honoured": list(wishes.honoured)}


@worker("release_notes.publish")
def publish(task: SyncWorkerTask) -> dict[str, Any]:
    """{"file": path below the published folder, "bytes": size}. Publishing again writes the same file again."""
    from django.conf import settings  # workers load without Django; the data folder is known once it runs

    approval = ((task.input.get("steps") or {}).get("approve") or {}).get("output") or {}
    if approval.get("approved") is not True or not approval.get("draft"):
        raise ValueError("The draft was not approved, so nothing is published.")
    # What goes out is the text that was approved, also where a later draft exists by now.
    text, title = str(approval["draft"]), str(_output(task, "draft").get("title", ""))
    run = task.input.get("run") or {}
    path = write_notes(Path(settings.DATA_DIR) / "published", run, title, text)
    size = (Path(settings.DATA_DIR) / "published" / path).stat().st_size
    task.report_progress({"file": path}, note=f"Wrote {path}")
    return {"file": path, "bytes": size}


def sorted_commit(commit: Commit) -> dict[str, Any]:
    """{"sha", "subject", "author", "type", "scope", "breaking"} of one commit, its prefix taken off the subject."""
    subject = str(commit.get("subject", "")).strip()
    found = _CONVENTIONAL.fullmatch(subject)
    kind = found["type"].lower() if found else _kind_by_first_word(subject)
    broken = bool(found and found["breaking"]) or bool(_BREAKING_FOOTER.search(str(commit.get("body", ""))))
    return {
        "sha": str(commit.get("sha", ""))[:7],
        "subject": _sentence(found["rest"] if found else subject),
        "author": str(commit.get("author", "")),
        "type": _SAME_TYPE.get(kind, kind),
        "scope": (found["scope"] or "") if found else "",
        "breaking": broken,
    }


def reviewers_words(given: Mapping[str, Any], feedback: str = "") -> list[str]:
    """What was said with each rejection, oldest first, and what the next attempt was told."""
    told = (given.get("steps") or {}).get("approve") or {}
    answers = [*(told.get("earlier") or []), told.get("output")]
    words = [str(a.get("note") or "") for a in answers if isinstance(a, dict) and not a.get("approved")]
    return [said.strip() for said in dict.fromkeys([*words, feedback]) if said.strip()]


def markdown(title: str, grouped: Mapping[str, Any], wishes: Wishes, today: str = "") -> str:
    """The notes as markdown: heading, range and counts, what was asked and not understood, groups, contributors."""
    groups = list(_shown_groups(grouped.get("groups") or [], wishes))
    parts = [f"# {_inline(title)}", _summary(grouped, groups, today)]
    parts += [f"> **Editor's note.** {_inline(said)}" for said in wishes.unmet]
    parts += [_section(each["title"], each["items"], wishes) for each in groups]
    names = grouped.get("contributors") or []
    if names and not wishes.drops("contributors"):
        parts.append("## Contributors\n\n" + ", ".join(_inline(name) for name in names) + ".")
    return "\n\n".join(part for part in parts if part) + "\n"


def write_notes(root: Path, run: Mapping[str, Any], title: str, text: str) -> str:
    """Write `text` below `root`, whole or not at all; answers its path there: `space/flow/number/slug.md`."""
    space, key, number = str(run.get("space", "")), str(run.get("flow", "")), int(run.get("number", 0))
    if not _FOLDER.fullmatch(space) or not _FOLDER.fullmatch(key) or number < 1:
        raise ValueError("This run has no space, key and number that could name a folder.")
    folder = root / space / key / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    if root.resolve() not in folder.resolve().parents:
        raise ValueError(f"{folder} leads out of the folder of published files.")
    path = folder / f"{slug(title)}.md"
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".writing-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path.relative_to(root).as_posix()


def slug(title: str) -> str:
    """A file name out of any title: lower-case ASCII letters, digits and dashes, at most 80."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:80].strip("-") or "release-notes"


def _output(task: SyncWorkerTask, step: str) -> dict[str, Any]:
    told = ((task.input.get("steps") or {}).get(step) or {}).get("output")
    if not told:
        raise ValueError(f'This step needs the output of the step "{step}", and there is none.')
    return dict(told)


def _kind_by_first_word(subject: str) -> str:
    word = re.match(r"[A-Za-z]+", subject)
    return _FIRST_WORDS.get(word[0].lower(), "other") if word else "other"


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    return text[:1].upper() + text[1:]


def _contributors(commits: Iterable[Commit]) -> list[str]:
    """Names by their number of commits, then by alphabet."""
    counts: dict[str, int] = {}
    for commit in commits:
        if name := str(commit.get("author", "")).strip():
            counts[name] = counts.get(name, 0) + 1
    return sorted(counts, key=lambda name: (-counts[name], name.lower()))


def _shown_groups(groups: Iterable[Mapping[str, Any]], wishes: Wishes) -> Iterable[dict[str, Any]]:
    """The groups that are shown, what breaks something in one of its own before them."""
    kept = list(_kept(groups, wishes))
    if wishes.drops("breaking"):
        yield from kept
        return
    broken = [item for each in kept for item in each["items"] if item.get("breaking")]
    if broken:
        yield {"title": "Breaking changes", "items": broken}
    for each in kept:
        if others := [item for item in each["items"] if not item.get("breaking")]:
            yield {"title": each["title"], "items": others}


def _kept(groups: Iterable[Mapping[str, Any]], wishes: Wishes) -> Iterable[dict[str, Any]]:
    for each in groups:
        items = [item for item in each["items"] if not wishes.drops(item.get("type", "other"))]
        if items and not (each["title"] == "Other" and (wishes.short or wishes.drops("other"))):
            yield {"title": each["title"], "items": items}


def _summary(grouped: Mapping[str, Any], groups: list[dict[str, Any]], today: str) -> str:
    day = today or datetime.now().astimezone().strftime("%-d %B %Y")
    total = int(grouped.get("total") or 0)
    counts = ", ".join(f"{len(each['items'])} in {each['title']}" for each in groups) or "none of them listed here"
    changes = "1 commit" if total == 1 else f"{total:,} commits"
    return f"{day}. {changes} from `{_code(grouped.get('from'))}` to `{_code(grouped.get('to'))}`: {counts}."


def _section(title: str, items: list[dict[str, Any]], wishes: Wishes) -> str:
    shown = items[:SHORT_LIMIT] if wishes.short else items
    lines = [_bullet(item, wishes) for item in shown]
    if len(shown) < len(items):
        lines.append(f"- and {len(items) - len(shown)} more")
    return f"## {title}\n\n" + "\n".join(lines)


def _bullet(item: Mapping[str, Any], wishes: Wishes) -> str:
    scope = f"**{_inline(item['scope'])}:** " if item.get("scope") else ""
    sha = "" if wishes.drops("hashes") else f" (`{_code(item.get('sha'))}`)"
    return f"- {scope}{_inline(item.get('subject'))}{sha}"


def _escape(pattern: str) -> Callable[[object], str]:
    special = re.compile(pattern)

    def escape(text: object) -> str:
        return special.sub(r"\\\g<0>", " ".join(str(text or "").split()))

    return escape


# A commit's words are text: none of them becomes a heading, a link or HTML in the notes.
_inline = _escape(r"[\\`*_\[\]<>#|~]")


def _code(text: object) -> str:
    return str(text or "").replace("`", "'")
