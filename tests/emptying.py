"""Empties the test database after a test that commits, forty times as fast as Django's `flush`: that makes new files
for every table, full or not, and then all permissions anew.

Deleting past the triggers takes a superuser of the database, which those of the embedded server and of `.ci/run` are;
for anybody else Django's own way stays.
"""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.test import TransactionTestCase

# What migrations make once, for the tests of all.
KEPT = ("django_migrations", "django_content_type", "auth_permission")

# The lock waits for whoever still writes, as a TRUNCATE would: nothing of one test reaches the next.
_EMPTY = """
do $$
declare names text; name text;
begin
    set local session_replication_role = replica;
    select string_agg(format('%%I', tablename), ', ') into names
      from pg_tables where schemaname = current_schema() and not tablename = any(array[{kept}]);
    execute 'lock table ' || names || ' in access exclusive mode';
    for name in select tablename from pg_tables
                 where schemaname = current_schema() and not tablename = any(array[{kept}]) loop
        execute format('delete from %%I', name);
    end loop;
end $$"""


def quickly() -> None:
    """Have every test that commits emptied after this way."""
    theirs = TransactionTestCase._fixture_teardown

    def teardown(case: Any) -> None:
        if not _is_superuser():
            theirs(case)
            return
        with connection.cursor() as cursor:
            cursor.execute(_EMPTY.format(kept=", ".join(["%s"] * len(KEPT))), [*KEPT, *KEPT])

    TransactionTestCase._fixture_teardown = teardown


def _is_superuser() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("select rolsuper from pg_roles where rolname = current_user")
        return bool(cursor.fetchone()[0])
