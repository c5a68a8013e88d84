"""Addresses of the task pages; included by `boards.web.urls`."""

from django.urls import URLPattern, path, register_converter
from django.urls.converters import StringConverter

from boards.web import batch, checks, task, task_acts, task_forms


class TaskId(StringConverter):
    """A task's public id; whatever else stands there (a NUL byte, a path) is no address of ours."""

    regex = r"[A-Za-z0-9][A-Za-z0-9._~-]{0,199}"


class BoardAddress(StringConverter):
    """A board's slug; behind an @ the key of one of its partitions (`boards.queries.partitions`)."""

    regex = r"[-a-zA-Z0-9_]+(?:@[A-Za-z0-9-]{1,40})?"


register_converter(TaskId, "task_id")
register_converter(BoardAddress, "board")

urlpatterns: list[URLPattern] = [
    path("b/<board:slug>/new/", task_forms.new_task, name="new_task"),
    path("b/<board:slug>/batch/", batch.file_batch, name="file_batch"),
    path("b/<board:slug>/deps", task_forms.dependency_options, name="dependency_options"),
    path("b/<board:slug>/t/<task_id:public_id>/", task.task, name="task"),
    path("b/<board:slug>/t/<task_id:public_id>/parts", task.task_parts, name="task_parts"),
    path("b/<board:slug>/t/<task_id:public_id>/events", task.task_events, name="task_events"),
    path("b/<board:slug>/t/<task_id:public_id>/attempts/<int:number>", task.task_attempt, name="task_attempt"),
    path("b/<board:slug>/t/<task_id:public_id>/edit/", task_forms.edit_task, name="task_edit"),
    path("b/<board:slug>/t/<task_id:public_id>/follow_up", task_acts.follow_up, name="follow_up"),
    path("b/<board:slug>/t/<task_id:public_id>/file_again", task_acts.file_again, name="file_again"),
    path("b/<board:slug>/t/<task_id:public_id>/check", checks.check_state, name="check_state"),
    path("b/<board:slug>/t/<task_id:public_id>/<slug:verb>", task_acts.task_act, name="task_act"),
]
