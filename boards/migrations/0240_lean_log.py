"""What every claim and ending paid for and nobody used: looks at space, board and session that the same transaction
holds anyway, and indexes by space. The new indexes are built without keeping writers out.
"""

import django.db.models.deletion
from django.conf import settings
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

# By Django's names of them, which follow from the names of table and column.
INDEXES = [
    ("boards_event_space_id_238fcb88", "boards_event", "space_id"),
    ("boards_session_space_id_6514a317", "boards_session", "space_id"),
    ("boards_session_user_id_032db962", "boards_session", "user_id"),
    ("boards_task_created_by_id_74a9ec73", "boards_task", "created_by_id"),
]
CONSTRAINTS = [
    ("boards_event_board_id_fcda8566_fk_boards_board_id", "boards_event", "board_id", "boards_board"),
    ("boards_event_space_id_238fcb88_fk_boards_space_id", "boards_event", "space_id", "boards_space"),
    ("boards_session_space_id_6514a317_fk_boards_space_id", "boards_session", "space_id", "boards_space"),
    (
        "boards_transcriptitem_session_id_03b61e1f_fk_boards_session_id",
        "boards_transcriptitem",
        "session_id",
        "boards_session",
    ),
]


def _without(table, name):
    return f"alter table {table} drop constraint if exists {name}"


def _with(table, name, column, target):
    # Not validated: that would read the whole table under a lock.
    return (
        f"alter table {table} add constraint {name} foreign key ({column}) references {target} (id)"
        " deferrable initially deferred not valid"
    )


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("boards", "0190_starts_of_runs"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(condition=models.Q(("user__isnull", False)), fields=["user"], name="session_by_user"),
        ),
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                condition=models.Q(("created_by__isnull", False)), fields=["created_by"], name="task_by_creator"
            ),
        ),
        *[
            migrations.RunSQL(
                f"drop index concurrently if exists {name}",
                f"create index concurrently if not exists {name} on {table} ({column})",
            )
            for name, table, column in INDEXES
        ],
        *[
            migrations.RunSQL(_without(table, name), _with(table, name, column, target))
            for name, table, column, target in CONSTRAINTS
        ],
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="event",
                    name="board",
                    field=models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="boards.board",
                    ),
                ),
                migrations.AlterField(
                    model_name="event",
                    name="space",
                    field=models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="boards.space",
                    ),
                ),
                migrations.AlterField(
                    model_name="session",
                    name="space",
                    field=models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sessions",
                        to="boards.space",
                    ),
                ),
                migrations.AlterField(
                    model_name="session",
                    name="user",
                    field=models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="created_by",
                    field=models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                migrations.AlterField(
                    model_name="transcriptitem",
                    name="session",
                    field=models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="items",
                        to="boards.session",
                    ),
                ),
            ],
        ),
    ]
