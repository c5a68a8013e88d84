"""Retention: what ended long ago goes with all that hangs together with it, or stays with it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.functions import Now

from boards import errors, people, sweeping, tasks, upkeep
from boards.actors import Chain
from boards.debts import owing
from boards.models import (
    Attempt,
    Board,
    Debt,
    Event,
    FlowRun,
    Hold,
    Member,
    Session,
    Task,
    TaskDep,
    TranscriptItem,
    Visit,
)
from boards.tasks import follow_ups, retention
from boards.tasks.filing import Filing
from tests import cast
from tests.flows.cast import Stage, settle

pytestmark = pytest.mark.django_db


@pytest.fixture
def anna() -> Member:
    return cast.make_member(cast.make_space())


@pytest.fixture
def board(anna: Member) -> Board:
    return cast.make_board(anna.space)


@pytest.fixture
def chain(anna: Member) -> Chain:
    return cast.chain_of(anna)


def done(board: Board, chain: Chain, **fields: object) -> Task:
    """A task that was worked and handed in."""
    task = cast.filed(board, chain, **fields)
    claimed = cast.claimed(board)
    assert claimed.task.pk == task.pk
    tasks.complete(cast.agent_chain(board), task, "Done.", claim=claimed.ticket)
    return task


def aged(tasks_: Iterable[Task] = (), days: int = 40) -> None:
    """What is owed is paid, and all tasks, or these, and all runs that ended, are as old as that."""
    settle()
    rows = Task.objects.filter(pk__in=[t.pk for t in tasks_]) if tasks_ else Task.objects.all()
    long_ago = Now() - timedelta(days=days)
    rows.update(created_at=long_ago)
    rows.filter(completed_at__isnull=False).update(completed_at=long_ago)
    FlowRun.objects.filter(completed_at__isnull=False).update(completed_at=long_ago)


def removed(days: int = 30, **more: int) -> int:
    return tasks.remove_ended(days, **{"limit": 100, **more}).tasks


def test_what_ended_long_ago_goes_with_all_that_belongs_to_it(board, chain):
    task = cast.filed(board, chain, holds=[tasks.HoldFiling(kind="confirm", prompt="Sure?")])
    people.answer_hold(chain, Hold.objects.get().pk, choice="yes")
    ticket = cast.claimed(board).ticket
    tasks.add_transcript(task.pk, 1, TranscriptItem.Kind.MESSAGE, "Working.")
    tasks.complete(cast.agent_chain(board), task, "Done.", claim=ticket)
    events = set(Event.objects.values_list("pk", flat=True))
    aged()
    assert removed() == 1
    for model in (Task, Hold, Attempt, TranscriptItem):
        assert not model.objects.exists()
    assert events < set(Event.objects.values_list("pk", flat=True)), "the log is the audit"
    told = Event.objects.get(kind="board.tasks_removed")
    assert told.data == {"tasks": [{"key": task.pk, "id": task.public_id, "label": task.label}]}
    assert (told.board_id, told.actor, told.cause) == (board.pk, "sweeper", "retention")


@pytest.mark.parametrize("status", ["completed", "errored", "cancelled"])
def test_every_ending_is_one(status, board, chain):
    task = cast.filed(board, chain)
    if status == "cancelled":
        tasks.cancel(chain, task, "Not wanted")
    else:
        ticket = cast.claimed(board).ticket
        end = tasks.complete if status == "completed" else tasks.fail
        end(cast.agent_chain(board), task, "over", claim=ticket)
    aged()
    assert removed() == 1


def test_what_ended_lately_or_goes_on_stays(board, chain):
    done(board, chain)
    aged(days=29)
    cast.filed(board, chain, goal="Open")
    aged(Task.objects.filter(goal="Open"))
    assert removed() == 0
    assert Task.objects.count() == 2


def hang_together(how: str, board: Board, chain: Chain) -> tuple[Task, Task]:
    """An ended task, and an open one that hangs together with it."""
    if how == "dependent":
        first = done(board, chain)
        return first, cast.filed(board, chain, goal="After", deps=[first.public_id])
    if how == "follow-up":
        first = done(board, chain)
        return first, cast.filed(board, chain, goal="More", assignee="", follow_up_of=first.public_id)
    parent = cast.filed(board, chain)
    ticket = cast.claimed(board).ticket
    child = tasks.file_task(chain, board, Filing(goal="Part", assignee="reader"), filed_by_task=parent)
    tasks.complete(cast.agent_chain(board), parent, "Done.", claim=ticket)
    return parent, child


@pytest.mark.parametrize("how", ["dependent", "follow-up", "child"])
def test_a_component_with_one_open_member_stays_whole_and_goes_whole_once_it_ended(how, board, chain):
    done(board, chain, goal="Apart")
    ended, still_open = hang_together(how, board, chain)
    aged()
    assert removed() == 1, "what stands apart"
    assert set(Task.objects.values_list("pk", flat=True)) == {ended.pk, still_open.pk}
    tasks.cancel(chain, still_open, "Not wanted")
    assert removed() == 0, "it ended just now"
    aged()
    assert removed() == 2
    assert not Task.objects.exists()
    assert not TaskDep.objects.exists()


def test_a_member_that_owes_something_keeps_the_component(board, chain):
    task = done(board, chain)
    aged()
    owing.note_undeliverable("notice", "one", task, "Nobody is there.", {})
    assert removed() == 0
    Debt.objects.all().delete()
    assert removed() == 1


def test_a_task_of_an_active_run_stays_and_a_run_that_ended_outlives_its_tasks():
    stage = Stage()
    run = stage.started()
    stage.complete()
    written = Task.objects.get()
    aged()
    assert removed() == 0, "the run waits on a person"
    stage.answer(run, "approve")
    stage.complete(cast.READER)
    aged()
    assert removed() == 2
    assert not Task.objects.exists()
    ended = FlowRun.objects.get()
    assert (ended.status, Visit.objects.filter(run=ended).count()) == ("completed", 4)
    assert not Visit.objects.filter(task=written.pk).exists()


@pytest.mark.parametrize("caller", ["active", "ended long ago"])
def test_the_tasks_of_a_run_stay_while_the_run_that_called_it_goes_on(caller):
    stage = Stage()
    parent, child = stage.started(), stage.started()
    for _ in range(2):
        stage.complete()
    stage.answer(child, "approve")
    stage.complete(cast.READER)
    FlowRun.objects.filter(pk=child.pk).update(called_by=parent.current_visit)
    if caller != "active":
        stage.answer(parent, "approve")
        stage.complete(cast.READER)
    aged()
    assert removed() == (0 if caller == "active" else 4)


def test_a_retry_that_comes_first_keeps_it(board, chain, monkeypatch):
    task = done(board, chain)
    aged()
    look = retention._may_go
    looks = []

    def then_reopened(component, days):
        looks.append(look(component, days))
        Task.objects.filter(pk=task.pk).update(status="pending", completed_at=None)
        return looks[-1]

    monkeypatch.setattr(retention, "_may_go", then_reopened)
    assert removed() == 0
    assert looks == [True, False]
    assert Task.objects.exists()


def test_it_goes_in_batches_and_finds_on(board, chain):
    for n in range(5):
        done(board, chain, goal=f"Task {n}")
    aged()
    first = tasks.remove_ended(30, limit=2)
    assert (first.tasks, Task.objects.count()) == (2, 3)
    rest = tasks.remove_ended(30, limit=100, after_key=first.next_key)
    assert (rest.tasks, rest.next_key) == (3, None)


def test_the_session_of_its_run_goes_unless_something_else_is_in_it(board, chain):
    task = done(board, chain)
    alone, used = (Session.objects.create(space=board.space, kind="task_run") for _ in range(2))
    Attempt.objects.update(session=alone)
    Attempt.objects.create(task=task, number=2, session=used, ended_at=Now(), ending="completed")
    Session.objects.create(space=board.space, kind="task_run", parent=used)
    aged()
    assert removed() == 1
    assert not Session.objects.filter(pk=alone.pk).exists()
    assert Session.objects.filter(pk=used.pk).exists()


def test_every_table_that_names_a_task_is_seen_to():
    """A new reference to a task has to be decided about here: it goes, is emptied, or keeps the key."""
    relations = [
        field
        for field in Task._meta.get_fields(include_hidden=True)
        if field.one_to_many or (field.one_to_one and field.auto_created)
    ]
    named = {(relation.related_model._meta.db_table, relation.field.column) for relation in relations}
    emptied = {(table, "task_id") for table in retention.EMPTIED}
    checked, keeps = ("boards_debt", "task_id"), ("boards_event", "task_id")
    inside = {("boards_task", "follow_up_of_id"), ("boards_task", "filed_by_task_id")}
    assert named == {*retention.BELONGINGS, *emptied, checked, keeps, *inside}


def test_the_sweeper_removes_only_where_the_setting_says_so(board, chain, settings):
    done(board, chain)
    aged()
    upkeep.begin_anew()
    sweeping.sweep_once()
    assert Task.objects.exists(), "without the setting everything is kept"
    settings.RETENTION_DAYS = 30
    upkeep.begin_anew()
    assert sweeping.sweep_once().done["old tasks removed"] == 1
    assert not Task.objects.exists()


def test_the_command_removes_and_says_how_much(board, chain, capsys):
    for n in range(3):
        done(board, chain, goal=f"Task {n}")
    aged()
    call_command("retention", days=30, dry_run=True)
    assert "3 tasks that ended more than 30 days ago would go." in capsys.readouterr().out
    assert Task.objects.count() == 3
    call_command("retention", days=30)
    assert "3 tasks that ended more than 30 days ago removed." in capsys.readouterr().out
    assert not Task.objects.exists()


@pytest.mark.parametrize("days", [None, 0, -1])
def test_the_command_wants_to_know_how_many_days(days):
    with pytest.raises(CommandError, match="Say how many days are kept"):
        call_command("retention", days=days)


def test_the_log_about_what_is_gone_goes_only_when_that_is_asked_for(board, chain, capsys):
    gone = done(board, chain)
    aged()
    kept = done(board, chain, goal="Lately")
    Event.objects.filter(task=gone.pk).update(at=Now() - timedelta(days=40))
    Event.objects.filter(task=kept.pk).update(at=Now() - timedelta(days=40))
    call_command("retention", days=30)
    assert Event.objects.filter(task=gone.pk).exists()
    call_command("retention", days=30, events=True)
    assert not Event.objects.filter(task=gone.pk).exists()
    assert Event.objects.filter(task=kept.pk).exists(), "its page shows them"
    assert Event.objects.filter(kind="board.tasks_removed").exists(), "that is not old"
    assert "3 events about what is gone removed." in capsys.readouterr().out


def test_what_was_removed_meanwhile_cannot_be_followed_up(board, chain, monkeypatch):
    task = done(board, chain)
    keep = follow_ups.keep

    def removed_first(roots):
        with connection.cursor() as cursor:
            for table, column in retention.BELONGINGS:
                cursor.execute(f"delete from {table} where {column} = %s", [task.pk])
            cursor.execute("delete from boards_task where pk = %s", [task.pk])
        keep(roots)

    monkeypatch.setattr(follow_ups, "keep", removed_first)
    with pytest.raises(errors.TaskNotFound):
        cast.filed(board, chain, assignee="", follow_up_of=task.public_id)


def test_operators_still_read_in_the_log_which_task_it_was(board, chain, client):
    task = done(board, chain)
    aged()
    removed()
    operator = cast.make_member(board.space, "olga", "operator")
    operator.user.is_staff = True
    operator.user.save(update_fields=["is_staff"])
    client.force_login(operator.user)
    listed = client.get("/admin/boards/event/").content.decode()
    assert f"removed task {task.pk}" in listed
    event = Event.objects.filter(task=task.pk).first()
    assert event is not None
    assert f"removed task {task.pk}" in client.get(f"/admin/boards/event/{event.pk}/change/").content.decode()
