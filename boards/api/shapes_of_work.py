"""What an outside worker says and is told: its claim, its task, its questions and its result (spec: 06 section 3)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SecretStr
from pydantic import SkipValidation as Given

from boards.api.shapes import Body, JsonObject, Told
from boards.api.shapes_of_tasks import OptionBody, TaskFields
from boards.workers.outside import Given as GivenTask
from boards.workers.protocol import Answer

LONGEST_WAIT_S = 30


class ClaimBody(Body):
    """What is wanted. Everything may be left out where the key sees one board alone."""

    board: str = Field("", max_length=100, description="A board's slug or number; needed where the key sees several.")
    assignees: list[str] = Field(
        default=[], max_length=50, description="Names to claim for; none: every name that is worked from outside."
    )
    limit: int = Field(1, description="How many at most, 1 to 50.")
    lease_ms: int | None = Field(None, description="How long each is yours without a renewal; else as the board says.")
    wait_s: float = Field(0, ge=0, le=LONGEST_WAIT_S, description="How long to wait where there is nothing yet.")
    host: str = Field("", description="Where the worker runs, for people to read.")


class TicketBody(Body):
    ticket: SecretStr = Field(description="As the claim answered it.", max_length=200)
    task: str = Field("", max_length=300, description="The task that is meant; another than the ticket's is refused.")


class StartBody(TicketBody):
    lease_ms: int | None = Field(None, description="The lease from the start on; else as long as the claim said.")


class RenewBody(TicketBody):
    lease_ms: int | None = Field(None, description="How long from now; else as long as the claim said.")


class ItemBody(Body):
    """A line of the transcript; over 64 KiB it is cut, and says so."""

    text: Given[str]
    kind: Literal["output", "message", "error", "status"] = "output"
    data: Given[Any] = None


class OutputBody(TicketBody):
    items: list[ItemBody] = Field(description="1 to 200 lines, in their order.")


class ProgressBody(TicketBody):
    note: Given[str | None] = Field(None, description="A line that people see on the card.")
    output: Given[Any] = Field(None, description='A checkpoint. {"done": 3, "total": 8} is shown as a meter.')


class AskBody(TicketBody):
    """A question to a person. Asked again it is the same one, and answers what was said."""

    kind: Literal["question", "confirm", "approval", "review", "input", "gate"] = "question"
    prompt: Given[str]
    title: Given[str] = ""
    context: Given[str] = ""
    options: list[OptionBody] = Field(default=[])
    schema_: Given[JsonObject | None] = Field(None, alias="schema", description="Of kind input: the form.")
    draft: Given[Any] = Field(None, description="What is to be read before a yes.")
    due_in_ms: Given[int | None] = None
    default: Given[str] = Field("", description="The answer that stands where nobody gives one in time.")
    assignee: Given[str] = Field("", description="A person of the roster, or a role; empty: whoever may decide.")
    key: str = Field("", max_length=150, description="Names the question within the attempt; else its content does.")


class FileBody(TicketBody):
    filing: TaskFields = Field(description="The task that is needed.")


class StepBody(TicketBody):
    summary: Given[str] = Field("", description="What was done, in a line.")
    handoff: Given[Any] = Field(None, description="What the next step is told.")
    blockers: Given[Any] = None


class CompleteBody(TicketBody):
    output: Given[Any] = Field(None, description="The result; left out: the latest checkpoint.")


class FailBody(TicketBody):
    error: str = Field("", description="Why it failed: the next attempt is told.")
    ending: Literal["", "errored", "cancelled"] = Field("", description="Ends the task for good, its tries unspent.")


class HandBackBody(TicketBody):
    reason: Given[str] = ""


class SpentBody(Body):
    input_tokens: int | None = Field(None, ge=0, le=10**12)
    output_tokens: int | None = Field(None, ge=0, le=10**12)
    cost_usd: float | None = Field(None, ge=0, le=10**9)
    harness: str = Field("", max_length=200)
    model: str = Field("", max_length=200)


class SpendBody(TicketBody):
    """What was spent; `settled` adds up, `live` is the tally of what still runs, without `spend` its end."""

    part: Literal["settled", "live"] = "settled"
    spend: SpentBody | None = None


class AnswerTold(Told):
    """What a person said, or that nobody will."""

    key: str
    kind: str
    choice: str
    text: str
    values: JsonObject
    by: str
    approved: bool = Field(description="Whether a person said yes.")
    cancelled: bool = Field(description="It was dismissed: nobody answers.")
    expired: bool = Field(description="Nobody answered in time.")
    draft: Any
    draft_hash: str
    outlet: str = Field(description="Where the product itself sends the draft of a gate; empty: its worker does.")


class WorkTask(Told):
    """The task as its worker sees it, on this attempt."""

    id: str
    goal: str
    title: str
    context: str
    input: JsonObject
    metadata: JsonObject
    labels: list[str]
    board: str
    assignee: str
    attempt: int
    feedback: str = Field(description="What the attempt before it, or a checker, left to do better.")
    dep_outputs: JsonObject = Field(description="The results of its dependencies, by their ids.")
    messages: list[str]
    skills: list[str]
    answers: list[AnswerTold]


class StartedWork(Told):
    lease_until: str | None
    lease_ms: int | None
    task: WorkTask


class Work(StartedWork):
    """One task that is yours. The ticket is told here and nowhere else."""

    ticket: str
    resumed: bool = Field(description="It goes on after an answer, on the same attempt.")


class Claimed(Told):
    claimed: list[Work] = Field(description="Empty where there was nothing to take.")


class StartedTold(Told):
    started: StartedWork


class LeaseTold(Told):
    lease_until: str | None = Field(description="The new deadline; null: the row has no lease, nobody takes it.")
    messages: list[str] = Field(description="All messages that people sent to the task so far.")


class AskedTold(Told):
    hold: int
    state: Literal["open", "answered", "expired", "discarded"]
    answer: AnswerTold | None = Field(description="null: nobody has answered yet.")


class FiledTold(Told):
    id: str
    status: str


class StepTold(Told):
    taken: bool = Field(description="false: the task is no turn of a flow, or that was said already.")


class WorkWritten(Told):
    """`status`: how the task stands after the write."""

    result: Literal["recorded", "unchanged"]
    status: str


def work_told(given: GivenTask) -> dict[str, Any]:
    return started_told(given) | {"ticket": given.token, "resumed": given.resumed}


def started_told(given: GivenTask) -> dict[str, Any]:
    facts = given.facts.wire()
    lease = given.task.lease_until
    return {
        "lease_until": lease.isoformat() if lease else None,
        "lease_ms": given.task.lease_duration_ms,
        "task": facts | {"answers": [answer_told(each) for each in given.facts.answers]},
    }


def answer_told(answer: Answer) -> dict[str, Any]:
    return {
        "key": answer.key,
        "kind": answer.kind,
        "choice": answer.choice,
        "text": answer.text,
        "values": dict(answer.values),
        "by": answer.by,
        "approved": answer.approved,
        "cancelled": answer.cancelled,
        "expired": answer.expired,
        "draft": answer.draft,
        "draft_hash": answer.draft_hash,
        "outlet": answer.outlet,
    }
