from django.conf import settings
from django.db import migrations, models

import boards.models.holds


class Migration(migrations.Migration):
    """What happens to a hold when its assignee is deleted is the code's; the table is not touched."""

    dependencies = [("boards", "0130_people_settle_and_checks")]

    operations = [
        migrations.AlterField(
            model_name="hold",
            name="assignee",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=boards.models.holds.to_operators,
                related_name="assigned_holds",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
