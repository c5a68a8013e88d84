"""Storage settings of the hot tables: the head of the ready index bloats otherwise (engineering notes, section 2)."""

from django.db import migrations

HOT = "boards_task", "boards_attempt"
SET = [f"alter table {t} set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01)" for t in HOT]
RESET = [f"alter table {t} reset (fillfactor, autovacuum_vacuum_scale_factor)" for t in HOT]


class Migration(migrations.Migration):
    dependencies = [("boards", "0001_initial")]
    operations = [migrations.RunSQL(SET, RESET)]
