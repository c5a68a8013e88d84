"""Rows that travel as one parameter a column arrive as they were (`boards.lines`)."""

from __future__ import annotations

import json

import pytest
from django.db import connection

from boards.lines import lines

pytestmark = pytest.mark.django_db
COLUMNS = {"n": "bigint", "yes": "boolean", "words": "text", "data": "jsonb"}
ODD = [
    'a "quoted" word',
    "back\\slash",
    "{braces}, and commas",
    "",
    "NULL",
    "two\nlines",
    "ünï € 😀",
    "'; drop--",
    "100 %s",
]


def arrived(rows):
    source, params = lines(rows, COLUMNS)
    with connection.cursor() as cursor:
        cursor.execute(f"select n, yes, words, data::text, place from {source} order by place", params)
        return cursor.fetchall()


def test_every_value_arrives_as_it_was_and_in_its_order():
    rows = [(n, n % 2 == 0, word, json.dumps({"said": word})) for n, word in enumerate(ODD)]
    found = arrived(rows)
    assert [row[:3] for row in found] == [row[:3] for row in rows]
    assert [json.loads(row[3]) for row in found] == [{"said": word} for word in ODD]
    assert [row[4] for row in found] == list(range(1, len(ODD) + 1))


def test_what_is_missing_is_no_value_and_no_text():
    assert [row[:4] for row in arrived([(None, None, None, None), (1, True, "NULL", "null")])] == [
        (None, None, None, None),
        (1, True, "NULL", "null"),
    ]


@pytest.mark.parametrize("count", [1, 3])
def test_rows_that_are_all_alike_are_as_many_as_they_were(count):
    row = (7, False, ODD[0], "[]")
    assert [found[:4] for found in arrived([row] * count)] == [row] * count
