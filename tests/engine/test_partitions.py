"""Partitioned boards: one independent set of rows for each user or session (spec: 01, 03 section 1)."""

from __future__ import annotations

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from boards import actors, errors, keys, people, tasks
from boards.models import AgentKey, BoardCounter, Member, Session, Task
from boards.tasks import Filing, HoldFiling, Wanted
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def space():
    return cast.make_space()


@pytest.fixture
def board(space):
    return cast.make_board(space, partition_by="user")


@pytest.fixture
def anna(space):
    return cast.chain_of(cast.make_member(space))


@pytest.fixture
def bert(space):
    return cast.chain_of(cast.make_member(space, "bert"))


def test_the_key_comes_from_the_chain_alone(space, board, anna):
    assert tasks.partition_of(anna, board) == str(anna.user_id)
    assert cast.filed(board, anna).partition == str(anna.user_id)
    by_session = cast.make_board(space, "sessions", partition_by="session")
    assert cast.filed(by_session, anna).partition == str(anna.session_id)
    assert cast.filed(cast.make_board(space, "plain"), anna).partition == ""
    with pytest.raises(TypeError):
        Filing(goal="x", partition="other")  # type: ignore[call-arg]


def test_a_workers_session_leads_to_the_person_it_was_filed_by(space, board, anna):
    child = Session.objects.create(space=space, kind="task_run", parent_id=anna.session_id)
    worker = actors.agent("writer", space.pk, child.pk)
    assert cast.filed(board, worker).partition == str(anna.user_id)


@pytest.mark.parametrize("by", ["user", "session"])
def test_an_identity_that_yields_no_partition_is_refused(space, by):
    board = cast.make_board(space, "other", partition_by=by)
    for chain in (actors.agent("writer", space.pk), actors.service("flows", space.pk)):
        with pytest.raises(errors.NoPartition):
            cast.filed(board, chain)
    assert not Task.objects.exists()


def test_ids_twins_numbers_and_dependencies_are_each_partitions_own(board, anna, bert):
    mine = tasks.file_task(anna, board, goal="Once", id="a", assignee="writer")
    theirs = tasks.file_task(bert, board, goal="Once", id="a", assignee="writer")
    assert {mine.partition, theirs.partition} == {str(anna.user_id), str(bert.user_id)}
    with pytest.raises(errors.AlreadyOpen):
        tasks.file_task(anna, board, goal="Once", assignee="writer")
    tasks.file_task(bert, board, goal="Bert's", id="b")
    with pytest.raises(errors.DependencyNotOnBoard):
        tasks.file_task(anna, board, goal="Later", deps=["b"])
    with pytest.raises(errors.DependencyNotOnBoard):
        tasks.update_task(anna, mine, deps=["b"])
    numbered = [tasks.file_task(chain, board, goal="Next").public_id for chain in (anna, bert)]
    assert numbered == ["t2", "t3"]  # each after as many as its own partition holds


def test_caps_are_filled_by_each_partition_alone(space, anna, bert):
    board = cast.make_board(space, "tight", partition_by="user", max_total_tasks=2, max_enqueued_tasks=1)
    cast.filed(board, anna)
    with pytest.raises(errors.EnqueuedTaskCapExceeded):
        cast.filed(board, anna)
    cast.filed(board, anna, held=True)
    with pytest.raises(errors.TotalTaskCapExceeded):
        cast.filed(board, anna, held=True)
    cast.filed(board, bert)
    counters = dict(BoardCounter.objects.filter(board=board).values_list("partition", "filed_total"))
    assert counters == {str(anna.user_id): 2, str(bert.user_id): 1}


def test_reads_are_of_one_partition(board, anna, bert):
    mine = tasks.file_task(anna, board, goal="Mine", id="a")
    tasks.file_task(bert, board, goal="Theirs", id="b")
    own = tasks.partition_of(anna, board)
    assert tasks.get_task(anna, board, "a", partition=own) == mine
    assert tasks.list_tasks(anna, board, partition=own) == [mine]
    assert (tasks.get_task(anna, board, "a"), tasks.list_tasks(anna, board)) == (mine, [mine])
    theirs = tasks.partition_of(bert, board)
    for elsewhere in (own, theirs, None):
        with pytest.raises(errors.TaskNotFound):
            tasks.get_task(anna, board, "b", partition=elsewhere)
    assert tasks.list_tasks(anna, board, partition=theirs) == []
    assert tasks.find_task_partitions(anna, board, "a") == [own]
    assert tasks.find_task_partitions(anna, board, "b") == []
    assert tasks.find_task_partitions(anna, board, "nowhere") == []


def test_a_person_finds_an_id_in_each_of_their_sessions(space, anna):
    board = cast.make_board(space, "sessions", partition_by="session")
    key = Session.objects.create(space=space, kind="key", user_id=anna.user_id)
    tasks.file_task(anna, board, goal="One", id="a")
    tasks.file_task(actors.agent("bot", space.pk, key.pk), board, goal="Two", id="a")
    assert tasks.find_task_partitions(anna, board, "a") == sorted([str(anna.session_id), str(key.pk)])
    assert tasks.find_task_partitions(actors.agent("bot", space.pk, key.pk), board, "a") == [str(key.pk)]


@pytest.mark.parametrize(
    "act",
    [
        lambda chain, task: tasks.update_task(chain, task, title="T"),
        lambda chain, task: tasks.update_task(chain, task, deps=[]),
        lambda chain, task: tasks.update_task(chain, task, status="held"),
        lambda chain, task: tasks.update_task(chain, task, status="cancelled"),
        lambda chain, task: tasks.update_task(chain, task, message="Hello"),
        lambda chain, task: tasks.cancel(chain, task),
        lambda chain, task: tasks.skip(chain, task, "no"),
        lambda chain, task: tasks.hold(chain, task),
        lambda chain, task: tasks.retry(chain, task),
        lambda chain, task: tasks.start_anyway(chain, task),
        lambda chain, task: tasks.set_priority(chain, task, 3),
        lambda chain, task: tasks.claim_for_person(chain, task),
        lambda chain, task: tasks.file_task(chain, task.board, goal="More", follow_up_of=task.public_id),
    ],
)
def test_a_row_of_another_partition_is_not_there_for_any_verb(board, anna, bert, act):
    task = cast.filed(board, anna)
    with pytest.raises(errors.TaskNotFound):
        act(bert, task)
    assert cast.fresh(task).revision == 1


def test_its_questions_are_not_there_either(board, anna, bert):
    task = cast.filed(board, anna, holds=[HoldFiling(kind="confirm", prompt="Really?")])
    with pytest.raises(errors.NotFound):
        people.answer_hold(bert, task.holds.get().pk, choice="yes")
    people.answer_hold(anna, task.holds.get().pk, choice="yes")


def test_the_drain_serves_every_partition_and_each_row_within_its_own(board, anna, bert):
    first = {
        chain.name: tasks.file_task(chain, board, goal="First", id="a", assignee="writer") for chain in (anna, bert)
    }
    later = tasks.file_task(bert, board, goal="Later", assignee="writer", deps=["a"])
    got = tasks.claim([Wanted(board.pk, {"writer": 5})], limit=5, claimed_by=cast.HERE)
    assert {one.ticket.partition for one in got} == {str(anna.user_id), str(bert.user_id)}
    mine = next(one for one in got if one.task.pk == first[anna.name].pk)
    tasks.complete(cast.agent_chain(board), mine.task, "Anna's", claim=mine.ticket)
    assert cast.fresh(later).unmet_deps == 1


def test_the_budget_of_retries_is_each_partitions_own(space, anna, bert):
    board = cast.make_board(space, "tight", partition_by="user", max_total_retries=1)
    rows = [cast.filed(board, chain, max_attempts=5) for chain in (anna, anna, bert)]
    for got in tasks.claim([Wanted(board.pk, {"writer": 3})], limit=3, claimed_by=cast.HERE):
        tasks.fail(cast.agent_chain(board), got.task, "no", claim=got.ticket)
    assert [cast.fresh(row).status for row in rows] == ["pending", "errored", "pending"]


def test_follow_ups_stay_in_their_partition(board, anna, bert):
    for chain in (anna, bert):
        tasks.file_task(chain, board, goal="First", id="a", assignee="writer")
    for got in tasks.claim([Wanted(board.pk, {"writer": 2})], limit=2, claimed_by=cast.HERE):
        tasks.complete(cast.agent_chain(board), got.task, None, claim=got.ticket)
    made = [tasks.file_task(chain, board, goal="More", follow_up_of="a") for chain in (anna, bert)]
    assert [task.public_id for task in made] == ["a-f1", "a-f1"]
    assert [task.follow_up_of.partition for task in made] == [task.partition for task in made]


def test_a_key_of_a_filing_that_was_used_in_another_partition_is_another_request(space, anna):
    board = cast.make_board(space, "sessions", partition_by="session")
    other = Session.objects.create(space=space, kind="key", user_id=anna.user_id)
    tasks.file_task(anna, board, goal="Once", idempotency_key="k")
    elsewhere = actors.Chain(space.pk, anna.hops, other.pk, anna.user_id)
    with pytest.raises(errors.KeyReused):
        tasks.file_task(elsewhere, board, goal="Once", idempotency_key="k")


def test_an_operator_acts_on_a_row_and_files_only_in_their_own(space, board, anna):
    olga = cast.chain_of(cast.make_member(space, "olga", "operator"))
    task = cast.filed(board, anna)
    assert tasks.cancel(olga, task).landed
    assert cast.filed(board, olga).partition == str(olga.user_id)


def test_a_filing_under_settings_that_were_changed_meanwhile_is_refused(space, anna):
    board = cast.make_board(space, "plain")
    type(board).objects.filter(pk=board.pk).update(partition_by="user")
    with pytest.raises(errors.TaskWriteDeclined):
        cast.filed(board, anna)
    assert not Task.objects.exists()


def test_nothing_is_read_in_another_space_nor_on_a_board_that_a_key_does_not_see(board, anna):
    mine = tasks.file_task(anna, board, goal="Mine", id="a")
    own = tasks.partition_of(anna, board)
    stranger = cast.chain_of(cast.make_member(cast.make_space("elsewhere"), "mallory"))
    attic = cast.make_board(board.space, "attic")
    member = Member.objects.get(user=anna.user_id, space=board.space)
    key, _ = keys.make(anna, keys.KeyFields("bot", ("read",), [attic.pk]))
    outside = actors.by_key(AgentKey.objects.select_related("member__user").get(pk=key.pk))
    assert member.user_id == outside.user_id
    for chain in (stranger, outside):
        with pytest.raises(errors.TaskNotFound):
            tasks.get_task(chain, board, "a", partition=own)
        assert tasks.list_tasks(chain, board, partition=own) == []
        assert tasks.find_task_partitions(chain, board, "a") == []
    assert tasks.get_task(anna, board, "a") == mine


def test_what_ran_in_a_session_is_found_in_its_partition(board, anna):
    task = tasks.file_task(anna, board, goal="Mine", assignee="writer")
    session = Session.objects.create(space=board.space, kind="task_run")
    tasks.link_run(cast.agent_chain(board), cast.claimed(board).ticket, session.pk, "r1")
    assert tasks.rows_in_session(board, session) == [task]


def test_partitions_of_an_id_are_found_by_an_index(board, anna):
    for n in range(30):
        tasks.file_task(anna, board, goal=f"Task {n}", id=f"a{n}")
    with CaptureQueriesContext(connection) as seen:
        assert tasks.find_task_partitions(anna, board, "a7") == [tasks.partition_of(anna, board)]
    asked = next(query["sql"] for query in seen.captured_queries if "'a7'" in query["sql"])
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("set local enable_seqscan = off")  # the table is small
        cursor.execute("explain " + asked)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "task_id_once_per_partition" in plan, plan
    assert "'a7'" in plan.split("Index Cond")[1].splitlines()[0], plan
