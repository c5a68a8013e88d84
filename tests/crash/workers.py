"""Workers of the processes that the crash tests start (`WORKER_APPS=tests.crash`)."""

from __future__ import annotations

import asyncio
import threading

from boards.workers.protocol import SyncWorkerTask, WorkerTask, worker


@worker("writer")
async def hangs_at_first(task: WorkerTask) -> dict[str, int]:
    """The first attempt never ends by itself."""
    await task.step("begun", lambda: True)
    await task.log("begun")
    if task.attempt == 1:
        await asyncio.sleep(3600)
    return {"attempt": task.attempt}


@worker("reader")
def counts(task: SyncWorkerTask) -> int:
    """Counts with a note for each number; `input.n` says how far."""
    pause = threading.Event()
    for n in range(task.input["n"]):
        task.report_progress(note=f"{n}")
        pause.wait(0.05)
    return task.input["n"]


@worker("deaf")
def never_listens(task: SyncWorkerTask) -> None:
    task.log("begun")
    threading.Event().wait(3600)
