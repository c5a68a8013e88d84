"""Holds as JSON: what is asked, by whom, and what became of it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from boards.api.shapes import Body, JsonObject, Told
from boards.models import FlowRun, Hold
from boards.people import choices_of, closed_words
from boards.states import HoldState


class RunRef(Told):
    """A run, by its flow's key and its number."""

    flow: str
    run: int
    name: str


class ChoiceTold(Told):
    value: str
    label: str


class HoldTold(Told):
    """One thing that waits, or waited, on a person. `choices`: what `choice` may be; none where it is free text."""

    id: int
    kind: str
    state: Literal["open", "answered", "expired", "discarded"]
    board: str
    task: str | None
    run: RunRef | None
    prompt: str
    title: str
    context: str
    choices: list[ChoiceTold]
    options: list[JsonObject]
    schema_: JsonObject | None = Field(alias="schema")
    draft: Any
    draft_hash: str = Field(description="Send it back as `shown_hash`: an answer is bound to what was read.")
    asker: str
    asked_at: str
    due_at: str | None
    default: str
    assignee: str | None = Field(description="The person who is asked; null: whoever may decide, or `assignee_role`.")
    assignee_role: str
    answer: JsonObject | None
    answered_by: str
    answered_at: str | None
    what_happened: str = Field(description="Who closed it, how and when, in words; empty while it is open.")
    revision: int


class AnswerBody(Body):
    """An answer. Which of the fields it takes depends on the kind; a question takes words without a choice too."""

    choice: str = Field("", description="approve, reject, yes, no, send, …: one of `choices`.")
    text: str = Field("", description="Words, or the note of a decision.")
    values: JsonObject | None = Field(None, description="Of kind input: what its schema asks for.")
    shown_hash: str = Field("", description="`draft_hash` as it was read.")


class DismissBody(Body):
    reason: str = Field("", description="Why nobody answers.")


def hold_wire(hold: Hold) -> dict[str, Any]:
    """Everything but what the server alone uses."""
    visit = hold.visit or (hold.task.visit if hold.task else None)
    return {
        "id": hold.pk,
        "kind": hold.kind,
        "state": hold.state,
        "board": hold.board.slug,
        "task": hold.task.public_id if hold.task else None,
        "run": run_ref(visit.run) if visit else None,
        "prompt": hold.prompt,
        "title": hold.title,
        "context": hold.context,
        "choices": [{"value": value, "label": label} for value, label in choices_of(hold)],
        "options": hold.options,
        "schema": hold.schema,
        "draft": hold.draft,
        "draft_hash": hold.draft_hash,
        "asker": hold.asker,
        "asked_at": hold.asked_at.isoformat(),
        "due_at": hold.due_at.isoformat() if hold.due_at else None,
        "default": hold.default,
        "assignee": hold.assignee.display if hold.assignee else None,
        "assignee_role": hold.assignee_role,
        "answer": hold.answer,
        "answered_by": hold.answered_by_name,
        "answered_at": hold.answered_at.isoformat() if hold.answered_at else None,
        "what_happened": "" if hold.state == HoldState.OPEN else closed_words(hold),
        "revision": hold.revision,
    }


def run_ref(run: FlowRun) -> dict[str, Any]:
    return {"flow": run.flow.key, "run": run.number, "name": run.name}
