"""The two agents of the demo space: they take their time, say what they do, and hand in what their input holds.

They reach nothing outside. Each piece of work is a recorded step, so that a restart in the middle repeats none of it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from boards.workers.protocol import EndsForGood, WorkerTask, worker

PACE_S = 2.0


@worker("demo.reader")
async def read(task: WorkerTask) -> dict[str, Any]:
    """Looks things over one by one. Input: `pages` (names), `pace_s`, `remarks` (page -> what was found)."""
    pages, remarks = task.input.get("pages") or ["the whole text"], task.input.get("remarks") or {}
    for number, page in enumerate(pages, 1):
        await task.step(f"read {page}", lambda: _take_time(task))
        await task.log(f"{page}: {remarks.get(page, 'nothing to remark')}")
        await task.report_progress({"done": number, "total": len(pages)}, note=f"read {page}")
    return {"read": len(pages), "remarks": [f"{page}: {remarks[page]}" for page in pages if page in remarks]}


@worker("demo.writer")
async def write(task: WorkerTask) -> dict[str, Any]:
    """Writes section by section. Input: `sections` ({head, text}), `pace_s`, `ask` (a question to answer first)."""
    chosen = await _ask_first(task, task.input["ask"]) if task.input.get("ask") else ""
    sections = task.input.get("sections") or []
    written = [f"# {chosen}"] if chosen else []
    for number, section in enumerate(sections, 1):
        await task.step(f"write {section['head']}", lambda: _take_time(task))
        written.append(f"## {section['head']}\n\n{section['text']}")
        await task.log(f"Wrote “{section['head']}”.")
        await task.report_progress({"done": number, "total": len(sections)}, note=f"wrote “{section['head']}”")
    return {"markdown": "\n\n".join(written)}


async def _ask_first(task: WorkerTask, ask: dict[str, Any]) -> str:
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
    labels = {option["value"]: option["label"] for option in ask["options"]}
    return answer.text or labels.get(answer.choice, answer.choice)


async def _take_time(task: WorkerTask) -> bool:
    await asyncio.sleep(float(task.input.get("pace_s", PACE_S)))
    return True
