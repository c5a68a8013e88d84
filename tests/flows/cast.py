"""Flows for the tests, and a tiny drain: claims a task, ends it, and pays what that owes."""

from __future__ import annotations

import textwrap
from typing import Any

from boards import flows, people, tasks
from boards.actors import Chain
from boards.debts import paying
from boards.models import Board, Flow, FlowRun, Hold, Member, Role, Space, StepChange, Task
from boards.tasks import Claimed, Wanted
from tests import cast

# Two agents, a person between them, and the way back.
REVIEWED = """
key: reviewed
name: Reviewed
steps:
  - {key: write, name: Write, kind: agent, assignee: writer, prompt: "Write about {{ input.topic or 'anything' }}."}
  - key: approve
    name: Approve
    kind: approval
    prompt: Is it right?
    draft: "{{ steps.write.output.text }}"
    events:
      on_turn_complete:
        - {type: move_to_step, step: write, when: not output.approved}
        - move_to_next
  - {key: read, name: Read, kind: agent, assignee: reader, prompt: "Read it."}
  - {key: done, name: Done}
inputs:
  properties:
    topic: {type: string}
"""


class Stage:
    """A space with Anna (member), Olga (operator), a board with writer and reader, and flows on it."""

    def __init__(self) -> None:
        self.space: Space = cast.make_space()
        self.board: Board = cast.make_board(self.space)
        self.member: Member = cast.make_member(self.space)
        self.operator: Member = cast.make_member(self.space, "olga", Role.OPERATOR)
        self.anna: Chain = cast.chain_of(self.member)
        self.olga: Chain = cast.chain_of(self.operator)

    def flow(self, text: str = REVIEWED) -> Flow:
        return flows.save_version(self.olga, self.space, self.board, flows.validate(textwrap.dedent(text)))

    def started(self, text: str = REVIEWED, **inputs: Any) -> FlowRun:
        run = flows.start(self.anna, self.flow(text), inputs)
        settle()
        return fresh(run)

    def claim(self, name: str = cast.WRITER) -> Claimed:
        return cast.claimed(self.board, name)

    def complete(self, name: str = cast.WRITER, output: Any = None) -> None:
        got = self.claim(name)
        tasks.complete(cast.agent_chain(self.board, name), got.task, output or {"text": "Words"}, claim=got.ticket)
        settle()

    def fail(self, error: str, name: str = cast.WRITER) -> None:
        got = self.claim(name)
        tasks.fail(cast.agent_chain(self.board, name), got.task, error, claim=got.ticket)
        settle()

    def answer(self, run: FlowRun, choice: str, text: str = "", chain: Chain | None = None) -> Hold:
        hold = open_hold(run)
        answered = people.answer_hold(chain or self.anna, hold.pk, choice=choice, text=text, shown_hash=hold.draft_hash)
        settle()
        return answered

    def claimable(self, name: str = cast.WRITER) -> bool:
        wanted = [Wanted(self.board.pk, {name: 1})]
        return bool(tasks.claim(wanted, limit=1, claimed_by=cast.HERE))


def settle() -> None:
    """Pay what anyone may pay, until nothing is due; what a committed write does by itself right away."""
    while paying.pay_due():
        pass


def fresh(run: FlowRun) -> FlowRun:
    return FlowRun.objects.select_related("flow__board", "current_visit").get(pk=run.pk)


def place(run: FlowRun) -> str:
    """The key of the step in which a run stands, with the status of the run: "approve active"."""
    now = fresh(run)
    return f"{now.current_visit.step_key if now.current_visit else '-'} {now.status}"


def open_hold(run: FlowRun) -> Hold:
    return Hold.objects.get(visit__run=run, state="open")


def step_task(run: FlowRun) -> Task:
    """The task of the turn where the run stands."""
    visit = fresh(run).current_visit
    assert visit is not None
    assert visit.task_id is not None
    return Task.objects.get(pk=visit.task_id)


def history(run: FlowRun) -> list[str]:
    """Each step change as "from > to (trigger, actor)"."""
    changes = StepChange.objects.filter(run=run)
    return [f"{c.from_step} > {c.to_step} ({c.trigger}, {c.actor})" for c in changes]
