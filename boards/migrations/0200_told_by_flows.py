"""What a flow told a person: found by an index of its own, built without keeping writers out, and named by deliveries."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("boards", "0240_lean_log"),
    ]

    operations = [
        migrations.AddField(
            model_name="delivery",
            name="event_id",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        AddIndexConcurrently(
            model_name="event",
            index=models.Index(
                condition=models.Q(("kind", "run.notified")), fields=["space", "at"], name="event_told"
            ),
        ),
    ]
