"""When the last pass of each sweeper ended. An older process need not know the column."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("boards", "0253_lean_claim"),
    ]

    operations = [
        migrations.AddField(
            model_name="process",
            name="swept_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
