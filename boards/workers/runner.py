"""Turns claimed tasks into running workers: what they are told, under which ticket they speak, who starts
them.

It writes what a start leaves, in the claim's transaction, and nothing else; how work ended is decided in
`settling` (spec: 03 section 2).
"""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from uuid import UUID, uuid4

from boards import actors, tasks
from boards.models import RosterEntry, Task, TranscriptItem
from boards.tasks import Claimed, Line, Start, Ticket
from boards.tasks.current import set_claim
from boards.workers import briefing, plain_json
from boards.workers.adapters import Adapter, Ending, Failed, Job, Running, StoppedEarly
from boards.workers.port import DatabasePort
from boards.workers.scribe import Scribe


@dataclass(eq=False)
class Run:
    """One claimed task on its way through a drain. `why`: "" or why it was told to stop (stopped, lost,
    shutdown).
    """

    claimed: Claimed
    entry: RosterEntry | None
    port: DatabasePort | None = None
    job: Job | None = None
    handle: Running | None = None
    began: float = 0.0
    why: str = ""
    ending: Ending | None = None
    taken_at: float = field(default_factory=time.monotonic)
    told: bool = False  # the detail of its failure is in the transcript
    told_silence: bool = False
    cancelled: bool = False  # it is only told that it was cancelled; it holds no claim
    doubtful: bool = False  # a settling write raised on its way out, so it may have landed
    broke: str = ""  # what it raised, where that was not the absence of the database

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
    def frees_slot(self) -> bool:
        """Whether nothing of it runs any more: a Python worker that has returned leaves no process behind."""
        return self.ending is not None and self.entry is not None and self.entry.kind == RosterEntry.Kind.PYTHON

    @property
    def who(self) -> str:
        """The name that the worker acts under."""
        return self.task.assignee or (self.entry.name if self.entry else "drain")

    @cached_property
    def session_id(self) -> UUID | None:
        """The session that the claim linked."""
        found = (self.task.run or {}).get("session_id")
        return UUID(found) if found else None

    @cached_property
    def request_id(self) -> str:
        return str((self.task.run or {}).get("request_id") or uuid4().hex)

    @property
    def waited_long(self) -> bool:
        """Whether a renewal of its lease has been due since the claim; one without a claim waits for none."""
        return not self.cancelled and (time.monotonic() - self.taken_at) * 3000 > (self.task.lease_duration_ms or 0)

    @property
    def receipt(self) -> str:
        """The token that its settling write leaves on the row."""
        return f"end:{self.request_id}"

    @cached_property
    def chain(self) -> actors.Chain:
        """Who acts; asked for when the session is known."""
        return actors.agent(self.who, self.task.board.space_id, self.session_id)

    def stop(self, why: str) -> None:
        """Ask the worker to stop, for a reason that decides what becomes of its task. The first reason
        stays, and what has ended by itself stays as it ended.
        """
        if self.ending is None:
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

    def begin(self, runs: Sequence[Run]) -> list[Start]:
        """What their starts leave, for the claim to store."""
        return [Start(run.who, _first_words(run, self._host)) for run in runs]

    def first_words(self, number: int) -> str:
        """How the transcript of an attempt begins that is told nothing of an earlier one."""
        return _started(number, self._host)

    def prepare(self, runs: Sequence[Run]) -> None:
        """Read what the workers are told: a few queries for the whole batch."""
        keys = [run.ticket.task_key for run in runs if not run.claimed.bare]
        outputs, holds = briefing.beside(keys)
        for run in runs:
            key = run.ticket.task_key
            run.port = DatabasePort(
                run.ticket,
                run.chain,
                self._scribe,
                who=run.who,
                session_id=run.session_id,
                holds=holds.get(key, ()),
                steers_seen=len(run.task.steers),
                cancelled=run.cancelled,
            )
            facts = briefing.facts_of(run.task, run.ticket, outputs.get(key, {}), holds.get(key, ()))
            config = run.entry.config if run.entry else {}
            folder = f"{run.task.board.slug}/{run.task.public_id}"
            run.job = Job(facts, run.port, config, folder, _context(run.ticket))

    def start(self, runs: Sequence[Run]) -> None:
        """Start their workers. What cannot be started ends as a failure, with a sentence."""
        # The database is asked before the first worker starts: where it is away, all of them are started later. It may
        # have been away since the claim for longer than the lease.
        lost = {run for run in runs if run.why or (run.waited_long and not tasks.owns(run.ticket))}
        tasks.add_transcript_lines([_first_line(run, self._host) for run in runs if run.cancelled])
        for run in runs:
            if run not in lost:
                self._start_worker(run)
            else:
                run.stop("lost")
                self._ended(run, StoppedEarly())

    def _start_worker(self, run: Run) -> None:
        assert run.port is not None
        assert run.job is not None
        run.began = time.monotonic()
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


def _refusal(run: Run) -> str:
    """Why this task cannot be given to its worker, as a sentence; "" where it can."""
    if run.entry is None:
        return f"“{run.task.assignee or 'nobody'}” has no worker on this board any more. Assign it to another."
    return plain_json.problem(run.task.input, "input")


def _first_words(run: Run, host: str) -> str:
    number, task = run.ticket.attempt, run.task
    if run.cancelled:
        return f"Attempt {number} is told that it was cancelled, on {host}. Nothing it reports counts."
    if run.claimed.resumed:
        return f"Attempt {number} goes on with the answer, on {host}."
    if number > 1 and task.feedback:
        return f"{_started(number, host)} It was told: {task.feedback[:2000]}"
    return _started(number, host)


def _started(number: int, host: str) -> str:
    return f"Attempt {number} started on {host}."


def _first_line(run: Run, host: str) -> Line:
    words = _first_words(run, host)
    return Line(run.task.pk, run.ticket.attempt, words, TranscriptItem.Kind.STATUS, run.who, None, run.session_id)


def _context(ticket: Ticket) -> contextvars.Context:
    """A context in which `current_claim()` is this ticket, for the worker and what it starts."""
    context = contextvars.copy_context()
    context.run(set_claim, ticket)
    return context
