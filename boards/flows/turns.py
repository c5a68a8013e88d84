"""What a turn's end does to its run: its task ended, its hold was closed, or a person's message begins the next.

Handlers of `advance`, inside its transaction. Each answers the word that is stored with the operation.
"""

from __future__ import annotations

from typing import Any, Final

from boards.flows import decisions, runs, wip
from boards.flows.decisions import How, Turn, Verdict, Why
from boards.flows.entering import Arrival, changed_data, go
from boards.flows.situation import Situation, matcher, move_to, open_question, signal_of
from boards.flows.templating import TemplatingError
from boards.models import Event, FlowRun, Hold, StepChange, Task, Visit
from boards.states import HoldState, Phase, RunStatus, Status

OVERTAKEN: Final = "overtaken"
ENDED_RUN: Final = "ended_run"
_PAUSES: Final = {Why.CANCEL_PAUSES, Why.OTHER_STOP}


def task_ended(at: Situation) -> str:
    """The step's task ended: its output completes the turn, its error fails the step, any other end pauses the run."""
    task = runs.task_of(at.visit)
    ending = at.facts.get("ending", "")
    if task is None or task.pk != at.facts.get("task_key") or task.status != ending:
        return OVERTAKEN  # another task is the turn's by now, or this one was retried and ended anew
    if _is_over(at.run, completed=ending == Status.COMPLETED):
        return ENDED_RUN
    if ending == Status.ERRORED:
        runs.fail_step(at.run, at.visit, task.error or "The task failed without saying why.", at.chain, at.cause)
        return "failed"
    how = decisions.ended_how(ending, at.cause)
    if how is How.NATURAL:
        runs.reopen(at.run, at.chain)
        runs.write_visit(at.visit, output=task.output, error="")
    signal = signal_of(at.run, at.visit)
    turn = Turn(how, open_question(at), signal=signal is not None)
    actor = task.assignee or at.run.flow.name if how is How.NATURAL else _canceller(task)
    return _end_turn(at, turn, actor, StepChange.Trigger.ON_TURN_COMPLETE)


def _is_over(run: FlowRun, *, completed: bool) -> bool:
    """A failed run keeps its place: its own task, retried from its page and completed, makes it go on."""
    return run.status != RunStatus.ACTIVE and not (run.status == RunStatus.FAILED and completed)


def timed_out(at: Situation) -> str:
    """The step's due time passed and its task was withdrawn: the step fails with `timeout` (spec: 05 section 4.3)."""
    task = runs.task_of(at.visit)
    if task is None or task.pk != at.facts.get("task_key") or not task.withdrawn:
        return OVERTAKEN
    if at.run.status != RunStatus.ACTIVE:
        return ENDED_RUN
    runs.fail_step(at.run, at.visit, "The due time passed.", at.chain, "timeout")
    return "failed"


def hold_closed(at: Situation) -> str:
    """The step's hold was closed: the answer is the step's output; past its due time it reads as a no."""
    hold = Hold.objects.filter(pk=int(at.facts["hold"]), visit=at.visit).first()
    if hold is None or hold.state == HoldState.OPEN:
        return OVERTAKEN
    if at.run.status != RunStatus.ACTIVE:
        return ENDED_RUN
    if hold.state == HoldState.DISCARDED:
        return _stay(at, Verdict(Why.OTHER_STOP))
    answer = hold.answer or {}
    yes = hold.state == HoldState.ANSWERED and answer.get("choice") == "approve"
    output = {
        "approved": yes,
        "choice": answer.get("choice", ""),
        "note": answer.get("text", ""),
        "by": hold.answered_by_name,
    }
    if yes and hold.draft is not None:
        output["draft"] = hold.draft  # what was approved, for the steps that act on it
    runs.write_visit(at.visit, output=output)
    turn = Turn(How.ANSWERED, open_question(at), refused=not yes)
    return _end_turn(at, turn, hold.answered_by_name, StepChange.Trigger.APPROVAL)


def turn_start(at: Situation) -> str:
    """A person's message is about to start a turn: it may move the card, without the target's entry events."""
    if at.step is None or at.run.status == RunStatus.CANCELLED:
        return ENDED_RUN
    verdict = decisions.turn_start(at.flow, at.step)
    target = at.flow.step(verdict.target) if verdict.target else None
    if target is None:
        runs.write(at.run, signal=None)
        return verdict.why.value
    change = StepChange.Trigger.ON_TURN_START
    try:
        go(at.run, at.flow, Arrival(target, at.chain, at.chain.name, change, runs_entry=False, cause=at.cause))
    except TemplatingError as error:
        runs.fail_step(at.run, at.visit, str(error), at.chain, at.cause)
        return "failed"
    return f"moved to {target.key}"


def _end_turn(at: Situation, turn: Turn, actor: str, change: StepChange.Trigger) -> str:
    """Ask for the verdict on the turn and write it."""
    try:
        verdict = decisions.turn_complete(at.flow, at.step, turn, matcher(at))
        new_data = changed_data(at.run, at.flow, verdict.side_effects, at.visit.output)
        signal = signal_of(at.run, at.visit) if verdict.uses_signal else None
        fields: dict[str, Any] = {"signal": None} if verdict.clears_signal else {}
        runs.write(at.run, data=new_data, **fields)
        if verdict.target is not None:
            return move_to(at, verdict.target, actor, change, signal)
    except TemplatingError as error:
        runs.fail_step(at.run, at.visit, str(error), at.chain, at.cause)
        return "failed"
    if verdict.why is Why.REFUSED:
        runs.fail_step(at.run, at.visit, _refused_words(at.visit), at.chain, at.cause)
        return verdict.why.value
    return _stay(at, verdict)


def _stay(at: Situation, verdict: Verdict) -> str:
    """Nothing leads on: the run waits in its step, or is paused there where its turn was stopped."""
    stopped = at.facts.get("ending") == Status.CANCELLED
    phase = Phase.PAUSED if verdict.why in _PAUSES or stopped else Phase.WAITING
    runs.wait(at.run, at.visit, phase, at.chain, verdict.why.value)
    wip.owe_waits(at.run)
    return verdict.why.value


def _refused_words(visit: Visit) -> str:
    told = visit.output or {}
    if told.get("choice") != "reject" or told.get("by") == "the due time":
        return "Nobody answered before the due time, which reads as a no."
    words = f": {told['note']}" if told.get("note") else "."
    return f"{told.get('by') or 'Somebody'} rejected it{words}"


def _canceller(task: Task) -> str:
    event = Event.objects.filter(task=task, kind__in=["task.cancelled", "task.skipped"]).order_by("pk").last()
    return event.actor if event else ""
