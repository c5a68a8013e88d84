"""What the fields of a filing may hold: cleaned and checked before anything is read or written; pure (spec: 01).

Also the refusals that a filing and an edit have in common, in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from boards import errors, schemas
from boards.models import Board
from boards.states import HoldKind, Status
from boards.tasks import cleaning
from boards.tasks.types import Filing, HoldFiling

# Options of a wait, which belong to `get_task`.
WAITING: Final = frozenset({"wait", "deadline_ms"})


def refuse_waiting(names: Iterable[str], index: int | None = None) -> None:
    """Raise CreateTaskDoesNotWait where a filing, as a mapping of names, also asks to wait. `index`: in a batch."""
    if found := sorted(WAITING.intersection(names)):
        facts: dict[str, Any] = {} if index is None else {"index": index}
        raise errors.CreateTaskDoesNotWait(field=found[0], **facts)


def checked_filing(filing: Filing, board: Board) -> Filing:
    """The filing as it can be stored. Raises InvalidInput, which names the field."""
    c = cleaning
    most = filing.max_attempts
    return Filing(  # by name: `replace` costs a batch as much as all the checks
        goal=c.checked_goal(filing.goal),
        id="" if filing.id in ("", None) else c.checked_id(filing.id),
        title=c.checked_title(filing.title),
        context=c.checked_text(filing.context, "context"),
        input=c.checked_object(filing.input, "input"),
        labels=c.checked_labels(filing.labels),
        metadata=c.checked_metadata(filing.metadata),
        priority=c.checked_int(filing.priority, "priority", -1_000_000, 1_000_000),
        due_at=c.checked_moment(filing.due_at, "due_at"),
        deps=c.checked_ids(filing.deps, "deps"),
        assignee=c.checked_text(filing.assignee, "assignee", 100),
        max_attempts=None if most is None else c.checked_int(most, "max_attempts", 1, 1_000_000),
        checker=c.checked_text(filing.checker or board.checker, "checker", 100),
        follow_up_of="" if filing.follow_up_of in ("", None) else c.checked_id(filing.follow_up_of),
        held=_checked_held(filing.held),
        holds=[_checked_hold(hold) for hold in filing.holds] if filing.holds else [],
        stage=filing.stage,
        required=filing.required,
    )


def check_input(board: Board, value: Any, **facts: Any) -> None:
    """Raise InvalidInput where the board's schema does not take the input (spec: 03 section 1)."""
    if problem := schemas.mismatch(board.input_schema, value, "input"):
        raise errors.InvalidInput(problem, field="input", **facts)


def not_on_roster(name: str, board: Board, names: Iterable[str], **facts: Any) -> errors.UnknownAssignee:
    """The refusal of a name that the board does not know; it says which there are."""
    known = ", ".join(names) or "nobody yet"
    return errors.UnknownAssignee(f"“{name}” is not on the roster of {board.name}. There is {known}.", **facts)


def not_on_board(name: str) -> errors.DependencyNotOnBoard:
    sentence = f"The dependency {name} is not on this board. File it first, or leave it out."
    return errors.DependencyNotOnBoard(sentence, id=name)


def dependency_ended(name: str, status: str) -> errors.DependencyEnded:
    sentence = f"The dependency {name} is {Status(status).label} and this could never start."
    return errors.DependencyEnded(f"{sentence} Retry it first, or leave it out.", id=name)


def dependency_loop(path: Iterable[str]) -> errors.DependencyLoop:
    return errors.DependencyLoop(f"These dependencies form a loop: {' → '.join(path)}. Leave one of them out.")


def _checked_held(value: Any) -> bool:
    if not isinstance(value, bool):
        raise errors.InvalidInput("held is true or false.", field="held")
    return value


def _checked_hold(hold: HoldFiling) -> HoldFiling:
    if hold.kind not in {HoldKind.QUESTION, HoldKind.CONFIRM}:
        raise errors.InvalidInput("holds of a filing are questions or confirms.", field="holds")
    options = cleaning.checked_options(hold.kind, hold.options, "holds")
    return replace(
        hold,
        prompt=cleaning.required_text(hold.prompt, "holds", 10_000),
        title=cleaning.checked_title(hold.title),
        context=cleaning.checked_text(hold.context, "holds"),
        options=options,
        due_at=cleaning.checked_moment(hold.due_at, "holds"),
        default=cleaning.checked_default(hold.kind, options, hold.default, "holds"),
    )
