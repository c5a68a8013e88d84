"""Fewer indexes on the tables that every claim and ending writes: those that begin like another one go, and references
that most tasks lack are left out of theirs. The new ones are built without keeping writers out.
"""

import django.db.models.deletion
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


def _back(name, table, column):
    return f"create index concurrently if not exists {name} on {table} ({column})"


# By Django's names of them, which follow from the names of table and column.
DROPPED = {
    name: _back(name, table, column)
    for name, table, column in [
        ("boards_attempt_task_id_c7b5734d", "boards_attempt", "task_id"),
        ("boards_event_board_id_fcda8566", "boards_event", "board_id"),
        ("boards_event_run_id_b38f03a9", "boards_event", "run_id"),
        ("boards_event_task_id_033061e6", "boards_event", "task_id"),
        ("boards_task_board_id_46a9ecbe", "boards_task", "board_id"),
        ("boards_task_filed_by_task_id_c37f078d", "boards_task", "filed_by_task_id"),
        ("boards_task_follow_up_of_id_a11aaa33", "boards_task", "follow_up_of_id"),
        ("boards_task_visit_id_d22c8e97", "boards_task", "visit_id"),
        ("boards_taskdep_dependent_id_25f16239", "boards_taskdep", "dependent_id"),
        ("boards_transcriptitem_task_id_1262c555", "boards_transcriptitem", "task_id"),
    ]
}


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("boards", "0140_being_told"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                condition=models.Q(("follow_up_of__isnull", False)), fields=["follow_up_of"], name="task_follow_ups"
            ),
        ),
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                condition=models.Q(("filed_by_task__isnull", False)),
                fields=["filed_by_task"],
                name="task_filed_by_task",
            ),
        ),
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(condition=models.Q(("visit__isnull", False)), fields=["visit"], name="task_by_visit"),
        ),
        *[migrations.RunSQL(f"drop index concurrently if exists {name}", back) for name, back in DROPPED.items()],
        # Django would drop the unique indexes of `attempt_one_open_per_task` and `task_one_follow_up_at_work` as well,
        # since each is on one of these columns alone.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="attempt",
                    name="task",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempt_rows",
                        to="boards.task",
                    ),
                ),
                migrations.AlterField(
                    model_name="event",
                    name="board",
                    field=models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="boards.board",
                    ),
                ),
                migrations.AlterField(
                    model_name="event",
                    name="run",
                    field=models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="boards.flowrun",
                    ),
                ),
                migrations.AlterField(
                    model_name="event",
                    name="task",
                    field=models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="events",
                        to="boards.task",
                    ),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="board",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tasks",
                        to="boards.board",
                    ),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="filed_by_task",
                    field=models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="filed_tasks",
                        to="boards.task",
                    ),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="follow_up_of",
                    field=models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="follow_ups",
                        to="boards.task",
                    ),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="visit",
                    field=models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="filed_tasks",
                        to="boards.visit",
                    ),
                ),
                migrations.AlterField(
                    model_name="taskdep",
                    name="dependent",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="dep_edges",
                        to="boards.task",
                    ),
                ),
                migrations.AlterField(
                    model_name="transcriptitem",
                    name="task",
                    field=models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="transcript",
                        to="boards.task",
                    ),
                ),
            ]
        ),
    ]
