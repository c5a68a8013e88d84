"""What a worker and its drain say to each other: the registry of Python workers and the task they are given.

A low layer: it imports no Django and writes nothing by itself. Everything that a worker reports goes through
a `Port`, which the runner provides (spec: 03 section 2, 04 section 1).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from boards.errors import EndsForGood

__all__ = [
    "WORKERS",
    "Answer",
    "Ask",
    "EndsForGood",
    "Port",
    "Registered",
    "ReplayMismatch",
    "SendInDoubt",
    "Stopped",
    "Suspended",
    "SuspensionTimeout",
    "SyncWorkerTask",
    "TaskFacts",
    "WorkerTask",
    "worker",
]

Args = ParamSpec("Args")
Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])
Kind = Literal["question", "confirm", "approval", "review", "input", "gate"]
Option = str | Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Registered:
    """A function that works tasks. `source` names its file, for messages."""

    name: str
    function: Callable[..., Any]
    is_async: bool
    source: str


WORKERS: dict[str, Registered] = {}


def worker(name: str) -> Callable[[Function], Function]:
    """Register a function `fn(task)` under a name that rosters use; sync and async functions alike.

    An async one gets a `WorkerTask`, a sync one a `SyncWorkerTask`. What it returns is the task's output.
    Raises ValueError where the name is blank or belongs to another function.
    """

    def register(function: Function) -> Function:
        source = f"{inspect.getsourcefile(function) or '?'}:{function.__qualname__}"
        known = WORKERS.get(name)
        if known is not None and known.source != source:
            raise ValueError(f"Two workers are called {name!r}: {known.source} and {source}. Rename one.")
        if not name.strip():
            raise ValueError(f"The worker in {source} needs a name.")
        WORKERS[name] = Registered(name, function, inspect.iscoroutinefunction(function), source)
        return function

    return register


class Suspended(BaseException):
    """The run stops until a person answers. Not an `Exception`, so that a worker's own handlers let it pass."""


class Stopped(BaseException):
    """The attempt is over for this worker (cancelled, lost, shut down): nothing that it reports counts any
    more.
    """


class SuspensionTimeout(Exception):
    """Nobody answered a review or an input before its due time. Catch it to go on without an answer."""


class ReplayMismatch(Exception):
    """A worker that ran again asked something else than the first time, so no answer can be given to it."""


class SendInDoubt(Exception):
    """A draft was being sent when the worker stopped: only a person can tell whether it went out."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a person. `key` names it within the attempt; without one it is known by its order."""

    kind: Kind
    prompt: str
    title: str = ""
    context: str = ""
    options: Sequence[Option] = ()
    schema: Mapping[str, Any] | None = None
    draft: Any = None
    due_in_ms: int | None = None
    default: str = ""
    key: str = ""
    assignee: str = ""  # a person of the roster, or a role; "" for whoever may decide
    stops: bool = True  # whether the worker waits for the answer, or goes on


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person said, or that nobody will: `cancelled` after a cancel or a dismissal, `expired` past the
    due time.

    `values` holds the form of an `input`; `draft` the frozen draft of an approval, review or gate, `draft_hash` its
    hash as people saw it. `outlet`: where the product itself sends the draft of a gate; "" where its worker does.
    """

    kind: str
    key: str
    choice: str = ""
    text: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""
    draft: Any = None
    draft_hash: str = ""
    outlet: str = ""
    cancelled: bool = False
    expired: bool = False

    @property
    def approved(self) -> bool:
        """Whether a person said yes. Silence is never a yes, a cancel neither."""
        return not self.cancelled and self.choice in {"approve", "yes", "send"}


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """The task as its worker sees it, on this attempt."""

    id: str
    goal: str
    title: str = ""
    context: str = ""
    input: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    labels: Sequence[str] = ()
    board: str = ""
    assignee: str = ""
    attempt: int = 1
    feedback: str = ""
    dep_outputs: Mapping[str, Any] = field(default_factory=dict)
    steers: Sequence[str] = ()
    skills: Sequence[str] = ()
    answers: Sequence[Answer] = ()

    def wire(self) -> dict[str, Any]:
        """The task JSON of programs."""
        return {
            "id": self.id,
            "goal": self.goal,
            "title": self.title,
            "context": self.context,
            "input": dict(self.input),
            "metadata": dict(self.metadata),
            "labels": list(self.labels),
            "board": self.board,
            "assignee": self.assignee,
            "attempt": self.attempt,
            "feedback": self.feedback,
            "dep_outputs": dict(self.dep_outputs),
            "messages": list(self.steers),
            "skills": list(self.skills),
            "answers": [
                {
                    "key": a.key,
                    "kind": a.kind,
                    "choice": a.choice,
                    "text": a.text,
                    "values": dict(a.values),
                    "by": a.by,
                }
                for a in self.answers
            ],
        }


class Port(Protocol):
    """The way of a worker's words into the product. Every method blocks and may be called from any thread.

    Each raises `Stopped` once the attempt is over for this worker.
    """

    def report(self, output: Any, note: str) -> None:
        """A checkpoint and a progress note."""

    def ask(self, question: Ask) -> Answer | None:
        """Ask, or find the answer of the same question; None while it is open. Raises ReplayMismatch."""

    def messages(self) -> list[str]:
        """The messages that were sent to the task since the last look."""

    def file(self, filing: Mapping[str, Any]) -> str:
        """File a task that this one needs; answers its id. The same filing of one attempt is one task."""

    def recorded_step(self, name: str) -> tuple[bool, Any]:
        """Whether a step's result is known, and the result."""

    def record_step(self, name: str, result: Any) -> Any:
        """Keep a step's result; answers it as it was stored."""

    def say(self, text: str, kind: str = "message", data: Mapping[str, Any] | None = None) -> None:
        """One line of the transcript."""

    def complete_step(self, summary: str, handoff: Any, blockers: Any) -> bool:
        """Say that the flow step of this turn is complete; whether that was taken down."""


class _Task:
    """The fields of the task, the same for sync and async workers."""

    def __init__(self, facts: TaskFacts, port: Port) -> None:
        self._facts, self._port = facts, port
        self.id, self.goal, self.title, self.context = facts.id, facts.goal, facts.title, facts.context
        self.input, self.metadata, self.labels = dict(facts.input), dict(facts.metadata), list(facts.labels)
        self.board, self.assignee = facts.board, facts.assignee
        self.attempt, self.feedback = facts.attempt, facts.feedback
        self.dep_outputs, self.steers = dict(facts.dep_outputs), list(facts.steers)
        self.skills, self.answers = tuple(facts.skills), list(facts.answers)


class SyncWorkerTask(_Task):
    """The task of a sync worker. `WorkerTask` has the same methods, to be awaited."""

    def report_progress(self, output: Any = None, note: str = "") -> None:
        """Show how far the work is: `output` is a checkpoint of the result, `note` one line for the card."""
        self._port.report(output, note)

    def suspend_for_user(
        self,
        kind: Kind = "question",
        title: str = "",
        prompt: str = "",
        options: Sequence[Option] = (),
        draft: Any = None,
        due_in_ms: int | None = None,
        key: str = "",
        *,
        schema: Mapping[str, Any] | None = None,
        context: str = "",
        default: str = "",
        assignee: str = "",
    ) -> Answer:
        """Ask a person and stop until the answer is there: the worker is then called again from its start.

        Holds that it asked already return their answers at once. Raises SuspensionTimeout for a review or an
        input whose due time passed.
        """
        ask = Ask(kind, prompt, title, context, options, schema, draft, due_in_ms, default, key, assignee)
        answer = self._port.ask(ask)
        if answer is None:
            raise Suspended(title or prompt)
        return _in_time(answer, ask)

    def hold_task_for_user(
        self,
        kind: Kind = "question",
        title: str = "",
        prompt: str = "",
        options: Sequence[Option] = (),
        draft: Any = None,
        due_in_ms: int | None = None,
        key: str = "",
        *,
        schema: Mapping[str, Any] | None = None,
        context: str = "",
        default: str = "",
        assignee: str = "",
    ) -> Answer | None:
        """Ask a person and go on: None while it is open. A worker that asked so and returned owes no result
        yet.
        """
        ask = Ask(kind, prompt, title, context, options, schema, draft, due_in_ms, default, key, assignee, False)
        answer = self._port.ask(ask)
        return None if answer is None else _in_time(answer, ask)

    def step(self, name: str, fn: Callable[[], Any]) -> Any:
        """The result of `fn`, kept as JSON under `name`: after a stop it is not done again."""
        known, result = self._port.recorded_step(name)
        return result if known else self._port.record_step(name, fn())

    def send(self, answer: Answer, fn: Callable[[Any], Any]) -> Any:
        """Do an outward act that was approved: `fn(draft)` is called once, with the draft that people saw.

        Answers what `fn` returned, also to a repeat. Where the roster names an outlet the product sends it, and `fn`
        is not called. Raises SendInDoubt where an earlier call may have gone out.
        """
        name = _may_send(answer)
        known, result = self._port.recorded_step(name)
        if known or answer.outlet:
            return result
        _begin_send(self._port, name)
        return self._port.record_step(name, fn(answer.draft))

    def messages(self) -> list[str]:
        """The messages that people sent to the task since the last look."""
        return self._port.messages()

    def file_task(
        self,
        goal: str,
        *,
        title: str = "",
        context: str = "",
        input: Mapping[str, Any] | None = None,
        labels: Sequence[str] = (),
        priority: int = 0,
        deps: Sequence[str] = (),
        assignee: str = "",
        max_attempts: int | None = None,
        checker: str = "",
        held: bool = False,
    ) -> str:
        """File a task on the same board and go on; answers its id.

        A worker that is called again after a stop and files the same once more gets the task it filed. Raises a
        Refusal of `boards.errors` where the board's rules are against it.
        """
        filing: dict[str, Any] = {
            "goal": goal,
            "title": title,
            "context": context,
            "input": dict(input or {}),
            "labels": list(labels),
        }
        filing |= {"priority": priority, "deps": list(deps), "assignee": assignee, "max_attempts": max_attempts}
        return self._port.file(filing | {"checker": checker, "held": held})

    def log(self, text: str) -> None:
        """One line in the transcript."""
        self._port.say(text)

    def complete_step(self, summary: str, handoff: Any = None, blockers: Any = None) -> bool:
        """Say that the step of the flow that this turn works is complete; it moves on when the turn ends.

        The first word counts; a person's message after it takes it back. False where nothing waits for it.
        """
        return self._port.complete_step(summary, handoff, blockers)


def _awaited(
    method: Callable[Concatenate[SyncWorkerTask, Args], Result],
) -> Callable[Concatenate[WorkerTask, Args], Coroutine[Any, Any, Result]]:
    """The method of the sync task, called in a thread: one signature and one docstring for both."""

    @functools.wraps(method)
    async def call(task: WorkerTask, /, *args: Args.args, **options: Args.kwargs) -> Result:
        return await task._in_thread(functools.partial(method, task._sync, *args, **options))

    return call


class WorkerTask(_Task):
    """The task of an async worker: `SyncWorkerTask` with methods that are awaited and never block the event
    loop.
    """

    def __init__(self, facts: TaskFacts, port: Port, threads: Executor | None = None) -> None:
        super().__init__(facts, port)
        self._threads = threads
        self._sync = SyncWorkerTask(facts, port)

    report_progress = _awaited(SyncWorkerTask.report_progress)
    suspend_for_user = _awaited(SyncWorkerTask.suspend_for_user)
    hold_task_for_user = _awaited(SyncWorkerTask.hold_task_for_user)
    messages = _awaited(SyncWorkerTask.messages)
    file_task = _awaited(SyncWorkerTask.file_task)
    log = _awaited(SyncWorkerTask.log)
    complete_step = _awaited(SyncWorkerTask.complete_step)

    async def step(self, name: str, fn: Callable[[], Any | Awaitable[Any]]) -> Any:
        """The result of `fn`, kept as JSON under `name`: after a stop it is not done again."""
        known, result = await self._in_thread(functools.partial(self._port.recorded_step, name))
        if known:
            return result
        made = fn()
        made = await made if inspect.isawaitable(made) else made
        return await self._in_thread(functools.partial(self._port.record_step, name, made))

    async def send(self, answer: Answer, fn: Callable[[Any], Any | Awaitable[Any]]) -> Any:
        """As of the sync task; `fn` may be a coroutine function."""
        name = _may_send(answer)
        known, result = await self._in_thread(functools.partial(self._port.recorded_step, name))
        if known or answer.outlet:
            return result
        await self._in_thread(functools.partial(_begin_send, self._port, name))
        made = fn(answer.draft)
        made = await made if inspect.isawaitable(made) else made
        return await self._in_thread(functools.partial(self._port.record_step, name, made))

    async def _in_thread(self, call: Callable[[], Result]) -> Result:
        # `Suspended` and `Stopped` pass through the future as they are: neither is an exit of the
        # interpreter.
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def _may_send(answer: Answer) -> str:
    """The name under which the sending of this draft is kept; PermissionError where nobody said yes."""
    if not answer.approved:
        raise PermissionError(f"“{answer.key}” was not approved, so nothing is sent.")
    return f"send:{answer.key[:150]}:{answer.draft_hash[:16]}"


def _begin_send(port: Port, name: str) -> None:
    """Keep that it is about to go out, before it does: what died in between is never sent a second time by itself."""
    began = f"{name}:began"
    known, _ = port.recorded_step(began)
    if known:
        raise SendInDoubt(
            "It was being sent when its worker stopped, so it may have gone out. Look before it is sent again."
        )
    port.record_step(began, True)


def _in_time(answer: Answer, ask: Ask) -> Answer:
    if answer.expired and ask.kind in {"review", "input"}:
        raise SuspensionTimeout(f"Nobody answered “{ask.title or ask.prompt}” before its due time.")
    return answer
