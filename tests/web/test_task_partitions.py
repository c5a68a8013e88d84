"""A partitioned board on its pages: each reader sees and counts their own partition, operators too (spec: 03)."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from boards.queries import home, subscriptions
from boards.queries.board import board_facts, cards
from boards.queries.filters import BoardFilter
from tests import cast

pytestmark = pytest.mark.django_db


@pytest.fixture
def space():
    return cast.make_space()


@pytest.fixture
def board(space):
    return cast.make_board(space, partition_by="user")


@pytest.fixture
def anna(space):
    return cast.make_member(space)


@pytest.fixture
def olga(space):
    return cast.make_member(space, "olga", "operator")


def page(client, member, name, *args, **query):
    client.force_login(member.user)
    return client.get(reverse(f"web:{name}", args=args), query)


def counts(html):
    return {name: int(n) for name, n in re.findall(r'id="count-([a-z_]+)"[^>]*>\s*([0-9]+)', html)}


def test_the_board_shows_and_counts_ones_own_rows(client, board, anna, olga):
    cast.filed(board, cast.chain_of(anna), "Anna's own")
    cast.filed(board, cast.chain_of(olga), "Olga's own")
    for member, own, other in ((anna, "Anna", "Olga"), (olga, "Olga", "Anna")):
        html = page(client, member, "board", board.slug).content.decode()
        assert f"{own}&#x27;s own" in html
        assert f"{other}&#x27;s own" not in html
        assert counts(html)["pending"] == 1


def test_a_task_of_another_partition_answers_like_none(client, board, anna, olga):
    task = cast.filed(board, cast.chain_of(olga))
    assert page(client, olga, "task", board.slug, task.public_id).status_code == 200
    assert page(client, anna, "task", board.slug, task.public_id).status_code == 404


def test_dependencies_are_offered_from_ones_own_rows(client, board, anna, olga):
    cast.filed(board, cast.chain_of(anna), "Anna alone")
    cast.filed(board, cast.chain_of(olga), "Olga alone")
    html = page(client, anna, "dependency_options", board.slug, q="alone").content.decode()
    assert "Anna alone" in html
    assert "Olga alone" not in html


def test_home_tells_nothing_of_a_partitioned_board(space, board, anna):
    task = cast.filed(board, cast.chain_of(anna))
    cast.claimed(board)
    assert task.pk
    assert home.running_now(space) == []
    assert home.recent_endings(space) == []
    assert (
        sum(home.board_cards(space)[0].counts.values()) == 0 if hasattr(home.board_cards(space)[0], "counts") else True
    )


def test_a_socket_brings_the_cards_of_its_readers_partition_only(board, anna, olga):
    mine, theirs = (cast.filed(board, cast.chain_of(member)) for member in (anna, olga))
    page = subscriptions.subscribe(anna.user_id, {"board": str(board.pk)})
    assert page is not None
    assert page.lanes is not None
    assert page.lanes.filters.partition == str(anna.user_id)
    update = cards(board, [mine.pk, theirs.pk], page.lanes.filters)
    assert [card.public_id for card in update.cards] == [mine.public_id]
    assert cards(board, [mine.pk, theirs.pk]).cards == []


def test_no_address_names_a_partition(board, anna, olga):
    cast.filed(board, cast.chain_of(olga))
    filters = BoardFilter.from_query({"partition": str(olga.user_id)}, anna.user_id)
    assert filters.partition == ""
    assert "partition" not in filters.within("1").query_string()


def test_presence_tells_nothing_of_what_runs_in_other_partitions(space, board, olga):
    cast.filed(board, cast.chain_of(olga))
    cast.claimed(board)
    assert [agent.running for agent in board_facts(space, board.slug).names] == [0, 0]
