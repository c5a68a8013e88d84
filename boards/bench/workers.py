"""Workers that do nothing, for measurements. The drains of a bench know them by `WORKER_APPS=boards.bench`."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from boards.workers.protocol import SyncWorkerTask, WorkerTask, worker

NOTHING, TELLS = "bench.nothing", "bench.tells"
ADDRESS = "BENCH_SOCKET"  # where `bench.tells` reports its first line


@worker(NOTHING)
async def nothing(task: WorkerTask) -> dict[str, Any]:
    return {}


@worker(TELLS)
def tells(task: SyncWorkerTask) -> dict[str, Any]:
    """Say when the first line ran; the clock is one for all processes of a machine."""
    now = time.monotonic_ns()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as said:
        said.sendto(str(now).encode(), os.environ[ADDRESS])
    return {}
