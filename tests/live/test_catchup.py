"""Catch-up: nothing missed, nothing twice, whatever commits late; and a new epoch for a database that came back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from boards import tasks
from boards.event_log import Entry, record
from boards.models import Event, LogEpoch, Task
from boards.queries import catchup
from boards.queries.catchup import Refresh, changes_of, changes_since, cursor
from boards.tasks import Filing
from tests.live.cast import Cast, rolled_back


def test_a_page_is_told_what_changed_since_its_cursor_and_only_once(cast: Cast) -> None:
    first = cursor()
    task = cast.file("a")
    keys, runs, second = _changes(cast, first)
    assert keys == {task.pk}
    assert runs == frozenset()
    assert _changes(cast, second)[0] == frozenset()


def test_what_depends_on_a_changed_task_changed_with_it(cast: Cast) -> None:
    first = cast.file("first")
    then = cast.file("then", deps=[first.public_id])
    known = cursor()
    _edit(cast, first)
    assert _changes(cast, known)[0] == {first.pk, then.pk}


def test_a_write_that_commits_late_under_a_lower_id_is_not_missed(cast: Cast) -> None:
    early, late = cast.file("early"), cast.file("late")
    known = cursor()
    with Elsewhere() as elsewhere:
        elsewhere.do(lambda: _edit(cast, late))  # its event has the lower id, and stays uncommitted
        _edit(cast, early)
        keys, _, known = _changes(cast, known)
        assert keys == {early.pk}
        elsewhere.commit()
    ids = dict(Event.objects.filter(kind="task.edited").values_list("task_id", "pk"))
    assert ids[late.pk] < ids[early.pk]
    keys, _, known = _changes(cast, known)
    assert keys == {late.pk}
    assert _changes(cast, known)[0] == frozenset()


def test_a_rolled_back_write_is_never_told(cast: Cast) -> None:
    known = cursor()
    with rolled_back():
        cast.file("gone")
    assert _changes(cast, known)[0] == frozenset()


def test_another_board_has_its_own_changes(cast: Cast) -> None:
    known = cursor()
    cast.file("a")
    assert changes_since(cast.elsewhere.pk, known)[0] == frozenset()


def test_several_boards_are_read_in_one_query(cast: Cast, django_assert_num_queries: object) -> None:
    known = cursor()
    task = cast.file("a")
    with django_assert_num_queries(1):  # type: ignore[operator]
        found = changes_of([cast.board.pk, cast.elsewhere.pk], known)
    assert not isinstance(found, Refresh)
    missed, _ = found
    assert list(missed) == [cast.board.pk]
    assert missed[cast.board.pk].task_keys == {task.pk}


def test_progress_alone_stirs_nothing_that_waits_on_people(cast: Cast) -> None:
    task = cast.file("a")
    known = cursor()
    record(Entry("task.progressed", cast.chain, board_id=cast.board.pk, task_key=task.pk))
    missed, _ = changes_of([cast.board.pk], known)
    assert missed[cast.board.pk].quiet
    _edit(cast, task)
    missed, _ = changes_of([cast.board.pk], known)
    assert not missed[cast.board.pk].quiet


def test_more_than_200_rows_are_a_refresh(cast: Cast) -> None:
    known = cursor()
    tasks.file_tasks(cast.chain, cast.board, [Filing(goal=f"Do {n}", id=f"t{n}") for n in range(201)])
    found = changes_since(cast.board.pk, known)
    assert isinstance(found, Refresh)
    assert _changes(cast, found.cursor)[0] == frozenset()


def test_200_rows_are_told_one_by_one(cast: Cast) -> None:
    known = cursor()
    tasks.file_tasks(cast.chain, cast.board, [Filing(goal=f"Do {n}", id=f"t{n}") for n in range(200)])
    assert len(_changes(cast, known)[0]) == 200


@pytest.mark.parametrize(
    "given",
    [
        "",
        "nonsense",
        "{epoch}:",
        "{epoch}:5:4:",
        "{epoch}:0:4:",
        "{epoch}:3:9:8,7",
        "{epoch}:3:9:12",
        "{epoch}:3:9:;drop",
    ],
)
def test_a_cursor_that_is_none_of_ours_is_a_refresh(cast: Cast, given: str) -> None:
    assert isinstance(changes_since(cast.board.pk, given.format(epoch=catchup.epoch())), Refresh)


def test_a_cursor_of_another_epoch_or_from_the_future_is_a_refresh(cast: Cast) -> None:
    known = cursor()
    other = known.replace(catchup.epoch(), "00000000-0000-0000-0000-000000000000")
    assert isinstance(changes_since(cast.board.pk, other), Refresh)
    assert isinstance(changes_since(cast.board.pk, f"{catchup.epoch()}:9000000000000:9000000000000:"), Refresh)


def test_a_log_from_another_cluster_begins_a_new_epoch(cast: Cast) -> None:
    known = cursor()
    cast.file("a")
    LogEpoch.objects.update(system_identifier="of another cluster")
    catchup.forget_epoch()
    assert isinstance(changes_since(cast.board.pk, known), Refresh)
    assert set(Event.objects.values_list("xid", flat=True)) == {0}
    fresh = cursor()
    task = cast.file("b")
    assert _changes(cast, fresh)[0] == {task.pk}


def test_a_role_that_may_not_ask_for_the_cluster_still_has_an_epoch(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catchup, "_system_identifier", lambda: "")
    catchup.forget_epoch()
    known = cursor()
    catchup.forget_epoch()
    task = cast.file("a")
    assert _changes(cast, known)[0] == {task.pk}


def test_processes_that_start_together_agree_on_the_epoch(cast: Cast) -> None:
    LogEpoch.objects.all().delete()
    found: list[str] = []

    def start() -> None:
        found.append(catchup._kept_epoch() or catchup._new_epoch())
        connection.close()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert LogEpoch.objects.count() == 1


class Elsewhere:
    """A transaction on a connection of its own, held open until it is told to commit."""

    def __init__(self) -> None:
        self._work: list[object] = []
        self._ready, self._go = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *_: object) -> None:
        self._go.set()
        if self._thread:
            self._thread.join()

    def do(self, work: object) -> None:
        self._thread = threading.Thread(target=self._run, args=(work,))
        self._thread.start()
        assert self._ready.wait(60)

    def commit(self) -> None:
        self._go.set()
        assert self._thread
        self._thread.join()

    def _run(self, work: object) -> None:
        with transaction.atomic():
            work()  # type: ignore[operator]
            self._ready.set()
            self._go.wait(60)
        connection.close()


@pytest.fixture(autouse=True)
def _epoch_is_read_anew() -> Iterator[None]:
    yield
    catchup.forget_epoch()


def _changes(cast: Cast, known: str) -> tuple[frozenset[int], frozenset[int], str]:
    found = changes_since(cast.board.pk, known)
    assert not isinstance(found, Refresh)
    return found


def _edit(cast: Cast, task: Task) -> None:
    record(Entry("task.edited", cast.chain, board_id=cast.board.pk, task_key=task.pk))
