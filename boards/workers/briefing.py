"""What a worker is told of the task that it took, whatever kind of worker it is (spec: 03 section 2). Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connection

from boards import people
from boards.lines import literal
from boards.models import Hold, Task, TaskDep
from boards.states import HoldState
from boards.tasks import Ticket
from boards.workers.protocol import TaskFacts
from boards.workers.replay import answer_of


def facts_of(task: Task, ticket: Ticket, outputs: Mapping[str, Any], holds: Iterable[Hold]) -> TaskFacts:
    """The task, with the `outputs` of its dependencies and what of its `holds` was answered on this attempt."""
    closed = [hold for hold in holds if hold.attempt in {0, ticket.attempt} and hold.state != HoldState.OPEN]
    return TaskFacts(
        id=task.public_id,
        goal=task.goal,
        title=task.title,
        context=task.context,
        input=task.input,
        metadata=task.metadata,
        labels=task.labels,
        board=task.board.slug,
        assignee=task.assignee,
        attempt=ticket.attempt,
        feedback=task.feedback,
        dep_outputs=outputs,
        steers=[str(steer["text"]) for steer in task.steers],
        answers=[answer for hold in closed if (answer := answer_of(hold))],
    )


def beside(keys: Sequence[int]) -> tuple[dict[int, dict[str, Any]], dict[int, list[Hold]]]:
    """The outputs of the dependencies of these tasks, and all their holds in the order of asking; by task."""
    dependents, asked = _with_more(keys) if keys else ([], [])
    return _outputs(dependents) if dependents else {}, _holds(asked) if asked else {}


def _with_more(keys: Sequence[int]) -> tuple[list[int], list[int]]:
    """Which of these tasks have dependencies, and which have holds: one cheap look for what most have not."""
    with connection.cursor() as cursor:
        cursor.execute(
            """select distinct dependent_id, false from boards_taskdep where dependent_id = any(%s::bigint[])
                union all select distinct task_id, true from boards_hold where task_id = any(%s::bigint[])""",
            [literal(keys), literal(keys)],
        )
        found = cursor.fetchall()
    return [key for key, asked in found if not asked], [key for key, asked in found if asked]


def _outputs(keys: Sequence[int]) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    edges = TaskDep.objects.filter(dependent__in=keys)
    for dependent, name, output in edges.values_list("dependent", "dependency__public_id", "dependency__output"):
        found.setdefault(dependent, {})[name] = output
    return found


def _holds(keys: Sequence[int]) -> dict[int, list[Hold]]:
    found: dict[int, list[Hold]] = {}
    for hold in people.with_settling(Hold.objects.filter(task__in=keys)).order_by("attempt", "position"):
        found.setdefault(hold.task_id or 0, []).append(hold)
    return found
