"""Reads that the engine offers to code: one task, many tasks, what a worker needs of its dependencies."""

from __future__ import annotations

from typing import Any

from boards.errors import TaskNotFound
from boards.models import Board, Task, TaskDep
from boards.stored_text import clean_text


def get_task(board: Board, public_id: str) -> Task:
    """The task of that id on the board; TaskNotFound for anything that is not there."""
    # No id holds what the cleaning puts in, and the database takes nothing else.
    named = Task.objects.filter(board=board, partition="", public_id=clean_text(public_id))
    task = named.select_related("board").first()
    if task is None:
        raise TaskNotFound
    return task


def list_tasks(board: Board, *, status: str = "", assignee: str = "", label: str = "", limit: int = 200) -> list[Task]:
    """Tasks of a board in claim order, narrowed where a filter is given."""
    tasks = Task.objects.filter(board=board).order_by("created_at", "pk")
    if status:
        tasks = tasks.filter(status=clean_text(status))
    if assignee:
        tasks = tasks.filter(assignee=clean_text(assignee))
    if label:
        tasks = tasks.filter(labels__contains=[clean_text(label)])
    return list(tasks[:limit])


def dependency_outputs(task: Task) -> dict[str, Any]:
    """The outputs of a task's dependencies by their ids."""
    edges = TaskDep.objects.filter(dependent=task.pk).select_related("dependency")
    return {edge.dependency.public_id: edge.dependency.output for edge in edges}
