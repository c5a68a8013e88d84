"""`manage.py up` with its real children: started, watched from outside, killed."""

from __future__ import annotations

import contextlib
import http.cookiejar
import re
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.commands.running import ENV, PATIENCE_S, ROOT, Up, file_work, manage, remove
from tests.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.crash, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One data folder for all tests here: each start goes on where the last one ended."""
    folder = tmp_path_factory.mktemp("up")
    yield folder
    remove(folder)


@contextlib.contextmanager
def up(data: Path, *words: str) -> Iterator[Up]:
    running = Up(data, *words)
    try:
        yield running
    finally:
        everybody = [running.process, *running.everybody()]
        if running.process.is_running():
            running.process.send_signal(signal.SIGTERM)
        _gone, alive = psutil.wait_procs(everybody, timeout=60)
        for process in alive:
            process.kill()


def test_from_nothing_to_a_page_and_a_link_that_signs_in_once(data: Path) -> None:
    with up(data, "--print-link") as running:
        link = running.link
        running.is_ready()
        assert running.get("/healthz") == (200, b"ok\n")

        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        page = browser.open(link).read().decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert token
        sent = urllib.parse.urlencode({"csrfmiddlewaretoken": token[1]}).encode()
        browser.open(link, sent)
        board = browser.open(f"{running.url}/b/release-desk/")
        assert "Write the announcement" in board.read().decode()
        assert "default-src 'none'" in board.headers["Content-Security-Policy"]
        assert 'method="post"' not in urllib.request.urlopen(link).read().decode()  # it was used

        everybody = running.everybody()
        assert len(everybody) > 4
        assert running.ends() == 0
        assert running.lines[-1] == "up      │ Stopped. Nothing is lost; the next start goes on from here."
        _gone, alive = psutil.wait_procs(everybody, timeout=60)
        assert alive == []
        assert not any(link.removeprefix(running.url) in line for line in running.lines if "│" in line)


def test_no_link_is_printed_into_a_file_and_signin_gives_one(data: Path) -> None:
    with up(data) as running:
        said = running.says("For a sign-in link, run: uv run manage.py signin")
        assert str(data) in said.string
        url = running.url
        asked = manage(data, "signin")
        assert asked.stdout.startswith(f"{url}/sign-in/")
        assert running.get(asked.stdout.strip().removeprefix(url))[0] == 200
        assert not any("/sign-in/" in line for line in running.lines)

        running.is_ready()
        doctor = manage(data, "doctor")
        assert (doctor.returncode, doctor.stderr) == (0, ""), doctor.stdout

        taken = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), "up", "--data-dir", str(data), "--port", url.rpartition(":")[2]],
            env=ENV,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert taken.returncode == 1
        assert "choose another port, or any free one with --port 0" in taken.stderr
        assert "Traceback" not in taken.stderr


def test_whatever_is_killed_is_started_again(data: Path) -> None:
    with up(data) as running:
        running.is_ready()
        for name in ("web", "drain", "sweeper"):
            before = running.child(name)
            before.kill()
            running.says(rf"{name} ended by SIGKILL; starting it again")
            until(lambda name=name, before=before: running.child(name).pid != before.pid, PATIENCE_S)
        running.is_ready()

        [server] = [p for p in running.everybody() if "-D" in p.cmdline()]
        server.kill()
        until(lambda: server not in running.everybody(), PATIENCE_S)
        until(lambda: running.problems() == [], PATIENCE_S)
        assert running.ends() == 0


def test_ctrl_c_in_the_middle_of_the_work_loses_nothing(data: Path) -> None:
    working = """
        select 1 from boards_attempt a join boards_task t on a.task_id = t.pk and a.number = t.attempts
        where t.status = 'in_progress' and t.lease_until is not null and a.started_at > '{}'
    """
    there = "select array_agg(pk), array_agg(pk) filter (where status = 'completed'), now() from boards_task"
    lost = "select task_id, number from boards_attempt where ending in ('lost', 'abandoned') and started_at > '{}'"
    with up(data) as running:
        running.is_ready()
        [(began,)] = running.rows("select now()")  # what an earlier start was killed with may still come out as lost
        file_work(data, tasks=6)
        until(lambda: running.rows(working.format(began)), PATIENCE_S, "a task that is worked")
        [(tasks, done, stopped)] = running.rows(there)
        assert running.ends(signal.SIGINT) == 0
    with up(data) as running:
        running.url  # noqa: B018
        [(tasks_after, done_after, _now)] = running.rows(there)
        assert set(tasks) <= set(tasks_after), running.lines
        assert set(done or ()) <= set(done_after or ())
        until(lambda: running.rows(working.format(stopped)), PATIENCE_S, "the work goes on")
        assert not running.rows(lost.format(began))
        assert not running.rows("select id from boards_task where failures > 0 and id <> 'check-installers'")


def test_nobody_outlives_an_up_that_was_killed(data: Path) -> None:
    with up(data) as running:
        running.is_ready()
        everybody = running.everybody()
        running.process.kill()
        _gone, alive = psutil.wait_procs(everybody, timeout=60)
        assert alive == []
    with up(data) as running:
        running.is_ready()
        assert running.ends() == 0


def test_an_empty_space_on_request(tmp_path: Path) -> None:
    try:
        with up(tmp_path, "--no-demo") as running:
            running.url  # noqa: B018
            assert running.rows("select slug from boards_board") == [("work",)]
            assert running.rows("select count(*) from boards_task") == [(0,)]
    finally:
        remove(tmp_path)
