"""A worker's way into the product: progress, questions, steps and transcript lines of one run, under its
ticket.

Called from worker threads. Once the claim has moved on every method raises `Stopped`; while the database is
away they wait, so that a restart of it fails nobody's work (spec: 03 sections 2 and 3.4).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from boards import flows, people, tasks
from boards.actors import Chain
from boards.models import Hold, Task
from boards.tasks import Line, LostClaim, TaskWriteOutcome, Ticket
from boards.tasks.filing import filing_of
from boards.workers import plain_json
from boards.workers.databases import own_connection, patiently
from boards.workers.protocol import Answer, Ask, Stopped
from boards.workers.replay import Replay, answer_of, options_of
from boards.workers.scribe import Scribe

PATIENCE_S: Final = 120.0  # how long a worker waits for a database that is away before its attempt fails

Value = TypeVar("Value")


class DatabasePort:
    """One run's port. `open_asks` holds the ids of what it asked and nobody has answered."""

    def __init__(
        self,
        ticket: Ticket,
        chain: Chain,
        scribe: Scribe,
        *,
        who: str,
        session_id: UUID | None,
        holds: Sequence[Hold] = (),
        steers_seen: int = 0,
        cancelled: bool = False,
    ) -> None:
        self.ticket, self.chain, self.who, self.session_id = ticket, chain, who, session_id
        self.open_asks: set[int] = set()
        self.checkpoint: Any = None
        self._scribe = scribe
        self._replay = Replay.of(holds, ticket.attempt)
        self._steers_seen = steers_seen
        self._steps: dict[str, Any] | None = None
        self._filed: Counter[str] = Counter()
        self._cancelled = cancelled  # nothing is recorded of what it does; it may still clean up
        self._over = False
        self._lock = threading.Lock()

    def end(self) -> None:
        """Nothing that this worker says counts any more."""
        self._over = True

    def report(self, output: Any, note: str) -> None:
        fields: dict[str, Any] = {}
        if output is not None:
            if words := plain_json.problem(output, "output"):
                raise ValueError(words)
            fields["output"] = output
        if note:
            fields["note"] = str(note)
        key = self.ticket.task_key
        self._landed(lambda: tasks.report_progress(self.chain, key, claim=self.ticket, **fields))
        if output is not None:
            self.checkpoint = output

    def ask(self, question: Ask) -> Answer | None:
        with self._lock:  # one question at a time: their order is their name
            key = self._replay.key_of(question)
            hold = self._replay.find(question, key)
            if hold is None:
                hold = self._calmly(lambda: self._open(question, key))
                self._replay.own[key] = hold
            answer = answer_of(hold)
            if answer is None:
                pk = hold.pk
                hold = self._calmly(lambda: people.with_settling(Hold.objects.all()).get(pk=pk))
                self._replay.own[key] = hold
                answer = answer_of(hold)
            if answer is None:
                self.open_asks.add(hold.pk)
                return None
            self.open_asks.discard(hold.pk)
            if hold.read_at is None:
                read = hold.pk
                self._calmly(lambda: people.note_read(self.ticket, read))
            return answer

    def messages(self) -> list[str]:
        steers = self._calmly(lambda: Task.objects.values_list("steers", flat=True).get(pk=self.ticket.task_key))
        with self._lock:
            fresh = [str(steer["text"]) for steer in steers[self._steers_seen :]]
            self._steers_seen = max(self._steers_seen, len(steers))
        return fresh

    def file(self, filing: Mapping[str, Any]) -> str:
        body = json.dumps(filing, sort_keys=True, default=str)
        with self._lock:  # the same again within one call of the worker is another task
            self._filed[body] += 1
            nth = self._filed[body]
        mark = hashlib.sha256(f"{nth}:{body}".encode("utf-8", "replace")).hexdigest()[:40]
        key = f"worker:{self.ticket.task_key}:{self.ticket.attempt}:{mark}"
        task = self._calmly(lambda: Task.objects.select_related("board").get(pk=self.ticket.task_key))
        made = self._calmly(
            lambda: tasks.file_task(
                self.chain,
                task.board,
                filing_of(filing),
                filed_by_task=task,
                session_id=self.session_id,
                idempotency_key=key,
                claim=self.ticket,
            )
        )
        return made.public_id

    def recorded_step(self, name: str) -> tuple[bool, Any]:
        if self._steps is None:
            self._steps = self._calmly(lambda: tasks.recorded_steps(self.ticket))
        return name in self._steps, self._steps.get(name)

    def record_step(self, name: str, result: Any) -> Any:
        if words := plain_json.problem(result, f"step {name}"):
            raise ValueError(words)
        if self._cancelled:
            self._steps = {**(self._steps or {}), name: result}
            return result
        stored = self._calmly(lambda: tasks.record_step(self.ticket, name, result))
        if self._steps is not None:
            self._steps[name] = stored
        return stored

    def say(self, text: str, kind: str = "message", data: Mapping[str, Any] | None = None) -> None:
        self._check()
        told = None if data is None else dict(data)
        ticket = self.ticket
        self._scribe.put(Line(ticket.task_key, ticket.attempt, str(text), kind, self.who, told, self.session_id))

    def complete_step(self, summary: str, handoff: Any, blockers: Any) -> bool:
        for name, told in (("handoff", handoff), ("blockers", blockers)):
            if words := plain_json.problem(told, name):
                raise ValueError(words)
        if self._cancelled:
            return False
        said = str(summary)
        taken = self._calmly(
            lambda: flows.complete_step(self.chain, self.ticket, said, handoff=handoff, blockers=blockers)
        )
        if taken:
            self.say(f"Said that the step is complete: {said}", "status")
        return taken

    def _open(self, question: Ask, key: str) -> Hold:
        return people.open_hold(
            self.chain,
            claim=self.ticket,
            kind=question.kind,
            prompt=question.prompt,
            title=question.title,
            context=question.context,
            options=options_of(question.options),
            schema=None if question.schema is None else dict(question.schema),
            draft=question.draft,
            due_in_ms=question.due_in_ms,
            default=question.default,
            assignee=question.assignee,
            dedup_key=key,
            source=Hold.Source.SUSPENSION if question.stops else Hold.Source.WORKER,
        )

    def _landed(self, write: Callable[[], TaskWriteOutcome]) -> None:
        if not self._calmly(write).landed:
            self.end()
            raise Stopped

    def _calmly(self, work: Callable[[], Value]) -> Value:
        self._check()
        try:
            with own_connection():
                return patiently(work, lambda: self._over, PATIENCE_S)
        except LostClaim:
            self.end()
            raise Stopped from None

    def _check(self) -> None:
        if self._over:
            raise Stopped
