"""What a turn's end does to its run: its task ended, its hold was closed, or a person's message begins the next.

Handlers of `advance`, inside its transaction. Each answers the word that is stored with the operation. Works of which a
step has several are told apart in `boards.flows.branches`.
"""

from __future__ import annotations

from boards.flows import approving, branches, decisions, failing, runs
from boards.flows.decisions import How, Turn, Verdict, Why
from boards.flows.definition import StepDefinition
from boards.flows.ending import answer_of, end_turn, stay
from boards.flows.entering import Arrival, go
from boards.flows.outcomes import ENDED_RUN, OVERTAKEN, is_over
from boards.flows.refusals import IllegalRunMove
from boards.flows.situation import Situation, open_question, signal_of, working
from boards.flows.stopping import answer_settles, refuse_stopping
from boards.flows.templating import TemplatingError
from boards.models import Event, Hold, StepChange, Task
from boards.states import HoldState, RunStatus, Status


def task_ended(at: Situation) -> str:
    """The step's task ended: its output completes the turn, its error fails the step, any other end pauses the run."""
    if branch := branches.of_task(at):
        return branches.task_ended(at, branch)
    task = _ended_task(at)
    ending = at.facts.get("ending", "")
    if task is None or task.pk != at.facts.get("task_key") or task.status != ending:
        return OVERTAKEN  # another task is the turn's by now, or this one was retried and ended anew
    if is_over(at.run, completed=ending == Status.COMPLETED):
        return ENDED_RUN
    if ending == Status.ERRORED:
        words = task.error or "The task failed without saying why."
        failing.fail(at.run, at.flow, at.visit, words, at.chain, at.cause)
        return "failed"
    how = decisions.ended_how(ending, at.cause)
    if how is How.NATURAL:
        runs.reopen(at.run, at.chain)
        runs.write_visit(at.visit, output=task.output, error="")
    signal = signal_of(at.run, at.visit)
    turn = Turn(how, open_question(at), signal=signal is not None)
    actor = task.assignee or at.run.flow.name if how is How.NATURAL else _canceller(task)
    return end_turn(at, turn, actor, StepChange.Trigger.ON_TURN_COMPLETE)


def _ended_task(at: Situation) -> Task | None:
    """What a turn's end needs of its task; a goal or a context may be long."""
    if at.visit.task_id is None:
        return None
    told = ("status", "output", "error", "assignee")
    return Task.objects.only(*told).filter(pk=at.visit.task_id).first()


def hold_closed(at: Situation) -> str:
    """A hold of the step was closed: the answer is the step's output; past its due time it reads as a no."""
    hold = Hold.objects.filter(pk=int(at.facts["hold"]), visit=at.visit).first()
    if hold is None or hold.state == HoldState.OPEN:
        return OVERTAKEN
    if at.run.status != RunStatus.ACTIVE:
        return ENDED_RUN
    if approving.is_of_move(hold):
        return approving.answered(at, hold)
    if hold.branch_id is not None:
        return branches.hold_closed(at, hold)
    if hold.state == HoldState.DISCARDED:
        return stay(at, Verdict(Why.OTHER_STOP))
    if hold.kind == "input":
        return _filled_in(at, hold)
    output = answer_of(hold)
    runs.write_visit(at.visit, output=output)
    turn = Turn(How.ANSWERED, open_question(at), refused=not output["approved"])
    return end_turn(at, turn, hold.answered_by_name, StepChange.Trigger.APPROVAL)


def _filled_in(at: Situation, hold: Hold) -> str:
    """The values of the form are the step's output; past its due time the step fails (spec: 05 section 2.1)."""
    if hold.state == HoldState.EXPIRED:
        failing.fail(at.run, at.flow, at.visit, branches.NOT_FILLED_IN, at.chain, "timeout")
        return "failed"
    runs.write_visit(at.visit, output=(hold.answer or {}).get("values"))
    turn = Turn(How.ANSWERED, open_question(at))
    return end_turn(at, turn, hold.answered_by_name, StepChange.Trigger.ON_TURN_COMPLETE)


def turn_start(at: Situation) -> str:
    """A person's message is about to start a turn: it may move the card, without the target's entry events.

    Facts: `message`, what the turn then begins with; without it the card is moved and that is all.
    """
    message = str(at.facts.get("message", ""))
    if at.step is None or at.run.status == RunStatus.CANCELLED:
        if message:
            raise IllegalRunMove("The run was cancelled, or its step can no longer be read. Start it again instead.")
        return ENDED_RUN
    verdict = decisions.turn_start(at.flow, at.step)
    target = at.flow.step(verdict.target) if verdict.target else None
    if message:
        _refuse_message(at, target)
        runs.say(at.run, f"{at.chain.name}: {message}")
    if target is None and not message:
        runs.write(at.run, signal=None)
        return verdict.why.value
    change = StepChange.Trigger.ON_TURN_START if target is not None else None
    step, told = target or at.step, f"{at.chain.name} wrote:\n{message}" if message else ""
    arrival = Arrival(step, at.chain, at.chain.name, change, runs_entry=False, cause=at.cause, message=told)
    try:
        go(at.run, at.flow, arrival)
    except TemplatingError as error:
        failing.fail(at.run, at.flow, at.visit, str(error), at.chain, at.cause)
        return "failed"
    return f"moved to {target.key}" if target is not None else "turn started"


def _refuse_message(at: Situation, target: StepDefinition | None) -> None:
    """Raises IllegalRunMove where a message can start no turn now."""
    if at.run.archived_at is not None:
        raise IllegalRunMove(decisions.ARCHIVED)
    refuse_stopping(at.visit)
    if working(at.visit) is not None:
        raise IllegalRunMove("Its task is at work by now. Send the message once more, to whoever works on it.")
    if answer_settles(at.visit) or open_question(at):
        raise IllegalRunMove("A question of this step is still open or settles. Answer it first.")
    if target is None and at.run.status == RunStatus.COMPLETED:
        raise IllegalRunMove("The run is completed. Move it, or start it again.")


def _canceller(task: Task) -> str:
    event = Event.objects.filter(task=task, kind__in=["task.cancelled", "task.skipped"]).order_by("pk").last()
    return event.actor if event else ""
