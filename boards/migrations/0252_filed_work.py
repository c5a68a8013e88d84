"""Tasks that are kept open by those they filed: a setting of the roster, and the sweeper's index of them."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("boards", "0251_straight_claim"),
    ]

    operations = [
        migrations.AddField(
            model_name="rosterentry",
            name="filed_work_keeps_open",
            field=models.BooleanField(db_default=True, default=True),
        ),
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                condition=models.Q(("kept_open_by", "filed")), fields=["key"], name="task_kept_by_filed"
            ),
        ),
    ]
