"""Works the tasks of a board in this process, the way a drain does, one after the other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from boards import actors, tasks
from boards.models import Board, RosterEntry
from boards.tasks import Claimed, Wanted
from boards.workers.protocol import WORKERS, SyncWorkerTask, TaskFacts
from tests import cast
from tests.flows.cast import settle


class Said:
    """A port that keeps what a worker says."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.notes: list[str] = []

    def report(self, output: Any, note: str) -> None:
        self.notes.append(note)

    def say(self, text: str, kind: str = "message", data: Mapping[str, Any] | None = None) -> None:
        self.lines.append(text)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"These workers do not {name}.")


def work(board: Board) -> list[str]:
    """Work until nothing is ready; answers the assignees in the order in which they worked."""
    worked: list[str] = []
    entries = {entry.name: entry for entry in board.roster.all()}
    wanted = [Wanted(board.pk, dict.fromkeys(entries, 1))]
    while got := tasks.claim(wanted, limit=1, claimed_by=cast.HERE):
        _work(got[0], entries[got[0].task.assignee])
        worked.append(got[0].task.assignee)
        settle()
    return worked


def facts_of(task: Any) -> TaskFacts:
    return TaskFacts(id=task.public_id, goal=task.goal, title=task.title, input=task.input, feedback=task.feedback)


def _work(got: Claimed, entry: RosterEntry) -> None:
    chain = actors.agent(entry.name, entry.board.space_id)
    facts = facts_of(got.task)
    try:
        output = _program(entry.config, facts) if entry.kind == "command" else _function(entry.config, facts)
    except Exception as error:
        tasks.fail(chain, got.task, str(error), claim=got.ticket)
    else:
        tasks.complete(chain, got.task, output, claim=got.ticket)


def _function(config: Mapping[str, Any], facts: TaskFacts) -> Any:
    return WORKERS[config["worker"]].function(SyncWorkerTask(facts, Said()))


def _program(config: Mapping[str, Any], facts: TaskFacts) -> Any:
    argv = [sys.executable if word == "{python}" else word for word in config["argv"]]
    told = json.dumps(facts.wire())
    ran = subprocess.run(argv, input=told, capture_output=True, text=True, check=False, cwd=settings.BASE_DIR)
    if ran.returncode:
        raise RuntimeError(ran.stderr.strip().splitlines()[-1])
    return json.loads(ran.stdout.splitlines()[-1])
