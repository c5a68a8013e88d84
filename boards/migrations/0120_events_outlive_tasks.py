import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Events keep the key of a task that retention removed; only the catalogue is changed, so the lock is short."""

    dependencies = [("boards", "0004_branches_of_a_visit")]

    operations = [
        migrations.AlterField(
            model_name="event",
            name="task",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="events",
                to="boards.task",
            ),
        ),
    ]
