"""Runs work in a copy of the test's process that is killed, for real, before or after its n-th commit."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from typing import Any

from django.db import connection

BEFORE, AFTER = "before", "after"


def dies_at(work: Callable[[], object], commit: int, where: str) -> bool:
    """Whether the copy was killed there; False where it was done before that commit came."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of the test do nothing the copy needs
        pid = os.fork()
    if pid == 0:
        _live_and_die(work, commit, where)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the work itself failed in the copy; its traceback is in the output"
    return False


def _live_and_die(work: Callable[[], object], commit: int, where: str) -> None:
    """Never returns: the copy must not end the test run's own affairs."""
    code = 1
    try:
        # The socket is the parent's: closing it, also by being collected, would end the parent's session.
        _kept.append(connection.connection)
        connection.connection = None
        connection.connect()
        _count_commits(commit, where)
        work()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


_kept: list[Any] = []


def _count_commits(commit: int, where: str) -> None:
    seen, real = [0], connection.commit

    def commit_or_die() -> None:
        seen[0] += 1
        if seen[0] == commit and where == BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        real()
        if seen[0] == commit:
            os.kill(os.getpid(), signal.SIGKILL)

    connection.commit = commit_or_die  # type: ignore[method-assign]
