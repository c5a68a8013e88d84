"""Runs `manage.py up` as a person would, in a data folder of its own, and looks at it from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import psycopg

from orchestra import embedded
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300  # a first start is work for the processors, and others may want the two that there are
OURS = ("DATA_DIR", "DATABASE_URL", "SECRET_KEY", "INSECURE_HTTP", "TEST_DATABASE_NAME", "DJANGO_SETTINGS_MODULE")
ENV = {name: value for name, value in os.environ.items() if name not in OURS}


def manage(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command, *rest = words
    call = [sys.executable, str(ROOT / "manage.py"), command, *rest, "--data-dir", str(data)]
    return subprocess.run(call, env=ENV, capture_output=True, text=True, timeout=PATIENCE_S)


def file_work(data: Path, tasks: int) -> None:
    """Tasks for the demo's reader, of about ten seconds each."""
    code = f"""
from boards import actors, tasks
from boards.models import Board, Member
board = Board.objects.get(slug="release-desk")
chain = actors.person(Member.objects.select_related("user", "space").get(user__username="operator"))
work = {{"pages": ["one", "two", "three", "four", "five"], "pace_s": 2}}
for number in range({tasks}):
    tasks.file_task(chain, board, goal=f"Read shelf {{number}}", assignee="reader", input=work)
"""
    call = [sys.executable, str(ROOT / "manage.py"), "shell", "-v", "0", "-c", code]
    subprocess.run(call, env=ENV | {"DATA_DIR": str(data)}, check=True, timeout=PATIENCE_S, capture_output=True)


def remove(data: Path) -> None:
    """The folder, and what root keeps elsewhere for it."""
    shutil.rmtree(embedded.home(data), ignore_errors=True)
    shutil.rmtree(data, ignore_errors=True)


class Up:
    """One `up`. `lines` grows as it prints; `url` and `link` are what it printed."""

    def __init__(self, data: Path, *words: str) -> None:
        self.data = data
        call = [sys.executable, str(ROOT / "manage.py"), "up", "--port", "0", "--data-dir", str(data), *words]
        self.process = psutil.Popen(
            call, env=ENV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def says(self, pattern: str, times: int = 1) -> re.Match[str]:
        """Wait until so many lines match; answers the last match."""

        def found() -> re.Match[str] | None:
            matches = [match for line in list(self.lines) if (match := re.search(pattern, line))]
            if len(matches) < times and self.process.poll() is not None:
                raise AssertionError("\n".join(["up has ended:", *self.lines]))
            return matches[-1] if len(matches) >= times else None

        return until(found, PATIENCE_S, f"a line like {pattern}; it said:\n" + "\n".join(self.lines))

    @property
    def url(self) -> str:
        return self.says(r"Orchestra is at (http://\S+)/$")[1]

    @property
    def link(self) -> str:
        return self.says(r"Sign in .*: (http://\S+/sign-in/\S+/)$")[1]

    def get(self, path: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def is_ready(self) -> None:
        until(lambda: self.get("/readyz")[0] == 200, PATIENCE_S, "200 from /readyz")

    def child(self, name: str) -> psutil.Process:
        """The process of `web`, `drain` or `sweeper` that runs now."""
        word = {"web": "daphne"}.get(name, name)
        return until(lambda: next((p for p in self.process.children() if word in p.cmdline()), None), PATIENCE_S)

    def everybody(self) -> list[psutil.Process]:
        """All that it started, and the database's server, which has left the tree."""
        mark = f"orchestra-{embedded._hash(embedded.home(self.data))}"
        servers = [p for p in psutil.process_iter(["cmdline"]) if mark in " ".join(p.info["cmdline"] or [])]
        with contextlib.suppress(psutil.NoSuchProcess):
            return [*self.process.children(recursive=True), *servers]
        return servers

    def ends(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal and wait for its end; answers the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def rows(self, query: str) -> list[Any]:
        at = embedded.address(self.data)
        where = {"host": at["HOST"], "port": at["PORT"], "user": at["USER"], "dbname": at["NAME"]}
        with psycopg.connect(**where) as connection:
            return connection.execute(query).fetchall()

    def problems(self) -> list[str]:
        return json.loads(self.get("/readyz")[1])["problems"]
