"""Has the functions of 0250 and 0251 find rows by their indexes whatever the tables held when their plans were made: a
plan kept from an analysed empty table read all tasks at each filing. And without JIT: up to PostgreSQL 17 what is
switched off counts as very dear, and a plan that seems dear is compiled at each call, for seconds.
"""

from django.db import migrations

MAKE = """
alter function boards_file_task_1 set enable_seqscan = off;
alter function boards_file_task_1 set enable_bitmapscan = off;
alter function boards_file_task_1 set jit = off;
alter function boards_claim_1 set jit = off;
"""
UNMAKE = """
alter function boards_file_task_1 reset enable_seqscan;
alter function boards_file_task_1 reset enable_bitmapscan;
alter function boards_file_task_1 reset jit;
alter function boards_claim_1 reset jit;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("boards", "0260_metrics"),
    ]

    operations = [
        migrations.RunSQL(MAKE, UNMAKE),
    ]
