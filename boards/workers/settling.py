"""How work ended, and what that writes: each ending becomes one settlement, and settlements are written in
batches.

A row that cannot be settled fails alone. A result that comes too late is kept aside in the transcript and
changes nothing (spec: 02 section 5, 03 sections 2-3).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from boards import people, tasks
from boards.models import TranscriptItem
from boards.states import Verb
from boards.tasks import Line, Options, Recorded, Settlement, TaskWriteOutcome
from boards.tasks.recorder_failures import Verdict
from boards.workers import outputs, plain_json
from boards.workers.accounting import did_land, keep_entry, verdict_of
from boards.workers.adapters import Asked, EndedForGood, Failed, Finished, StoppedEarly
from boards.workers.databases import AWAY
from boards.workers.runner import Run
from boards.workers.scribe import Scribe

log = logging.getLogger(__name__)

BATCH: Final = 200


class Other(StrEnum):
    """Endings that settle nothing."""

    SUSPEND = "suspend"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one run's ending. `outcome` None: there was nothing to write.

    `unrecorded`: the write raised, and the board keeps an entry about it; `silent`: that entry could not be kept.
    """

    run: Run
    verb: Verb | Other
    outcome: TaskWriteOutcome | None = None
    unrecorded: Verdict | None = None
    silent: bool = False


def settle(runs: Sequence[Run], scribe: Scribe) -> list[Settled]:
    """Write the endings of these runs. Raises only what an absent database raises; then all may be asked
    again.
    """
    for run in runs:
        _tell_detail(run, scribe)
    scribe.flush()
    wanted = [(run, _wish(run)) for run in runs]
    writes = [(run, wish) for run, wish in wanted if isinstance(wish, Settlement)]
    settled = [_settle_other(run, wish) for run, wish in wanted if isinstance(wish, Other)]
    for start in range(0, len(writes), BATCH):
        settled += _settle_batch(writes[start : start + BATCH], scribe)
    return settled


def _wish(run: Run) -> Settlement | Other:
    try:
        return settlement_of(run)
    except Exception as error:  # a schema that is no schema, say: that row's own trouble
        log.exception("The ending of task %s could not be read", run.task.public_id)
        return _fail(run, f"The result could not be checked: {type(error).__name__}: {error}")


def settlement_of(run: Run) -> Settlement | Other:
    """What this ending asks for (spec: 04 section 1.5: who asked and left owes no result)."""
    if run.cancelled:
        return Other.NOTHING
    match run.ending:
        case Asked():
            return Other.SUSPEND
        case Finished() | Failed() if run.port and run.port.open_asks:
            return Other.SUSPEND
        case Finished():
            return _finished(run, run.ending)
        case EndedForGood() if run.ending.task_id == run.task.public_id:
            return _for_good(run, run.ending)
        case EndedForGood():
            return _fail(run, f"{run.ending.reason} (meant for the task “{run.ending.task_id}”)")
        case Failed():
            return hand_back(run) if run.why == "shutdown" else _fail(run, run.ending.error)
        case StoppedEarly() if run.why in {"", "shutdown"}:
            return hand_back(run)
    return Other.NOTHING


def hand_back(run: Run, reason: str = "The drain shut down.") -> Settlement:
    """Give the task back unworked: no try and no abandonment spent."""
    text = reason if run.why == "shutdown" else "The worker stopped before its work was over."
    return Settlement(Verb.HAND_BACK, run.chain, run.ticket.task_key, _options(run), text=text)


def _finished(run: Run, ending: Finished) -> Settlement:
    output = ending.output
    if output is None and run.port is not None:
        output = run.port.checkpoint
    if words := plain_json.problem(output, "output"):
        return _fail(run, f"The result cannot be stored: {words}")
    if words := outputs.problem(run.task, output, given=ending.has_result):
        return _fail(run, words)
    key = run.ticket.task_key
    return Settlement(Verb.COMPLETE, run.chain, key, _options(run), output=output, receipt=run.receipt)


def _fail(run: Run, error: str) -> Settlement:
    key = run.ticket.task_key
    return Settlement(Verb.FAIL, run.chain, key, _options(run), text=error, receipt=run.receipt)


def _for_good(run: Run, ending: EndedForGood) -> Settlement:
    key = run.ticket.task_key
    if ending.ending == "cancelled":
        options = Options(claim=run.ticket, advisory=True)
        return Settlement(Verb.CANCEL, run.chain, key, options, text=ending.reason, via="worker")
    return Settlement(Verb.FAIL, run.chain, key, _options(run), text=ending.reason, for_good=True, receipt=run.receipt)


def _options(run: Run) -> Options:
    return Options(claim=run.ticket, if_allowed=True)


def _settle_other(run: Run, wish: Other) -> Settled:
    if wish is Other.NOTHING:
        return Settled(run, wish)
    try:
        return Settled(run, wish, people.suspend(run.ticket))
    except AWAY:
        raise
    except Exception:
        log.exception("Task %s could not be suspended and is left to its lease", run.task.public_id)
        return Settled(run, wish)


def _settle_batch(writes: Sequence[tuple[Run, Settlement]], scribe: Scribe) -> list[Settled]:
    try:
        outcomes = tasks.settle_many([settlement for _, settlement in writes])
    except AWAY:
        for run, _ in writes:
            run.doubtful = True
        raise
    except Exception as error:
        for run, _ in writes:
            run.broke = run.broke or f"{type(error).__name__}: {error}"
        if len(writes) > 1:  # one of them is poison, or all stand and the call failed after the commit: each alone
            return [settled for write in writes for settled in _settle_batch([write], scribe)]
        return [_settle_poison(*writes[0])]
    pairs = zip(writes, outcomes, strict=True)
    return [_settled(run, wish, outcome, scribe) for (run, wish), outcome in pairs]


def _settle_poison(run: Run, wish: Settlement) -> Settled:
    """Its own failure fails that row only; one that cannot even fail is left to its lease."""
    log.exception("The ending of task %s could not be written", run.task.public_id)
    if wish.receipt and (verdict := verdict_of(did_land(run))):
        return _unaccounted(run, wish, verdict)
    try:
        failure = _fail(run, "The result could not be recorded. The log of the drain says why.")
        return Settled(run, Verb.FAIL, tasks.settle_many([failure])[0])
    except AWAY:
        raise
    except Exception as error:
        log.exception("The failure of task %s could not be written", run.task.public_id)
        run.broke = f"{type(error).__name__}: {error}"
        if verdict := verdict_of(did_land(run)):
            return _unaccounted(run, _fail(run, ""), verdict)
        log.error("Task %s is left to its lease", run.task.public_id)
        return Settled(run, wish.verb)


def _unaccounted(run: Run, wish: Settlement, verdict: Verdict, outcome: TaskWriteOutcome | None = None) -> Settled:
    """The write stands although its call failed, or nobody can tell: an entry says so, and what is in doubt is
    released by a fenced failure, which declines where the first write landed.
    """
    kept = keep_entry(run, wish, verdict, run.broke or "The database went away while it was written.")
    if verdict is Verdict.COMMITTED:
        outcome = TaskWriteOutcome(Recorded.RECORDED, run.task.status)
    elif outcome is None:
        outcome = _release(run)
    return Settled(run, wish.verb, outcome, verdict, silent=not kept)


def _release(run: Run) -> TaskWriteOutcome | None:
    words = "Nobody can tell whether the result was recorded. The log of the drain says why."
    try:
        return tasks.settle_many([replace(_fail(run, words), receipt="")])[0]
    except AWAY:
        raise
    except Exception:
        log.exception("Task %s could not be released and is left to its lease", run.task.public_id)
        return None


def _settled(run: Run, wish: Settlement, outcome: TaskWriteOutcome, scribe: Scribe) -> Settled:
    if outcome.landed:
        return Settled(run, wish.verb, outcome)
    landed = did_land(run) if wish.receipt and (run.doubtful or run.broke) else False
    # The repeat of a write that was cut off by an absent database has recorded it: only what failed otherwise, or what
    # nobody can tell of, is told.
    if landed is None or (landed and run.broke):
        if landed is None:
            _keep_aside(run, scribe)
        return _unaccounted(run, wish, verdict_of(landed) or Verdict.UNDETERMINED, outcome)
    if not landed:
        _keep_aside(run, scribe)
    return Settled(run, wish.verb, outcome)


def _keep_aside(run: Run, scribe: Scribe) -> None:
    """A late result changes nothing; people can still read it."""
    if isinstance(run.ending, Finished) and run.ending.output is not None:
        text = json.dumps(run.ending.output, ensure_ascii=False, default=str)
    elif isinstance(run.ending, Failed) and run.why == "":
        text = run.ending.error
    else:
        return
    scribe.put(_line(run, text, TranscriptItem.Kind.LATE))


def _tell_detail(run: Run, scribe: Scribe) -> None:
    """What a developer wants to read of a failure, once, before the ending."""
    if isinstance(run.ending, Failed) and run.ending.detail and not run.told and not run.why:
        run.told = True
        scribe.put(_line(run, run.ending.detail, TranscriptItem.Kind.ERROR))


def _line(run: Run, text: str, kind: str) -> Line:
    return Line(run.ticket.task_key, run.ticket.attempt, text, kind, run.who, None, run.session_id)
