"""A statement that is put together once answers each reader, board and filter by what stands in the database now."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.db.models import Q, QuerySet
from django.test import Client
from django.test.utils import CaptureQueriesContext

from boards.models import Board, Member, Role, Task
from boards.queries import statements
from boards.queries.board import board_facts, board_page, cards
from boards.queries.filters import BoardFilter
from boards.queries.needs_you import needs_counts, waiting
from boards.queries.statements import has_asked_key, made_once
from tests.web import people_cast as people
from tests.web.desk import Desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> Desk:
    return Desk()


def shown(desk: Desk, filters: BoardFilter | None = None) -> list[str]:
    facts = board_facts(desk.space, desk.board.slug, reader=desk.anna.user_id)
    page = board_page(facts, filters or BoardFilter())
    return [card.title for column in page.columns for lane in column for card in lane.cards]


def test_it_is_put_together_once_and_read_each_time(desk: Desk) -> None:
    made: list[int] = []

    @made_once
    def titles(board_id: int) -> QuerySet[Any, Any]:
        made.append(board_id)
        return Task.objects.filter(board=board_id).order_by("pk").values_list("title")

    desk.filed(title="One")
    assert titles(desk.board.pk).tuples() == [("One",)]
    desk.filed(title="Two", goal="Another")
    assert titles(desk.board.pk).tuples() == [("One",), ("Two",)]
    assert made == [desk.board.pk]


def test_it_answers_for_the_keys_that_it_is_asked_for(desk: Desk) -> None:
    @made_once
    def labels() -> QuerySet[Any, Any]:
        return Task.objects.filter(has_asked_key()).order_by("pk").values("title", "labels")

    one, two = desk.filed(title="One"), desk.filed(title="Two", goal="Another")
    assert [row["title"] for row in labels().dicts([two.pk])] == ["Two"]
    assert [row["title"] for row in labels().dicts([one.pk, two.pk])] == ["One", "Two"]
    assert list(labels().dicts([])) == []


def test_what_can_hold_for_no_row_asks_nothing(desk: Desk) -> None:
    @made_once
    def nothing() -> QuerySet[Any, Any]:
        return Task.objects.filter(Q(pk__in=())).values_list("title")

    with CaptureQueriesContext(
        connection,
    ) as asked:
        assert nothing().tuples() == []
    assert not asked.captured_queries


def test_a_column_that_has_to_be_converted_is_not_picked_raw(desk: Desk) -> None:
    read = made_once(lambda: Task.objects.values("title", "input", "revision"))()
    desk.filed(title="One", input={"a": [1]})
    (raw,) = read.raw()
    assert read.pick("title", "revision")(raw) == ("One", Task.objects.get().revision)
    assert read.dict_of(raw)["input"] == {"a": [1]}
    with pytest.raises(ValueError, match="whole row for input"):
        read.pick("title", "input")


def test_moments_are_the_same_instants_with_a_zone(desk: Desk) -> None:
    desk.filed()
    ((read,),) = made_once(lambda: Task.objects.values_list("created_at"))().tuples()
    assert read == Task.objects.get().created_at
    assert read.utcoffset() is not None


def test_equal_readers_of_two_spaces_see_their_own() -> None:
    who, other = people.cast(), people.cast()
    people.hold(who, people.task(who, status="in_progress"), title="Ours")
    assert [row.title for row in waiting(who.anna).rows] == ["Ours"]
    assert waiting(other.anna).rows == ()
    assert (needs_counts(who.anna).blocking, needs_counts(other.anna).blocking) == (1, 0)


def test_a_member_who_becomes_an_operator_is_answered_as_one() -> None:
    who = people.cast()
    people.task(who, status="errored")
    assert needs_counts(who.ben).blocking == 0
    Member.objects.filter(pk=who.ben.pk).update(role=Role.OPERATOR)
    assert needs_counts(Member.objects.get(pk=who.ben.pk)).blocking == 1


def test_a_board_that_is_divided_from_now_on_shows_each_reader_their_own(desk: Desk) -> None:
    desk.filed(title="Everybody's")
    assert shown(desk) == ["Everybody's"]
    Board.objects.update(partition_by=Board.PartitionBy.USER)
    assert shown(desk, BoardFilter(partition=str(desk.anna.user_id))) == []


def test_a_card_is_read_with_the_name_that_its_board_has_now(desk: Desk) -> None:
    task = desk.filed(title="One")
    assert [card.board for card in cards(desk.board.pk, [task.pk]).cards] == [desk.board.slug]
    Board.objects.update(slug="renamed")
    assert [card.board for card in cards(desk.board.pk, [task.pk]).cards] == ["renamed"]


def test_of_each_maker_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "MOST", 2)
    made: list[int] = []

    @made_once
    def of(number: int) -> QuerySet[Any, Any]:
        made.append(number)
        return Task.objects.filter(pk=number).values_list("pk")

    for number in (1, 2, 3, 3, 1):
        of(number)
    assert made == [1, 2, 3, 1]


@pytest.fixture
def row_pages() -> list[str]:
    """The list of *Needs you* with one question that is answered in its row, opened twice."""
    who = people.cast()
    options = [{"value": "a", "label": "The first"}, {"value": "b", "label": "The second"}]
    for number in range(2):
        people.hold(who, people.task(who, status="in_progress"), kind="question", options=options, title=f"Q{number}")
    client = Client()
    client.force_login(who.anna.user)
    return [client.get("/needs-you/").content.decode() for _ in range(2)]


def test_a_row_that_is_kept_carries_the_form_of_this_page(row_pages: list[str]) -> None:
    keys, tokens = [], []
    for html in row_pages:
        (form,) = re.findall(r'<form class="row-acts".*?</form>', html, re.DOTALL)
        (back,) = re.findall(r'name="next" value="(.*?)"', form)
        assert back.startswith("/needs-you/")
        keys += re.findall(r'name="key" value="([0-9a-f]{32})"', form)
        tokens += re.findall(r'name="csrfmiddlewaretoken" value="([A-Za-z0-9]{64})"', form)
        assert "\x01" not in html
    assert len(set(keys)) == 2, "each page has a key of its own"
    assert len(tokens) == 2


def test_a_task_that_asked_often_is_read_once_with_its_page(desk: Desk) -> None:
    task = desk.filed()
    with CaptureQueriesContext(connection) as asked:
        desk.client().get(f"/b/{desk.board.slug}/t/{task.public_id}/")
    (holds,) = (query["sql"] for query in asked.captured_queries if '"boards_hold"."dedup_key"' in query["sql"])
    assert '"boards_task"."output"' not in holds
