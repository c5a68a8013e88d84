"""Turns claimed tasks into running workers: what they are told, under which ticket they speak, who starts
them.

It writes the run link and nothing else; how work ended is decided in `settling` (spec: 03 section 2).
"""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid4

from boards import actors, tasks
from boards.models import Attempt, Hold, RosterEntry, Session, Task, TaskDep
from boards.states import HoldState
from boards.tasks import Claimed, RunLink, Ticket
from boards.tasks.current import set_claim
from boards.workers import plain_json
from boards.workers.adapters import Adapter, Ending, Failed, Job, Running, StoppedEarly
from boards.workers.port import DatabasePort
from boards.workers.protocol import TaskFacts
from boards.workers.replay import answer_of
from boards.workers.scribe import Scribe

INLINE_KINDS: Final = (RosterEntry.Kind.PYTHON, RosterEntry.Kind.COMMAND)


@dataclass(eq=False)
class Run:
    """One claimed task on its way through a drain. `why`: "" or why it was told to stop (stopped, lost,
    shutdown).
    """

    claimed: Claimed
    entry: RosterEntry | None
    session_id: UUID | None = None
    port: DatabasePort | None = None
    job: Job | None = None
    handle: Running | None = None
    began: float = 0.0
    why: str = ""
    ending: Ending | None = None
    request_id: str = field(default_factory=lambda: uuid4().hex)
    receipt: str = field(default_factory=lambda: uuid4().hex)
    told: bool = False  # the detail of its failure is in the transcript
    doubtful: bool = False  # a settling write raised on its way out, so it may have landed

    @property
    def task(self) -> Task:
        return self.claimed.task

    @property
    def ticket(self) -> Ticket:
        return self.claimed.ticket

    @property
    def name(self) -> tuple[int, int]:
        """What tells this grant from any other that the process holds or held."""
        return self.ticket.task_key, self.ticket.grant_no

    @property
    def who(self) -> str:
        """The name that the worker acts under."""
        return self.task.assignee or (self.entry.name if self.entry else "drain")

    @property
    def chain(self) -> actors.Chain:
        return actors.agent(self.who, self.task.board.space_id, self.session_id)

    def stop(self, why: str) -> None:
        """Ask the worker to stop, for a reason that decides what becomes of its task. The first reason
        stays.
        """
        self.why = self.why or why
        if self.port is not None and why != "shutdown":
            self.port.end()
        if self.handle is not None:
            self.handle.cancel()


class Runner:
    """`prepare` a batch of claims, then `start` each: `on_end(run)` is called once, from any thread."""

    def __init__(
        self, adapters: Mapping[str, Adapter], scribe: Scribe, host: str, on_end: Callable[[Run], None]
    ) -> None:
        self._adapters, self._scribe, self._host, self._on_end = adapters, scribe, host, on_end

    def prepare(self, runs: Sequence[Run]) -> None:
        """Read what the workers are told, and give each its session: a few queries for the whole batch."""
        keys = [run.ticket.task_key for run in runs]
        outputs = _dependency_outputs(keys)
        holds = _holds(run.task for run in runs)
        sessions = _sessions(runs)
        for run in runs:
            run.session_id = sessions[run.ticket.task_key]
            run.port = DatabasePort(
                run.ticket,
                run.chain,
                self._scribe,
                who=run.who,
                session_id=run.session_id,
                holds=holds.get(run.ticket.task_key, ()),
                steers_seen=len(run.task.steers),
            )
            facts = _facts(run, outputs.get(run.ticket.task_key, {}), holds.get(run.ticket.task_key, ()))
            config = run.entry.config if run.entry else {}
            folder = f"{run.task.board.slug}/{run.task.public_id}"
            run.job = Job(facts, run.port, config, folder, _context(run.ticket))

    def start(self, runs: Sequence[Run]) -> None:
        """Link the runs and start their workers. What cannot be started ends as a failure, with a sentence."""
        outcomes = tasks.link_runs([RunLink(run.chain, run.ticket, run.session_id, run.request_id) for run in runs])
        for run, outcome in zip(runs, outcomes, strict=True):
            if outcome.landed or _is_linked(run):
                self._start_worker(run)
            else:
                run.stop("lost")
                self._ended(run, StoppedEarly())

    def _start_worker(self, run: Run) -> None:
        assert run.port is not None
        assert run.job is not None
        run.began = time.monotonic()
        run.port.say(_first_line(run, self._host), "status")
        refusal = _refusal(run)
        if refusal:
            self._ended(run, Failed(refusal))
            return
        assert run.entry is not None
        adapter = self._adapters[run.entry.kind]
        try:
            run.handle = adapter.start(run.job, lambda ending: self._ended(run, ending))
        except Exception as error:
            self._ended(run, Failed(f"The worker could not be started: {error}"))

    def _ended(self, run: Run, ending: Ending) -> None:
        run.ending = ending
        self._on_end(run)


def _is_linked(run: Run) -> bool:
    """Whether an earlier try, which raised, has landed after all."""
    link: dict[str, Any] = Task.objects.filter(pk=run.ticket.task_key).values_list("run", flat=True).first() or {}
    return link.get("request_id") == run.request_id


def _refusal(run: Run) -> str:
    """Why this task cannot be given to its worker, as a sentence; "" where it can."""
    if run.entry is None:
        return f"“{run.task.assignee or 'nobody'}” has no worker on this board any more. Assign it to another."
    return plain_json.problem(run.task.input, "input")


def _first_line(run: Run, host: str) -> str:
    number, task = run.ticket.attempt, run.task
    if run.claimed.resumed:
        return f"Attempt {number} goes on with the answer, on {host}."
    if number > 1 and task.feedback:
        return f"Attempt {number} started on {host}. It was told: {task.feedback[:2000]}"
    return f"Attempt {number} started on {host}."


def _facts(run: Run, outputs: Mapping[str, Any], holds: Iterable[Hold]) -> TaskFacts:
    task = run.task
    closed = [hold for hold in holds if hold.attempt in {0, run.ticket.attempt} and hold.state != HoldState.OPEN]
    return TaskFacts(
        id=task.public_id,
        goal=task.goal,
        title=task.title,
        context=task.context,
        input=task.input,
        metadata=task.metadata,
        labels=task.labels,
        board=task.board.slug,
        assignee=task.assignee,
        attempt=run.ticket.attempt,
        feedback=task.feedback,
        dep_outputs=outputs,
        steers=[str(steer["text"]) for steer in task.steers],
        answers=[answer for hold in closed if (answer := answer_of(hold))],
    )


def _context(ticket: Ticket) -> contextvars.Context:
    """A context in which `current_claim()` is this ticket, for the worker and what it starts."""
    context = contextvars.copy_context()
    context.run(set_claim, ticket)
    return context


def _dependency_outputs(keys: Sequence[int]) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    edges = TaskDep.objects.filter(dependent__in=keys)
    for dependent, name, output in edges.values_list("dependent", "dependency__public_id", "dependency__output"):
        found.setdefault(dependent, {})[name] = output
    return found


def _holds(claimed: Iterable[Task]) -> dict[int, list[Hold]]:
    """All holds of these tasks, by task, in the order of asking."""
    found: dict[int, list[Hold]] = {}
    for hold in Hold.objects.filter(task__in=[task.pk for task in claimed]).order_by("attempt", "position"):
        found.setdefault(hold.task_id or 0, []).append(hold)
    return found


def _sessions(runs: Sequence[Run]) -> dict[int, UUID]:
    """The session of each task: the one it had before, or a new child of its filer's."""
    again = [run.ticket.task_key for run in runs if run.claimed.resumed or run.ticket.attempt > 1]
    before = Attempt.objects.filter(task__in=again, session__isnull=False).order_by("number")
    known: dict[int, UUID] = dict(before.values_list("task", "session")) if again else {}
    fresh = [
        (
            run.ticket.task_key,
            Session(
                space_id=run.task.board.space_id,
                kind=Session.Kind.TASK_RUN,
                parent_id=run.task.filer_id,
                label=f"{run.who}: {run.task.label}",
            ),
        )
        for run in runs
        if run.ticket.task_key not in known
    ]
    Session.objects.bulk_create(session for _, session in fresh)
    return known | {key: session.pk for key, session in fresh}
