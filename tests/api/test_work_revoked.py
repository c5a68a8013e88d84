"""A revoke and a write of the key's worker at the same moment: once the revoke has answered nothing is recorded."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, transaction

from boards import errors, keys, tasks
from boards.models import AgentKey, Task
from boards.workers import outside
from tests import cast
from tests.api.cast import Desk
from tests.api.work_cast import Worker, put_outside, work_of
from tests.racing import at_once
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


def _held(worker: Worker, token: str) -> outside.Held:
    """As a call that has been let in: its key was looked at, and its write is still to come."""
    key = AgentKey.objects.select_related("member__space", "member__user").get(pk=worker.key.pk)
    return outside.held(keys.chain_of(key), token)


def test_a_write_that_was_let_in_before_the_revoke_is_refused_after_it(desk: Desk) -> None:
    put_outside(desk.board)
    worker, task = Worker(desk), work_of(desk)
    own = _held(worker, worker.begins())
    keys.revoke(desk.chain, worker.key)
    before = cast.fresh(task).revision
    writes: list[Any] = [
        lambda: outside.renew(own, None),
        lambda: outside.say(own, [tasks.Line(0, 0, "x")], ""),
        lambda: outside.progress(own, {"note": "x"}, ""),
        lambda: outside.ask(own, outside.Ask("question", "x?")),
        lambda: outside.complete(own, 1, "", given=True),
        lambda: outside.fail(own, "x", "", ""),
        lambda: outside.hand_back(own, "", ""),
        lambda: outside.spend(own, "settled", {"input_tokens": 1}, ""),
    ]
    for write in writes:
        with pytest.raises(errors.KeyRefused):
            write()
    row = cast.fresh(task)
    assert (row.revision, row.status, row.open_holds) == (before, "in_progress", 0)


def test_a_revoke_waits_for_a_write_that_came_before_it(desk: Desk) -> None:
    worker = Worker(desk)
    revoked = threading.Event()

    def revoke() -> None:
        try:
            keys.revoke(desk.chain, worker.key)
            revoked.set()
        finally:
            connection.close()

    with transaction.atomic():
        keys.require_standing(worker.key.pk)
        other = threading.Thread(target=revoke)
        other.start()
        until(_somebody_waits, 10, "the revoke to wait")
        assert not revoked.is_set()
    assert revoked.wait(10)
    other.join()
    with pytest.raises(errors.KeyRefused), transaction.atomic():
        keys.require_standing(worker.key.pk)


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("select exists (select from pg_locks where not granted)")
        return bool(cursor.fetchone()[0])


def test_many_writes_of_one_key_do_not_wait_for_one_another_and_none_lands_behind_its_revoke(desk: Desk) -> None:
    put_outside(desk.board)
    worker = Worker(desk)
    for n in range(6):
        work_of(desk, f"Boat {n}")
    held = [_held(worker, worker.begins()) for _ in range(6)]

    def writes(own: outside.Held) -> int:
        landed = 0
        while True:
            try:
                outside.progress(own, {"note": f"note {landed}"}, "")
            except errors.KeyRefused:
                return landed
            landed += 1

    def revoke() -> dict[int, int]:
        until(lambda: Task.objects.exclude(status_note="").count() == 6, 20, "all to write")
        keys.revoke(desk.chain, worker.key)
        return dict(Task.objects.values_list("pk", "revision"))

    *landed, at_revoke = at_once(*[lambda own=own: writes(own) for own in held], revoke)
    assert all(count >= 1 for count in landed)
    assert dict(Task.objects.values_list("pk", "revision")) == at_revoke
