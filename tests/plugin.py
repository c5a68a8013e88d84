"""What a test run needs before the settings are read: a data folder, a database name and a server of its own.

`pyproject.toml` loads it by `-p`, before pytest-django imports the settings. Runs at the same time get
different databases (`test_orchestra`, `test_orchestra_2`, …); TEST_DATABASE_NAME names one.
Under ORCHESTRA_REQUIRE_ALL=1 a skipped test has failed.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import signal
from collections.abc import Generator
from pathlib import Path

import django
import pytest

from orchestra import embedded

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / ".orchestra-test"
REQUIRE_ALL = os.environ.get("ORCHESTRA_REQUIRE_ALL") == "1"

os.environ["DATA_DIR"] = str(DATA)
os.environ["SECRET_KEY"] = "only-the-tests-use-this-key-and-they-run-on-one-machine"
os.environ.setdefault("INSECURE_HTTP", "yes")  # the test client speaks plain HTTP


class Database:
    """One test database, held by the lock on its note file until this process ends.

    The note says which migrations made it. It is empty while tests run, so that a database whose run was
    killed, or whose migrations were edited since, is made anew instead of used again.
    """

    def __init__(self) -> None:
        DATA.mkdir(exist_ok=True)
        given = os.environ.get("TEST_DATABASE_NAME", "").strip()
        more = (f"test_orchestra_{number}" for number in itertools.count(2))
        for name in [given] if given else itertools.chain(["test_orchestra"], more):
            if self._take(name):
                os.environ["TEST_DATABASE_NAME"] = name
                return
        raise pytest.UsageError(f"Another run of the tests uses the database {given}.")

    def _take(self, name: str) -> bool:
        server = hashlib.sha256(os.environ.get("DATABASE_URL", "").encode()).hexdigest()[:8]
        self.note = (DATA / f"{name}-{server}").open("a+")
        try:
            fcntl.flock(self.note, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.note.close()
            return False
        return True

    def is_current(self) -> bool:
        self.note.seek(0)
        return self.note.read() == self._schema()

    def mark(self, current: bool) -> None:
        self.note.truncate(0)
        self.note.write(self._schema() if current else "")
        self.note.flush()

    def _schema(self) -> str:
        made = hashlib.sha256(repr(django.VERSION).encode())
        for path in sorted((ROOT / "boards" / "migrations").rglob("*.py")):
            made.update(path.read_bytes())
        return made.hexdigest()


DATABASE = Database()


def pytest_configure(config: pytest.Config) -> None:
    if config.option.help or config.option.collectonly:
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # pytest would take SystemExit for a failed test
            signal.signal(number, signal.default_int_handler)
    try:
        embedded.ensure()
    except embedded.EmbeddedError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not hasattr(report, "wasxfail"):
        _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if REQUIRE_ALL and report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"ORCHESTRA_REQUIRE_ALL=1 takes no skipped test. {reason}"
