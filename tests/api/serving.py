"""The web process as it is served, on the test's database; and programs that work against it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.crash.processes import ROOT, database_url
from tests.waiting import until


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def served(log: Path, **env: str) -> Iterator[str]:
    """daphne, by its address."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    given = {"DATABASE_URL": database_url(), "API_CALLS_PER_MINUTE": "1000000", "DJANGO_SETTINGS_MODULE": ""} | env
    given = {name: value for name, value in {**os.environ, **given}.items() if value}
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "orchestra.asgi:application"],
            env=given,
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            until(lambda: process.poll() is not None or _answers(url), 60, "an answer of daphne")
            assert process.poll() is None, log.read_text()
            yield url
        finally:
            process.terminate()
            process.wait(60)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


class Program:
    """A worker of the documents, run as it stands; what it prints goes to files."""

    def __init__(self, folder: Path, name: str, source: str, **env: str) -> None:
        path = folder / f"{name}.py"
        path.write_text(source)
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-I", str(path)], env={"PATH": "/usr/bin:/bin", **env}, stdout=out, stderr=err
            )

    @property
    def said(self) -> str:
        return self.out.read_text()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
