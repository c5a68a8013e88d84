"""Change notices: after the commit only, folded, small, and heard again after the database went away."""

from __future__ import annotations

import os
import threading

import pytest
from django.db import connection, transaction
from django.test import Client

from boards import live_notices, tasks
from boards.live_notices import GAP, Inbox, Listener, Notice, changed, parse
from boards.models import Member, Role, Task, User
from boards.tasks import Filing
from tests.admin.test_acts import act
from tests.live.cast import Cast, rolled_back
from tests.live.conftest import Heard
from tests.waiting import until


def test_a_change_is_announced_after_the_commit_and_not_before(cast: Cast, heard: Heard) -> None:
    with transaction.atomic():
        changed(cast.board.pk, task_key=7)
        changed(cast.board.pk, task_key=8, run_id=3)
        live_notices.close()  # whatever was folded would be sent now
        _nothing_comes(heard)
    until(lambda: heard.changes)
    assert heard.changes == [Notice(cast.board.pk, frozenset({7, 8}), frozenset({3}))]


def test_a_rollback_announces_nothing(cast: Cast, heard: Heard) -> None:
    with rolled_back():
        changed(cast.board.pk, task_key=7)
    _nothing_comes(heard)


def test_a_rolled_back_savepoint_takes_only_its_own_changes_with_it(cast: Cast, heard: Heard) -> None:
    with transaction.atomic():
        changed(cast.board.pk, task_key=1)
        with rolled_back():
            changed(cast.board.pk, task_key=2)
        changed(cast.board.pk, task_key=3)
    until(lambda: 3 in heard.tasks)
    assert heard.tasks == {1, 3}


def test_changes_after_a_rolled_back_savepoint_that_came_first_are_announced(cast: Cast, heard: Heard) -> None:
    with transaction.atomic():
        with rolled_back():
            changed(cast.board.pk, task_key=1)
        changed(cast.board.pk, task_key=2)
    until(lambda: heard.tasks)
    assert heard.tasks == {2}


def test_an_act_of_the_admin_is_announced_after_its_commit_and_never_after_a_rollback(cast: Cast, heard: Heard) -> None:
    Member.objects.filter(user=cast.anna).update(role=Role.OPERATOR)
    User.objects.filter(pk=cast.anna.pk).update(is_staff=True)
    first, second = cast.file("first"), cast.file("second")
    until(lambda: heard.tasks == {first.pk, second.pk})
    heard.notices.clear()
    admin = Client()
    admin.force_login(cast.anna)
    with rolled_back():
        assert "1 done." in act(admin, "cancel", first)
        _nothing_comes(heard)
    _nothing_comes(heard)
    with transaction.atomic():  # it takes its time
        assert "1 done." in act(admin, "cancel", second)
        _nothing_comes(heard)
    until(lambda: heard.tasks == {second.pk})
    assert Task.objects.get(pk=first.pk).status == "pending"


def test_a_transaction_registers_one_callback_for_all_its_changes(cast: Cast) -> None:
    with transaction.atomic():
        for key in range(1_000):
            changed(cast.board.pk, task_key=key)
        assert len(connection.run_on_commit) == 1
        transaction.on_commit(lambda: None)
        changed(cast.board.pk, task_key=1_000)
        assert len(connection.run_on_commit) == 2


def test_a_burst_of_commits_is_folded(cast: Cast, heard: Heard) -> None:
    for key in range(300):
        changed(cast.board.pk, task_key=key)
    until(lambda: len(heard.tasks) == 300)
    assert heard.changes[0].task_keys == {0}  # the first at once
    assert len(heard.changes) < 150


def test_sent_aside_even_the_first_does_not_hold_up_whoever_committed(
    cast: Cast, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_notices.close()  # what other tests changed is out
    threads: list[str] = []
    send = live_notices._send
    monkeypatch.setattr(live_notices, "_send", lambda p: (threads.append(threading.current_thread().name), send(p)))
    with live_notices.sent_aside():
        changed(cast.board.pk, task_key=7)
        until(lambda: heard.tasks)
    assert heard.tasks == {7}
    assert set(threads) == {"change-notices"}
    assert not live_notices._notifier.aside


def test_the_connection_that_sends_aside_may_be_cut_while_it_rests(cast: Cast, heard: Heard) -> None:
    live_notices.close()  # what other tests changed is out
    with connection.cursor() as cursor:
        cursor.execute("select array_agg(pid) from pg_stat_activity")
        (others,) = cursor.fetchone()
    with live_notices.sent_aside():
        changed(cast.board.pk, task_key=7)
        until(lambda: heard.tasks == {7})
        with connection.cursor() as cursor:
            cursor.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and backend_type = 'client backend' and not pid = any(%s)",
                [others],
            )
            assert cursor.fetchall() == [(True,)]
        changed(cast.board.pk, task_key=8)
        until(lambda: heard.tasks == {7, 8})
    assert heard.gaps == 1


def test_where_no_thread_can_be_started_to_send_a_later_change_sends_all(
    cast: Cast, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_notices.close()
    start, refused = threading.Thread.start, []

    def refuses_once(thread: threading.Thread) -> None:
        if not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuses_once)
    with live_notices.sent_aside():
        changed(cast.board.pk, task_key=7)
        assert refused == ["change-notices"]
        changed(cast.board.pk, task_key=8)
        until(lambda: heard.tasks == {7, 8})


def test_boards_are_folded_together(cast: Cast, heard: Heard) -> None:
    with transaction.atomic():
        changed(cast.board.pk, task_key=1)
        changed(cast.elsewhere.pk, task_key=2)
        changed(None, process=True, user_id=5)
    until(lambda: len(heard.changes) == 3)
    assert heard.changes == [
        Notice(cast.board.pk, frozenset({1})),
        Notice(cast.elsewhere.pk, frozenset({2})),
        Notice(None, user_ids=frozenset({5}), process=True),
    ]


def test_a_thousand_tasks_filed_in_one_act_stay_under_the_payload_limit(cast: Cast, heard: Heard) -> None:
    goal = "\N{MUSICAL SYMBOL FERMATA}" * 3_000
    filings = [Filing(goal=goal, id=f"t{n}") for n in range(1_000)]
    filed = tasks.file_tasks(cast.chain, cast.board, filings, allow_same=True)
    assert len(filed) == 1_000
    until(lambda: heard.changes)
    assert {notice.board_id for notice in heard.changes} == {cast.board.pk}


def test_ids_that_do_not_fit_are_left_out_and_boards_that_do_not_fit_become_a_gap() -> None:
    many = live_notices._Changes()
    for key in range(10**9, 10**9 + 1_000):
        many.add(3, key, None, False, None)
    assert list(parse(many.payload())) == [Notice(3)]
    for board in range(3_000):
        many.add(board, None, None, False, None)
    assert list(parse(many.payload())) == [GAP]


@pytest.mark.parametrize("payload", ["", "nonsense", "[]", '{"b":{"x":[[],[]]}}', '{"b":{"1":[1]}}'])
def test_a_payload_of_another_make_is_a_gap(payload: str) -> None:
    assert list(parse(payload)) == [GAP]


def test_a_listener_that_lost_its_connection_comes_back_with_a_gap(cast: Cast, heard: Heard) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'orchestra listener' and datname = current_database()"
        )
    until(lambda: heard.gaps == 2, what="the second gap")
    assert heard.listener.listening
    changed(cast.board.pk, task_key=9)
    until(lambda: 9 in heard.tasks)


def test_a_stopped_listener_hears_no_more_and_leaves_no_connection(cast: Cast, heard: Heard) -> None:
    heard.listener.stop()
    assert not heard.listener.is_alive()
    assert not heard.listener.listening
    until(lambda: _listeners() == 0)


def test_with_listen_off_nothing_is_heard(cast: Cast, settings: object) -> None:
    settings.LISTEN = False  # type: ignore[attr-defined]
    listener = Listener()
    heard = Heard(listener)
    listener.start()
    listener.join(60)
    assert not listener.is_alive()
    assert not heard.notices


def test_a_subscriber_that_fails_takes_nothing_from_the_others(cast: Cast, heard: Heard) -> None:
    def fails(notice: Notice) -> None:
        raise RuntimeError

    heard.listener._callbacks.insert(0, fails)
    changed(cast.board.pk, task_key=4)
    until(lambda: 4 in heard.tasks)


def test_an_inbox_waits_for_notices_and_is_woken(cast: Cast, heard: Heard) -> None:
    inbox = Inbox(heard.listener)
    assert inbox.wait(0) == []
    changed(cast.board.pk, task_key=6)
    assert inbox.wait(60) == [Notice(cast.board.pk, frozenset({6}))]
    threading.Timer(0.01, inbox.wake).start()
    assert inbox.wait(60) == []


def test_after_a_rest_the_sending_thread_gives_its_connection_back(cast: Cast, heard: Heard) -> None:
    changed(cast.board.pk, task_key=1)
    changed(cast.board.pk, task_key=2)
    until(lambda: heard.tasks == {1, 2})
    until(lambda: live_notices._notifier._thread is None)
    changed(cast.board.pk, task_key=3)
    changed(cast.board.pk, task_key=4)
    until(lambda: heard.tasks == {1, 2, 3, 4})


def test_a_child_made_by_fork_sends_nothing_of_its_parent(cast: Cast, heard: Heard) -> None:
    changed(cast.board.pk, task_key=1)
    changed(cast.board.pk, task_key=2)  # waits for its 10 ms, in a thread that the child does not have
    child = os.fork()
    if child == 0:
        fresh = live_notices._notifier
        os._exit(0 if not fresh._pending and fresh._thread is None and fresh._ready.acquire(False) else 1)
    assert os.waitpid(child, 0)[1] == 0
    until(lambda: heard.tasks == {1, 2})


def _nothing_comes(heard: Heard) -> None:
    """Sends a mark over the same channel, behind whatever was sent before, and looks what came until it."""
    mark = '{"u":[999]}'
    with connection.copy().cursor() as cursor:
        cursor.execute("select pg_notify('orchestra', %s)", [mark])
        cursor.db.close()
    until(lambda: Notice(user_ids=frozenset({999})) in heard.changes)
    heard.notices.remove(Notice(user_ids=frozenset({999})))
    assert heard.changes == []


def _listeners() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "select count(*) from pg_stat_activity"
            " where application_name = 'orchestra listener' and datname = current_database()"
        )
        return int(cursor.fetchone()[0])
