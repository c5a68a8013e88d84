"""A partitioned board on its pages: each reader sees and counts their own partition, operators too (spec: 03)."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from django.db.models.functions import Now
from django.urls import reverse

from boards import people, tasks
from boards.models import Hold, Session, Task
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


def test_what_stands_beside_needs_you_is_of_ones_own_rows(client, board, anna, olga):
    cast.filed(board, cast.chain_of(olga), "Olga's own", title="Olga works")
    asked = cast.claimed(board)
    people.open_hold(cast.agent_chain(board), claim=asked.ticket, kind="question", prompt="Olga is asked?")
    Hold.objects.update(state="answered", answered_at=Now(), answered_by=olga.user, answer={"text": "Yes."})
    for member, there in ((olga, True), (anna, False)):
        html = page(client, member, "needs_you").content.decode()
        assert ("Olga is asked?" in html, "Olga works" in html) == (there, there)


def test_home_and_the_list_of_boards_tell_of_ones_own_rows(client, board, anna, olga):
    mine = cast.filed(board, cast.chain_of(anna), "Anna's own")
    cast.filed(board, cast.chain_of(olga), "Olga's own")
    ticket = cast.claimed(board).ticket
    for member, running in ((anna, [mine]), (olga, [])):
        assert [line.task for line in home.running_now(member)] == running
        assert home.recent_endings(member) == []
        assert sum(home.board_cards(member)[0].counts.values()) == 1
    tasks.complete(cast.agent_chain(board), mine, None, claim=ticket)
    assert [line.task for line in home.recent_endings(anna)] == [mine]
    assert home.recent_endings(olga) == []
    assert home.board_cards(anna)[0].done_lately == 1
    assert home.board_cards(olga)[0].done_lately == 0
    assert "Olga&#x27;s own" not in page(client, anna, "home").content.decode()


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


def test_presence_tells_of_what_runs_in_the_partition_that_is_shown(client, space, board, anna, olga):
    cast.filed(board, cast.chain_of(olga))
    cast.claimed(board)
    assert [agent.running for agent in board_facts(space, board.slug).names] == [0, 0]
    said = "writer works on 1 task"
    assert said in page(client, olga, "presence", board.slug).content.decode()
    assert said not in page(client, anna, "presence", board.slug).content.decode()
    cast.filed(board, cast.chain_of(anna))
    assert said not in page(client, olga, "presence", f"desk@{anna.user_id}").content.decode()


def elsewhere(member):
    return f"desk@{member.user_id}"


def test_an_operator_looks_at_any_partition_and_stays_in_it(client, board, anna, olga):
    own = cast.filed(board, cast.chain_of(olga), "Olga's own")
    theirs = cast.filed(board, cast.chain_of(anna), "Anna's own", id=own.public_id)
    offered = page(client, olga, "board", board.slug).content.decode()
    assert f'href="/b/{elsewhere(anna)}/"' in offered
    html = page(client, olga, "board", elsewhere(anna)).content.decode()
    assert "Anna&#x27;s own" in html
    assert "Olga&#x27;s own" not in html
    assert f'data-live-partition="{anna.user_id}"' in html
    assert f'href="/b/{elsewhere(anna)}/t/{theirs.public_id}/"' in html, "its cards lead into it"
    shown = page(client, olga, "task", elsewhere(anna), theirs.public_id).content.decode()
    assert "Anna&#x27;s own" in shown
    assert f"/b/{elsewhere(anna)}/t/{theirs.public_id}/cancel" in shown
    client.post(f"/b/{elsewhere(anna)}/t/{theirs.public_id}/cancel", {"reason": "Not wanted"})
    assert (cast.fresh(theirs).status, cast.fresh(own).status) == ("cancelled", "pending")


def test_members_are_offered_and_shown_their_own_only(client, board, anna, olga):
    task = cast.filed(board, cast.chain_of(olga), "Olga's own")
    cast.filed(board, cast.chain_of(anna), "Anna's own")
    assert 'class="partitions"' not in page(client, anna, "board", board.slug).content.decode()
    assert "Anna&#x27;s own" in page(client, anna, "board", elsewhere(anna)).content.decode()
    for name, more in (("board", ()), ("presence", ()), ("new_task", ()), ("task", (task.public_id,))):
        assert page(client, anna, name, elsewhere(olga), *more).status_code == 404, name
    acted = client.post(f"/b/{elsewhere(olga)}/t/{task.public_id}/cancel")
    assert (acted.status_code, cast.fresh(task).status) == (404, "pending")


@pytest.mark.parametrize("key", ["0", "99999999", "x", "00000000-0000-0000-0000-000000000000"])
def test_a_partition_that_is_not_there_answers_like_one_that_is_anothers(client, board, anna, olga, key):
    cast.filed(board, cast.chain_of(anna))
    for member in (anna, olga):
        assert page(client, member, "board", f"desk@{key}").status_code == 404


def test_a_board_without_partitions_has_no_such_address(client, space, olga):
    cast.make_board(space, "plain")
    assert page(client, olga, "board", "plain").status_code == 200
    assert page(client, olga, "board", f"plain@{olga.user_id}").status_code == 404


def test_nobody_files_into_anothers_partition(client, board, anna, olga):
    cast.filed(board, cast.chain_of(anna))
    html = page(client, olga, "board", elsewhere(anna)).content.decode()
    assert "quick-line" not in html
    assert "filing is in your own" in html
    client.force_login(olga.user)
    for way, form in (("file", {"line": "Sneak in"}), ("new/", {"goal": "Sneak in"}), ("batch/", {"text": "Sneak in"})):
        assert client.post(f"/b/{elsewhere(anna)}/{way}", form).status_code == 404
    assert Task.objects.count() == 1


def test_a_socket_follows_the_page_into_a_partition_by_the_same_rule(board, anna, olga):
    mine, theirs = (cast.filed(board, cast.chain_of(member)) for member in (olga, anna))
    wanted = {"board": str(board.pk), "partition": str(anna.user_id)}
    told = subscriptions.subscribe(olga.user_id, wanted)
    assert told is not None
    assert told.lanes is not None
    update = cards(board, [mine.pk, theirs.pk], told.lanes.filters)
    assert [(card.public_id, card.board) for card in update.cards] == [(theirs.public_id, elsewhere(anna))]
    assert subscriptions.subscribe(anna.user_id, {**wanted, "partition": str(olga.user_id)}) is None


def test_sessions_of_ones_own_are_a_choice(client, space, anna, olga):
    board = cast.make_board(space, "talks", partition_by="session")
    first = cast.chain_of(anna)
    second = Session.objects.create(space=space, kind="key", user=anna.user, label="Anna's key")
    cast.filed(board, first, "In the page")
    cast.filed(board, replace(first, session_id=second.pk), "By the key")
    html = page(client, anna, "board", "talks").content.decode()
    assert "In the page" in html
    assert "By the key" not in html
    assert "Anna&#x27;s key (yours)" in html
    assert "By the key" in page(client, anna, "board", f"talks@{second.pk}").content.decode()
    assert "By the key" in page(client, olga, "board", f"talks@{second.pk}").content.decode()
    ben = cast.make_member(space, "ben")
    assert page(client, ben, "board", f"talks@{second.pk}").status_code == 404
