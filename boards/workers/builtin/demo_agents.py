"""The two agents of the demo space: they take their time, say what they do, and hand in what their input holds.

They reach nothing outside and understand nothing. A task without a script of theirs is outlined, and the outline says
whose it is; words that people sent along are quoted in what is handed in. Each piece of work is a recorded step, so
that a restart in the middle repeats none of it.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from boards.workers.protocol import Answer, EndsForGood, WorkerTask, worker

PACE_S: Final = 2.0
MOST_PARTS: Final = 5
WHO_I_AM: Final = (
    "This was handed in by the demo's scripted agent. It understands nothing and reaches nothing outside: "
    "it only repeats what it was asked. Put a worker of your own in its place for real work."
)


@worker("demo.reader")
async def read(task: WorkerTask) -> dict[str, Any]:
    """Looks things over one by one. Input: `pages` (names), `pace_s`, `remarks` (page -> what was found)."""
    pages, remarks = task.input.get("pages"), task.input.get("remarks") or {}
    if not pages:
        return await _outline(task)
    for number, page in enumerate(pages, 1):
        await task.step(f"read {page}", lambda: _take_time(task))
        await task.log(f"{page}: {remarks.get(page, 'nothing to remark')}")
        await task.report_progress({"done": number, "total": len(pages)}, note=f"read {page}")
    found = {"read": len(pages), "remarks": [f"{page}: {remarks[page]}" for page in pages if page in remarks]}
    words = await _told(task)
    return found | {"was told": words} if words else found


@worker("demo.writer")
async def write(task: WorkerTask) -> dict[str, Any]:
    """Writes section by section. Input: `sections` ({head, text}), `pace_s`, `ask` (a question to answer first).

    `text` in the input is what it has handed in before: markdown that a revision keeps.
    """
    sections, text = task.input.get("sections") or [], task.input.get("text") or ""
    if not sections and not text:
        return await _outline(task)
    headline, answer = await _ask_first(task, task.input["ask"]) if task.input.get("ask") else ("", "")
    written = [part for part in (f"# {headline}" if headline else "", text) if part]
    if text:
        await task.step("read what was written", lambda: _take_time(task))
    for number, section in enumerate(sections, 1):
        await task.step(f"write {section['head']}", lambda: _take_time(task))
        written.append(f"## {section['head']}\n\n{section['text']}")
        await task.log(f"Wrote “{section['head']}”.")
        await task.report_progress({"done": number, "total": len(sections)}, note=f"wrote “{section['head']}”")
    words = [answer] if answer else []
    return {"markdown": "\n\n".join([*written, *_reply([*words, *await _told(task)])])}


async def _outline(task: WorkerTask) -> dict[str, Any]:
    """What becomes of a task that it has no script for: its goal in a few parts, and who says so."""
    split = (part.strip(" #>*-\t") for part in re.split(r"(?<=[.!?;])\s+|\n+", task.goal))
    parts = [part for part in split if part][:MOST_PARTS] or [task.goal]
    steps = ["read the goal", *(f"outline part {number}" for number in range(1, len(parts) + 1)), "read it once more"]
    for number, name in enumerate(steps, 1):
        await task.step(name, lambda: _take_time(task))
        await task.log(f"{number} of {len(steps)}: {name}.")
        await task.report_progress({"done": number, "total": len(steps)}, note=name)
    outline = "\n".join(f"{number}. {part}" for number, part in enumerate(parts, 1))
    asked = [f"# {task.title or parts[0]}", WHO_I_AM, "## What it was asked", _quoted(task.goal)]
    context = ["## In this context", _quoted(task.context)] if task.context else []
    return {"markdown": "\n\n".join([*asked, *context, "## Outline", outline, *_reply(await _told(task))])}


async def _ask_first(task: WorkerTask, ask: dict[str, Any]) -> tuple[str, str]:
    """The headline that a person chose, or wrote where they chose none, and the words that came with a choice."""
    answer = await task.suspend_for_user(
        kind="question",
        key="first",
        title=ask["title"],
        prompt=ask["prompt"],
        options=ask["options"],
        context=ask.get("context", ""),
    )
    if answer.cancelled:
        raise EndsForGood(task.id, "The question was dismissed, so there is nothing to write.", ending="cancelled")
    return _headline(answer, {option["value"]: option["label"] for option in ask["options"]})


def _headline(answer: Answer, labels: dict[str, str]) -> tuple[str, str]:
    if answer.choice:
        return labels.get(answer.choice, answer.choice), answer.text
    return answer.text, ""


async def _told(task: WorkerTask) -> list[str]:
    """What people said about this attempt: why it was sent back, and the messages sent since."""
    return [words for words in (task.feedback, *task.steers, *await task.messages()) if words.strip()]


def _reply(words: list[str]) -> list[str]:
    """The section that answers people's words, or nothing where there are none."""
    if not words:
        return []
    said = "The demo's scripted agent cannot act on words. It keeps them here, so that they are not lost:"
    return ["## What it was told", said, *map(_quoted, words)]


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())


async def _take_time(task: WorkerTask) -> bool:
    await asyncio.sleep(float(task.input.get("pace_s", PACE_S)))
    return True
