from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("boards", "0160_rounds_votes_and_context")]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="lend_ended_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddConstraint(
            model_name="space",
            constraint=models.CheckConstraint(
                condition=models.Q(("agent_timeout_ms__isnull", True), ("agent_timeout_ms__gte", 1), _connector="OR"),
                name="space_agent_timeout_positive",
            ),
        ),
    ]
