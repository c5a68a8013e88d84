"""What the models promise of the database is there: a migration that drops one index must not take another with it."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import connection

pytestmark = pytest.mark.django_db


def test_every_constraint_and_index_of_the_models_is_in_the_database():
    for model in apps.get_app_config("boards").get_models():
        named = [one.name for one in (*model._meta.constraints, *model._meta.indexes)]
        with connection.cursor() as cursor:
            there = connection.introspection.get_constraints(cursor, model._meta.db_table)
        assert not [name for name in named if name not in there], model.__name__
