"""Starts the flow `release-notes` on the checkout that the product runs from, or on a small repository made for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from django.conf import settings

from boards import actors, flows
from boards.demo.release_desk import LEASE_MS
from boards.models import Board, FlowRun, Member

FLOW = "release-notes"
AUTHORS = {"Anna Lind": "anna@tidewater.example", "Jonas Beck": "jonas@tidewater.example"}
# The user's own configuration may ask for signatures, templates and hooks.
ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
# Who, when, what; a line that begins with "tag" marks the commit before it.
HISTORY = """\
Anna Lind|2026-03-02|Prepare 2.3.0
tag v2.3.0
Jonas Beck|2026-03-09|fix(times): show the right hour on the night when the clocks change
Anna Lind|2026-03-16|feat(charts): keep the charts of a coast on the device
Anna Lind|2026-03-23|feat(charts): say how much room the kept charts take
Jonas Beck|2026-04-01|perf(start): open in a second with 200 saved places
Jonas Beck|2026-04-08|fix(print): keep the last column of long tables on the page
Anna Lind|2026-04-20|feat(compare): put two harbours side by side
Jonas Beck|2026-05-04|docs(manual): explain the colours of the tide curve
tag v2.4.0-beta
Anna Lind|2026-05-11|feat(widget): show the next high water
Jonas Beck|2026-05-18|fix(export)!: give heights in metres with two decimals
Anna Lind|2026-05-21|fix(alarms): ring again after the device was restarted
Jonas Beck|2026-05-26|docs(upgrade): say what may surprise people on 2.3
Anna Lind|2026-05-29|test(times): cover every zone that changes its clocks
"""


def start(operator: Member, inputs: dict[str, str]) -> FlowRun:
    """Install the flow with its board and start one run, in the running transaction."""
    flow = flows.install(operator.space, FLOW)
    Board.objects.filter(pk=flow.board_id).update(lease_ms=LEASE_MS)
    return flows.start(actors.person(operator), flow, inputs)


def inputs() -> dict[str, str] | None:
    """The run's inputs: the checkout, if it is one with history; else a made-up one. None where there is no git.

    It is made in the data folder and outside of any transaction: a start that is killed finds it there again.
    """
    if shutil.which("git") is None:
        return None
    here = Path(settings.BASE_DIR)
    told = _git(here, "rev-parse", "--show-toplevel", "HEAD")
    if told.returncode == 0 and Path(told.stdout.splitlines()[0]).resolve() == here.resolve():
        return {"repo": str(here)}
    made = repository_of_ours()
    return {"repo": str(made), "from": "v2.3.0", "title": "Tidewater 2.4"} if made else None


def repository_of_ours() -> Path | None:
    """The made-up history in the data folder, made if it is missing; None where git cannot make it."""
    made = Path(settings.DATA_DIR) / "demo-repository"
    return made if made.exists() or _make(made) else None


def _make(folder: Path) -> bool:
    """Under another name first, so that a start that is killed leaves no half history behind."""
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    made = _git(fresh, "init", "--quiet", env=ALONE).returncode == 0 and all(map(_Commit(fresh), HISTORY.splitlines()))
    if made:
        fresh.rename(folder)
    else:
        shutil.rmtree(fresh, ignore_errors=True)
    return made


class _Commit:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, line: str) -> bool:
        if line.startswith("tag "):
            return _git(self._folder, "tag", line.removeprefix("tag "), env=ALONE).returncode == 0
        author, day, subject = line.split("|", 2)
        who = {"NAME": author, "EMAIL": AUTHORS[author], "DATE": f"{day}T09:30:00+0000"}
        env = {f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in who.items()}
        done = _git(self._folder, "commit", "--quiet", "--allow-empty", "--no-verify", "-m", subject, env=ALONE | env)
        return done.returncode == 0


def _git(folder: Path, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"} | (env or {})
    return subprocess.run(
        ["git", "-C", str(folder), *words], env=kept | own, capture_output=True, text=True, timeout=30
    )
