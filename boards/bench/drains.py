"""Real drain processes for a measurement: started, awaited until they serve, ended by SIGTERM."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

from django.conf import settings

from boards.bench.desk import SLOTS
from boards.bench.places import Place
from boards.bench.workers import ADDRESS
from boards.models import Process

PATIENCE_S = 60.0


@contextlib.contextmanager
def running(place: Place, count: int, *, tell: str = "") -> Iterator[None]:
    """`count` drains over all boards of the place's database, which Django uses already. `tell`: a socket's path."""
    env = os.environ | {
        "DATABASE_URL": place.address,
        "DATABASE_DIRECT_URL": "",
        "KEEP_SECRET_KEY": "1",
        "SECRET_KEY": settings.SECRET_KEY,
        "WORKER_APPS": "boards.bench",
        "LOG_LEVEL": "WARNING",
        ADDRESS: tell,
    }
    words = [sys.executable, str(settings.BASE_DIR / "manage.py"), "drain", "--concurrency", str(SLOTS)]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            started.append(subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL))
        _await(started)
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            _leave(process)


def _await(started: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    pids = [process.pid for process in started]
    while Process.objects.filter(pid__in=pids, kind=Process.Kind.DRAIN).count() < len(pids):
        if time.monotonic() > deadline or any(process.poll() is not None for process in started):
            raise RuntimeError("A drain did not come up; what it said stands above.")
        time.sleep(0.05)


def _leave(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
