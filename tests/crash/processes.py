"""Real processes of the product on the test's database: started, watched, killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection
from psycopg.conninfo import make_conninfo

from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent


def database_url() -> str:
    """The test's database, as DATABASE_URL takes it."""
    place = connection.settings_dict
    parts = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    return make_conninfo("", **{name: place[key] for name, key in parts.items() if place[key]})


class Started:
    """One `manage.py` process; what it prints goes to a file."""

    def __init__(self, log: Path, *words: str, **env: str) -> None:
        self.log = log
        self._file = log.open("w")
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), *words],
            env={**os.environ, "DATABASE_URL": database_url(), "WORKER_APPS": "tests.crash", "POLL_MS": "200", **env},
            cwd=ROOT,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def said(self) -> str:
        return self.log.read_text()

    def until_ready(self) -> Started:
        until(lambda: "is ready" in self.said or self.process.poll() is not None, 60, "ready")
        assert self.process.poll() is None, self.said
        return self

    def ends(self, seconds: float = 60) -> int:
        """Wait for the process's end; its exit code."""
        return self.process.wait(seconds)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self._file.close()


@contextmanager
def several() -> Iterator[list[Started]]:
    """What is appended is ended with the block."""
    made: list[Started] = []
    try:
        yield made
    finally:
        for one in made:
            one.close()
