"""What the worker tests share: a port that remembers, and runs of single jobs without a database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from boards.actors import Chain
from boards.models import Board
from boards.workers.adapters import Adapter, Ending, Job, Running
from boards.workers.adapters.command import CommandAdapter, Place
from boards.workers.adapters.python import PythonAdapter
from boards.workers.protocol import WORKERS, Answer, Ask, Stopped, TaskFacts
from tests import cast
from tests.waiting import PATIENCE_S
from tests.workers.drains import InProcess

CHECKOUT = Path(__file__).parent.parent.parent


@dataclass
class RecordingPort:
    """Remembers what a worker said; answers come from `answers`, by key."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    reports: list[tuple[Any, str]] = field(default_factory=list)
    asked: list[Ask] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    steps: dict[str, Any] = field(default_factory=dict)
    filed: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    signals: list[tuple[str, Any, Any]] = field(default_factory=list)
    over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self, output: Any, note: str) -> None:
        with self.lock:
            self.reports.append((output, note))

    def ask(self, question: Ask) -> Answer | None:
        with self.lock:
            self.asked.append(question)
        return self.answers.get(question.key)

    def messages(self) -> list[str]:
        with self.lock:
            found, self.waiting = self.waiting, []
        return found

    def file(self, filing: Mapping[str, Any]) -> str:
        self.filed.append(dict(filing))
        return f"t{len(self.filed)}"

    def recorded_step(self, name: str) -> tuple[bool, Any]:
        return name in self.steps, self.steps.get(name)

    def record_step(self, name: str, result: Any) -> Any:
        self.steps[name] = result
        return result

    def say(self, text: str, kind: str = "message", data: Mapping[str, Any] | None = None) -> None:
        if self.over:
            raise Stopped
        with self.lock:
            self.lines.append((kind, text))

    def complete_step(self, summary: str, handoff: Any, blockers: Any) -> bool:
        self.signals.append((summary, handoff, blockers))
        return len(self.signals) == 1

    @property
    def said(self) -> list[str]:
        with self.lock:
            return [text for _, text in self.lines]


@dataclass
class Run:
    """One started worker of a test."""

    running: Running
    port: RecordingPort
    endings: SimpleQueue[Ending]

    def ending(self, seconds: float = PATIENCE_S) -> Ending:
        return self.endings.get(timeout=seconds)


@pytest.fixture
def port() -> RecordingPort:
    return RecordingPort()


@pytest.fixture
def registered():
    """Python workers that a test registers are forgotten after it."""
    before = dict(WORKERS)
    yield
    WORKERS.clear()
    WORKERS.update(before)


@pytest.fixture
def python_adapter(registered: None):
    adapter = PythonAdapter(threads=4)
    yield adapter
    adapter.close()


@pytest.fixture
def command_adapter(tmp_path: Path) -> CommandAdapter:
    return CommandAdapter(Place(tmp_path / "work", CHECKOUT, grace_ms=500))


@pytest.fixture
def begin(port: RecordingPort) -> Callable[..., Run]:
    """Start a worker: `begin(adapter, {"worker": "name"}, goal="…")`."""

    def start(adapter: Adapter, config: Mapping[str, Any], **facts: Any) -> Run:
        endings: SimpleQueue[Ending] = SimpleQueue()
        facts = {"id": "t1", "goal": "Do it", **facts}
        job = Job(TaskFacts(**facts), port, config, folder="board/t1")
        return Run(adapter.start(job, endings.put), port, endings)

    return start


@pytest.fixture
def board(db: None) -> Board:
    return cast.make_board(cast.make_space())


@pytest.fixture
def anna(board: Board) -> Chain:
    return cast.chain_of(cast.make_member(board.space))


@pytest.fixture
def drain(registered: None) -> Iterator[Callable[..., InProcess]]:
    """Make a drain; those that a test leaves open are closed after it."""
    made: list[InProcess] = []

    def make(**options: Any) -> InProcess:
        made.append(InProcess(**options))
        return made[-1]

    yield make
    for one in made:
        if one.open:
            one.close()
