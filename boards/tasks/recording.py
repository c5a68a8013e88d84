"""What a board's own code keeps of each ending, and what the runs of a task have spent (spec: 01 section 2, 03.5).

A registered function runs inside the ending's transaction, so it may run again with it: it reads the row and the ending
and nothing else. What it answers is stored with the ending or not at all; where it raises the ending stands without it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction

from boards.actors import Chain
from boards.debts import owing
from boards.debts.kinds import Undeliverable, pays
from boards.errors import TaskNotFound
from boards.locks import Rank, engine_transaction, taking
from boards.models import Attempt, Debt, Task
from boards.states import Status, Verb
from boards.tasks import decisions, rows
from boards.tasks.cleaning import checked_metadata, report_json
from boards.tasks.types import Reason, Recorded, TaskWriteOutcome, Ticket

log = logging.getLogger(__name__)

KIND: Final = "record_ending"


@dataclass(frozen=True, slots=True)
class EndingSeen:
    """`name`: completed, handed_in, failed (a try is left), errored, suspended, cancelled, withdrawn or abandoned."""

    name: str
    output: Any = None
    error: str = ""


Recorder = Callable[[Task, EndingSeen], Mapping[str, Any] | None]
RECORDERS: Final[dict[str, Recorder]] = {}


def record_ending(board: str) -> Callable[[Recorder], Recorder]:
    """Register who sees each ending of a board (by its slug) before it is written: `recorder(row, ending)`.

    The row is as it was before. What it answers is merged into the row's metadata. Where it raises, or answers what is
    no metadata, operators see a row in *Needs you*.
    """

    def register(recorder: Recorder) -> Recorder:
        if RECORDERS.get(board, recorder) is not recorder:
            raise AssertionError(f"Two functions record the endings of the board {board!r}.")
        RECORDERS[board] = recorder
        return recorder

    return register


def ending_name(verb: Verb, to: str) -> str:
    """What an ending is called for those who record it; "" where the row only goes back."""
    if verb in _GO_BACK or (verb is Verb.SEND_BACK and to != Status.ERRORED):
        return ""
    if verb is Verb.FAIL and to == Status.PENDING:
        return "failed"
    return _NAMES.get(verb) or ("handed_in" if to == Status.NEEDS_CHECK else str(to))


_GO_BACK: Final = frozenset({Verb.HAND_BACK, Verb.RECLAIM})
_NAMES: Final = {Verb.FLOW_DEADLINE: "withdrawn", Verb.ABANDON: "abandoned"}


def add_metadata(task: Task, name: str, changes: dict[str, Any]) -> str:
    """Let the board's function add to what is about to be written; answers why it could not, in words."""
    recorder = RECORDERS.get(task.board.slug)
    if recorder is None or not name:
        return ""
    error = changes.get("error") or changes.get("feedback") or ""
    seen = EndingSeen(name, changes.get("output", task.output), error if name != "completed" else "")
    try:
        with transaction.atomic():  # a statement of its own that fails must not take the ending with it
            added = recorder(task, seen)
        if added:
            changes["metadata"] = {**changes.get("metadata", task.metadata), **checked_metadata(dict(added))}
    except Exception as problem:
        log.exception("The ending of task %s was not recorded by its board's function", task.public_id)
        return f"{type(problem).__name__}: {problem}"[:2000]
    return ""


def note_failure(task: Task, name: str, words: str) -> None:
    """Leave a row for operators about an ending that stands without its addition."""
    data = {"ending": name, "attempt": task.attempts}
    owing.note_undeliverable(KIND, f"{KIND}:{task.pk}:{task.attempts}:{task.revision}", task, words, data)


@pays(KIND)
def seen_only(debt: Debt) -> bool:
    raise Undeliverable("It cannot be recorded any more. Mark it as seen.")


# What was spent.


def record_spend(
    chain: Chain, task: Task | int, request_id: str, part: str, spend: Mapping[str, Any] | None, *, claim: Ticket
) -> TaskWriteOutcome:
    """Keep what a request has spent. `part` "settled": added to what is over; "live": in place of the running tally,
    None where it ended.

    `spend`: input_tokens, output_tokens, cost_usd (numbers; left out where nothing reports one), harness, model. Fenced
    by the row's identity only, so that what a failed attempt spent is kept after the row has settled. No event.
    Declines with `not-my-task`; raises TaskNotFound, and ValueError for another part.
    """
    if part not in {"settled", "live"}:
        raise ValueError(f"part must be settled or live, not {part!r}.")
    return _record_spend(chain, task, request_id, part, None if spend is None else report_json(dict(spend)), claim)


@engine_transaction
def _record_spend(
    chain: Chain, task: Task | int, request_id: str, part: str, spend: dict[str, Any] | None, claim: Ticket
) -> TaskWriteOutcome:
    row, _ = rows.lock_one(task)
    if row.board.space_id != chain.space_id:
        raise TaskNotFound
    if not decisions.names_row(claim, row):
        return TaskWriteOutcome(Recorded.DECLINED, row.status, Reason.NOT_MY_TASK, "This claim is for another task.")
    taking(Rank.ATTEMPT)
    attempt = Attempt.objects.select_for_update(no_key=True).get(task=row.pk, number=claim.attempt)
    requests: list[dict[str, Any]] = list(attempt.spend)
    entry = next((one for one in requests if one["request_id"] == request_id), None)
    if entry is None:
        entry = {"request_id": request_id, "attempt": claim.attempt, "settled": {}, "live": None}
        entry |= {"harness": "", "model": ""}
        requests.append(entry)
    _add(entry, part, spend)
    Attempt.objects.filter(pk=attempt.pk).update(spend=requests)
    return TaskWriteOutcome(Recorded.RECORDED, row.status)


def _add(entry: dict[str, Any], part: str, spend: dict[str, Any] | None) -> None:
    told = spend or {}
    for name in ("harness", "model"):
        entry[name] = told.get(name) or entry[name]
    amounts = {name: value for name, value in told.items() if _is_amount(value)}
    if part == "live":
        entry["live"] = None if spend is None else amounts
        return
    settled = entry["settled"]
    entry["settled"] = settled | {name: settled.get(name, 0) + value for name, value in amounts.items()}


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def spend_of(task: Task) -> dict[str, Any] | None:
    """The task's `spend`: the requests of all its attempts, oldest first; None where none has reported."""
    spent = Attempt.objects.filter(task=task.pk).order_by("number").values_list("spend", flat=True)
    requests = [one for attempt in spent for one in attempt]
    return {"requests": requests} if requests else None


def spend_view(task: Task) -> dict[str, Any]:
    """What all attempts of a task have spent: an amount is None until something reports one, never 0.

    `unreported`: how many requests have reported no tokens; `live`: whether one is still at work.
    """
    requests: list[dict[str, Any]] = (spend_of(task) or {}).get("requests", [])
    parts = [part for one in requests for part in (one["settled"], one["live"] or {})]
    view: dict[str, Any] = {name: requests[-1][name] if requests else "" for name in ("harness", "model")}
    for name in ("input_tokens", "output_tokens", "cost_usd"):
        told = [part[name] for part in parts if name in part]
        view[name] = sum(told) if told else None
    tokens = {"input_tokens", "output_tokens"}
    view["unreported"] = sum(not tokens & {*one["settled"], *(one["live"] or {})} for one in requests)
    return view | {"live": any(one["live"] is not None for one in requests)}
