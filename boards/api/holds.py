"""Operations on what waits on people: the list, one question, its answer; decided by the function of every page."""

from __future__ import annotations

from boards import people, policy
from boards.api.operations import Answer, Call, operation
from boards.api.shapes import cursor_after, read_cursor
from boards.api.shapes_of_flows import OneHold, WaitingPage, WaitingQuery, waiting_told
from boards.api.shapes_of_holds import AnswerBody, DismissBody, hold_wire
from boards.errors import InvalidInput, NotFound
from boards.models import Board, Hold, Scope, Task
from boards.queries import asks
from boards.queries.needs_you import matching
from boards.queries.waiting_row import Row
from boards.tasks import idempotency, partitions

_ABSENT = "There is no such question here."


@operation("list_waiting", "GET", "/waiting", Scope.READ, WaitingPage, query=WaitingQuery)
def list_waiting(call: Call) -> Answer:
    """List what waits on people, as *Needs you* shows it. Due soonest first, then by priority, then oldest."""
    policy.require(call.chain, "boards.read", call.chain.space_id)
    query: WaitingQuery = call.query
    wanted = {"kind": query.kind, "board": query.board, "agent": query.agent, "flow": query.flow}
    rows = _seen(call, matching(call.member, wanted | {"whose": query.whose, "q": query.text}))
    start = _place_after(rows, query.cursor)
    page = rows[start : start + query.limit]
    more = cursor_after(start + len(page), page[-1].key) if len(rows) > start + query.limit else None
    return Answer({"waiting": [waiting_told(row) for row in page], "total": len(rows), "next": more})


@operation("get_hold", "GET", "/holds/{hold}", Scope.READ, OneHold)
def get_hold(call: Call) -> Answer:
    """Read one question. Its `draft_hash` goes with an answer, which is bound to what was read."""
    policy.require(call.chain, "boards.read", call.chain.space_id)
    return Answer({"hold": hold_wire(_found(call))})


@operation("answer_hold", "POST", "/holds/{hold}/answer", Scope.DECIDE, OneHold, body=AnswerBody, repeats=True)
def answer_hold(call: Call) -> Answer:
    """Answer a question. The first answer wins; a later one is told who, what and when."""
    body: AnswerBody = call.body
    people.answer_hold(
        call.chain,
        _number(call),
        choice=body.choice,
        text=body.text,
        values=body.values,
        shown_hash=body.shown_hash,
        idempotency_key=idempotency.own_key(call.chain, call.idempotency_key),
    )
    return Answer({"hold": hold_wire(_found(call))})


@operation("dismiss_hold", "POST", "/holds/{hold}/dismiss", Scope.DECIDE, OneHold, body=DismissBody)
def dismiss_hold(call: Call) -> Answer:
    """End a worker's question without an answer. Its run goes on, and is told that nobody answers."""
    people.dismiss_hold(call.chain, _number(call), call.body.reason)
    return Answer({"hold": hold_wire(_found(call))})


def _number(call: Call) -> int:
    name = call.names["hold"]
    if not (name.isascii() and name.isdigit()) or len(name) > 18:
        raise NotFound(_ABSENT)
    return int(name)


def _found(call: Call) -> Hold:
    """The hold, where its board and its task are there for the caller."""
    found = asks.ask(call.member, _number(call))
    if found is None or not call.chain.sees_board(found.hold.board_id):
        raise NotFound(_ABSENT)
    if found.hold.task is not None and not partitions.reaches(call.chain, found.hold.task):
        raise NotFound(_ABSENT)
    return found.hold


def _seen(call: Call, rows: list[Row]) -> list[Row]:
    """What is there for a key: rows of its boards, and of partitioned ones those of its own partition."""
    if call.chain.key is None:
        return rows
    rows = [row for row in rows if call.chain.sees_board(row.board_id)]
    apart = Board.objects.filter(pk__in={row.board_id for row in rows}).exclude(partition_by=Board.PartitionBy.NONE)
    boards = {board.pk: partitions.own_partitions(call.chain, board) for board in apart}
    if not boards:
        return rows
    keys = {row.task_key for row in rows if row.board_id in boards}
    holds = {row.hold_id for row in rows if row.board_id in boards}
    of_tasks = dict(Task.objects.filter(pk__in=keys).values_list("pk", "partition"))
    of_holds = dict(Hold.objects.filter(pk__in=holds).values_list("pk", "task__partition"))
    return [
        row
        for row in rows
        if row.board_id not in boards
        or (of_tasks.get(row.task_key) or of_holds.get(row.hold_id) or "") in boards[row.board_id]
    ]


def _place_after(rows: list[Row], cursor: str) -> int:
    """Where the next page begins: behind the row that ended the last one, or where that stood if it waits no more."""
    if not cursor:
        return 0
    place, key = read_cursor(cursor, 2)
    if not (place.isascii() and place.isdigit() and len(place) < 10):
        raise InvalidInput("This cursor is none of ours. Leave it out to begin at the first page.", field="cursor")
    found = next((index + 1 for index, row in enumerate(rows) if row.key == key), None)
    return min(int(place) - 1, len(rows)) if found is None else found
