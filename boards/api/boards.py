"""The boards that a caller sees."""

from __future__ import annotations

from boards.api import finding
from boards.api.operations import Answer, Call, operation
from boards.api.shapes import Paged, cursor_after, read_cursor
from boards.api.shapes_of_flows import BoardPage
from boards.models import Scope


@operation("list_boards", "GET", "/boards", Scope.READ, BoardPage, query=Paged)
def list_boards(call: Call) -> Answer:
    """List the boards that you see, by name. A key sees its own."""
    query: Paged = call.query
    rows = list(finding.boards_of(call.chain).prefetch_related("roster"))
    start = 0
    if query.cursor:
        name, pk = read_cursor(query.cursor, 2)
        start = sum((board.name, str(board.pk)) <= (name, pk) or str(board.pk) == pk for board in rows)
    page = rows[start : start + query.limit]
    more = cursor_after(page[-1].name, page[-1].pk) if len(rows) > start + query.limit else None
    told = [
        {
            "id": board.pk,
            "slug": board.slug,
            "name": board.name,
            "paused": board.paused,
            "checker": board.checker,
            "roster": [entry.name for entry in board.roster.all()],
        }
        for board in page
    ]
    return Answer({"boards": told, "next": more})
