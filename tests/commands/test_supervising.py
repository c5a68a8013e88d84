"""The process tree of `up`, with small programs in the place of the real ones."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from boards import supervising
from boards.supervising import Deaths, Program, Tree
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
ENV = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}

SLEEPER = """
import signal, time, sys
signal.signal(signal.SIGTERM, lambda *_: (print("bye"), sys.exit(0)))
print("here", *sys.argv[1:])
while True: time.sleep(60)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here")
while True: time.sleep(60)
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Program]:
    def make(name: str, text: str, *words: str) -> Program:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        return Program(name, [str(path), *words], ENV)

    return make


class Running:
    """A tree that runs in a thread of the test, with all that was said."""

    def __init__(self, *programs: Program, grace_s: float = 0.5) -> None:
        self.said: list[tuple[str, str]] = []
        self.tree = Tree(programs, lambda name, line: self.said.append((name, line)), grace_s)
        self.trouble: str | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self.trouble = self.tree.run(lambda: "")

    def waits_for(self, name: str, line: str, times: int = 1) -> None:
        until(lambda: sum(said == (name, line) for said in self.said) >= times)

    def stop(self) -> list[str]:
        self.tree.stop()
        self.thread.join()
        return self.tree.end()

    def pids(self) -> list[int]:
        return [child.process.pid for child in self.tree._children if child.process]


def test_what_children_print_is_handed_on_under_their_names(program: Callable[..., Program]) -> None:
    tree = Running(program("one", SLEEPER, "first"), program("two", SLEEPER, "second"))
    tree.waits_for("one", "here first")
    tree.waits_for("two", "here second")
    assert tree.stop() == []
    assert ("one", "bye") in tree.said
    assert ("two", "bye") in tree.said
    assert tree.trouble == ""


def test_a_child_that_was_killed_is_started_again(program: Callable[..., Program]) -> None:
    tree = Running(program("one", SLEEPER))
    tree.waits_for("one", "here")
    os.kill(tree.pids()[0], signal.SIGKILL)
    tree.waits_for("one", "here", times=2)
    assert ("up", "one ended by SIGKILL; starting it again in 0.5 s.") in tree.said
    tree.stop()


def test_a_child_that_dies_at_once_ends_the_tree_with_a_reason(
    program: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "FIRST_DELAY_S", 0.01)
    tree = Running(program("one", "import sys; sys.exit(7)"), program("two", SLEEPER))
    until(lambda: tree.trouble is not None)
    assert tree.trouble == "one ended 5 times in a minute, the last time with exit code 7."
    assert tree.tree.end() == []
    assert not any(psutil.pid_exists(pid) for pid in tree.pids())


def test_a_child_that_does_not_end_when_asked_is_killed_and_named(
    program: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Running(program("mule", STUBBORN), program("two", SLEEPER), grace_s=600)
    tree.waits_for("mule", "here")
    tree.waits_for("two", "here")
    [_mule, two] = tree.tree._children

    def clock() -> float:
        """The patience is over as soon as the one that listens has ended."""
        return time.monotonic() + (0 if two.lives else 3600)

    monkeypatch.setattr(supervising, "time", SimpleNamespace(monotonic=clock, sleep=time.sleep))
    assert tree.stop() == ["mule"]
    assert not any(psutil.pid_exists(pid) for pid in tree.pids())


def test_a_second_request_to_stop_has_little_patience(
    program: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "HURRY_S", 0.1)
    tree = Running(program("mule", STUBBORN), grace_s=600)
    tree.waits_for("mule", "here")
    tree.tree.stop()
    assert tree.stop() == ["mule"]


def test_what_the_tree_tends_to_can_end_it(program: Callable[..., Program]) -> None:
    tree = Tree([program("one", SLEEPER)], lambda *_: None, 0.5)
    assert tree.run(lambda: "The database is gone for good.") == "The database is gone for good."
    tree.end()


@pytest.mark.crash
def test_children_end_when_their_parent_is_killed(program: Callable[..., Program], tmp_path: Path) -> None:
    child = program("one", SLEEPER)
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import os, sys\n"
        "from boards.supervising import Program, Tree\n"
        f"tree = Tree([Program('one', [{child.words[0]!r}], dict(os.environ))], lambda *said: print(*said), 0.5)\n"
        "tree.run(lambda: '')\n"
    )
    running = psutil.Popen([sys.executable, str(parent)], env=ENV, stdout=-1, text=True)
    assert running.stdout.readline() == "one here\n"
    children = running.children()
    assert len(children) == 1
    running.kill()
    running.wait()
    _gone, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []


@pytest.mark.parametrize(
    ("ages", "delay"),
    [([], 0.5), ([1], 1.0), ([1, 2], 2.0), ([1, 2, 3], 4.0), ([1, 2, 3, 4], None), ([61, 62, 63, 64], 0.5)],
)
def test_the_delay_doubles_within_a_minute_and_five_deaths_are_too_many(ages: list[float], delay: float | None) -> None:
    now = 1_000.0
    assert Deaths([now - age for age in ages]).next_start(now) == delay
