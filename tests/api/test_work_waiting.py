"""A claim that waits: it hears of work at once, and of what time alone brings; it holds up nobody meanwhile."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from boards import keys, live_notices, tasks
from boards.api import waiting
from boards.models import Task
from boards.tasks import outside
from tests import cast
from tests.api.cast import Desk
from tests.api.serving import served
from tests.api.work_cast import OUTSIDE, Worker, answered, put_outside, work_of
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker(desk: Desk) -> Iterator[Worker]:
    put_outside(desk.board)
    yield Worker(desk)
    live_notices.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as made:
        yield made


Waits = Callable[..., "Future[tuple[list[Any], float]]"]


@pytest.fixture
def waits(worker: Worker, pool: ThreadPoolExecutor) -> Waits:
    """A claim in a thread of its own that waits; what it took, and after how many seconds."""

    def claims(body: dict[str, Any]) -> tuple[list[Any], float]:
        try:
            began = time.monotonic()
            return worker.claims(**body), time.monotonic() - began
        finally:
            connection.close()

    def start(**body: Any) -> Future[tuple[list[Any], float]]:
        before = len(waiting._waiting._waiters)
        told = pool.submit(claims, {"wait_s": 20, **body})
        until(lambda: told.done() or len(waiting._waiting._waiters) > before, 10, "it to wait")
        return told

    return start


def test_it_is_told_of_a_filing_at_once(desk: Desk, waits: Waits) -> None:
    told = waits()
    task = work_of(desk)
    (work,), seconds = told.result(10)
    assert work["task"]["id"] == task.public_id
    assert seconds < 5


def test_it_is_told_of_an_answer_and_goes_on(desk: Desk, worker: Worker, waits: Waits) -> None:
    work_of(desk)
    ticket = {"ticket": worker.begins()}
    hold = worker("ask", {**ticket, "prompt": "Which?"}).body["hold"]
    worker("suspend", ticket)
    told = waits()
    answered(desk, hold, text="That one")
    (work,), _ = told.result(10)
    assert work["resumed"]


def test_it_is_told_of_what_time_alone_brings(desk: Desk, worker: Worker, waits: Waits) -> None:
    """A lease that runs out is announced by nobody."""
    work_of(desk)
    worker.begins(lease_ms=1_000)
    (work,), seconds = waits().result(10)
    assert work["task"]["attempt"] == 2
    assert seconds < 5


def test_it_finds_work_where_no_notice_is_heard(desk: Desk, waits: Waits, settings: Any) -> None:
    settings.LISTEN, settings.POLL_MS = False, 100
    until(lambda: waiting._waiting._thread is None, 20, "the thread of before to end")
    told = waits()
    Task.objects.filter(pk=work_of(desk, held=True).pk).update(status="pending")  # announced to nobody
    (_,), seconds = told.result(15)
    assert seconds < 10


def test_it_waits_for_its_own_names_and_no_longer_than_it_said(desk: Desk, waits: Waits) -> None:
    put_outside(desk.board, "other")
    told = waits(wait_s=0.5, assignees=["other"])
    work_of(desk)
    cast.filed(desk.board, desk.chain, "For the writer")
    assert told.result(10)[0] == []


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When a claim was tried."""
    moments: list[float] = []
    plain = outside.claim_outside

    def counted(*args: Any, **kwargs: Any) -> Any:
        moments.append(time.monotonic())
        return plain(*args, **kwargs)

    monkeypatch.setattr(outside, "claim_outside", counted)
    return moments


def test_what_cannot_be_taken_does_not_make_it_spin(desk: Desk, waits: Waits, tries: list[float]) -> None:
    """Somebody has locked the row: the look says that there is work, and the claim takes none."""
    task = work_of(desk, "One")
    with transaction.atomic():
        Task.objects.select_for_update().get(pk=task.pk)
        told = waits()
        until(lambda: len(tries) >= 4, 20, "some tries")
        assert tries[3] - tries[0] > 2 * waiting.AGAIN_S
    (work,), _ = told.result(10)
    assert work["task"]["goal"] == "One"


def test_nobody_is_called_for_what_a_limit_keeps_from_running(
    desk: Desk, worker: Worker, waits: Waits, tries: list[float]
) -> None:
    """As many as may run do so already: of those that wait for more none asks again before there is room."""
    desk.board.roster.filter(name=OUTSIDE).update(max_running=1)
    for n in range(5):
        work_of(desk, f"Task {n}")
    ticket = worker.begins()
    all_told = [waits(wait_s=3) for _ in range(4)]
    first = waits()
    tries.clear()
    assert [told.result(20)[0] for told in all_told] == [[]] * 4
    assert tries == []
    worker("complete", {"ticket": ticket})
    (work,), _ = first.result(10)
    assert work["task"]["goal"] == "Task 1"


def test_one_task_is_not_promised_to_everybody_who_waits(desk: Desk, waits: Waits) -> None:
    all_told = [waits(wait_s=3) for _ in range(5)]
    work_of(desk)
    took = [told.result(20)[0] for told in all_told]
    assert sorted(map(len, took)) == [0, 0, 0, 0, 1]


def test_a_key_that_is_revoked_while_it_waits_takes_nothing(
    desk: Desk, worker: Worker, pool: ThreadPoolExecutor
) -> None:
    def claims() -> Any:
        try:
            return worker("claim", {"board": "desk", "wait_s": 20})
        finally:
            connection.close()

    told = pool.submit(claims)
    until(lambda: waiting._waiting._waiters, 10, "it to wait")
    keys.revoke(desk.chain, worker.key)
    task = work_of(desk)
    assert told.result(20).code == "key_refused"
    assert cast.fresh(task).status == "pending"


def test_a_repeat_of_a_claim_answers_the_same_tickets_while_they_hold(desk: Desk, worker: Worker, lapse: Any) -> None:
    tasks_ = [work_of(desk, f"Boat {n}") for n in range(3)]
    first = worker.claims(key="c", limit=2)
    again = worker.claims(key="c", limit=2, wait_s=20)  # and at once
    assert [one["ticket"] for one in first] == [one["ticket"] for one in again]
    assert len(first) == 2
    assert worker("claim", {"board": "desk", "limit": 1}, key="c").code == "idempotency_key_reused"
    worker("start", {"ticket": first[0]["ticket"]})
    assert [one["ticket"] for one in worker.claims(key="c", limit=2)] == [one["ticket"] for one in first]
    worker("complete", {"ticket": first[0]["ticket"]})
    lapse(tasks_[1])
    Worker(desk, "other").claims(limit=5)
    began = time.monotonic()
    assert worker.claims(key="c", limit=2, wait_s=20) == []  # nothing to wait for: that claim is over
    assert time.monotonic() - began < 10
    assert worker.claims(key="empty") == []
    work_of(desk, "Later")
    assert len(worker.claims(key="empty")) == 1  # a claim that took nothing has not used its key up


def test_the_look_says_what_may_be_taken_and_when_time_brings_more(desk: Desk, worker: Worker) -> None:
    place = outside.Place(desk.board.pk, (OUTSIDE,), "")
    elsewhere = outside.Place(desk.board.pk, ("nobody",), "")
    assert outside.look([place, elsewhere]) == [(0, None), (0, None)]
    first, second = work_of(desk, "One"), work_of(desk, "Two")
    work_of(desk, "Held", held=True)
    work_of(desk, "Behind", deps=[first.public_id])
    assert outside.look([elsewhere, place]) == [(0, None), (2, None)]
    worker.claims(lease_ms=60_000)
    Task.objects.filter(pk=second.pk).update(not_before=Now() + timedelta(seconds=30))
    ((count, seconds),) = outside.look([place])
    assert count == 0
    assert seconds is not None
    assert 25 < seconds <= 30
    Task.objects.filter(pk=second.pk).update(not_before=None)
    work_of(desk, "Three")
    for most, room in [(None, 2), (1, 0), (2, 1), (9, 2), (0, 0)]:
        desk.board.roster.filter(name=OUTSIDE).update(max_running=most)
        assert outside.look([elsewhere, place]) == [(0, None), (room, pytest.approx(60, abs=5))]
    desk.board.roster.update(max_running=None)
    tasks.set_paused(desk.chain, desk.board, True)
    assert outside.look([place])[0][0] == 0


def post(url: str, secret: str, verb: str, body: dict[str, Any]) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/api/v1/work/{verb}", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def _connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            """select count(*) from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"""
        )
        return int(cursor.fetchone()[0])


def test_sixty_that_wait_hold_up_no_page_and_take_no_connection(desk: Desk, worker: Worker, tmp_path: Path) -> None:
    """A web process answers 32 requests at once; twice as many that wait leave it all of them."""
    with served(tmp_path / "web.log") as url, ThreadPoolExecutor(60) as pool:
        before = _connections()
        body = {"board": "desk", "wait_s": 25}
        told = [pool.submit(post, url, worker.secret, "claim", body) for _ in range(60)]
        until(lambda: _claims_waiting(worker) >= 60, 40, "all sixty to have asked")
        until(lambda: _connections() <= before + 12, 20, "the connections to be given back")
        began = time.monotonic()
        with urllib.request.urlopen(f"{url}/sign-in/", timeout=20) as page:
            assert page.status == 200
        assert time.monotonic() - began < 5
        filed = [work_of(desk, f"Boat {n}") for n in range(60)]
        answers = [one.result(60) for one in told]
    took = [work["task"]["id"] for _, answer in answers for work in answer["claimed"]]
    assert sorted(took) == sorted(task.public_id for task in filed)


def test_the_server_leaves_at_once_although_claims_wait(desk: Desk, worker: Worker, tmp_path: Path) -> None:
    with ThreadPoolExecutor(20) as pool:
        with served(tmp_path / "web.log") as url:
            body = {"board": "desk", "wait_s": 30}
            told = [pool.submit(post, url, worker.secret, "claim", body) for _ in range(20)]
            until(lambda: _claims_waiting(worker) >= 20, 40, "all to have asked")
            work_of(desk)  # one of them is at it while the server ends
            began = time.monotonic()
        assert time.monotonic() - began < 20
        for one in told:
            one.exception(30)


def test_a_client_that_has_gone_takes_nothing(desk: Desk, worker: Worker, tmp_path: Path) -> None:
    with served(tmp_path / "web.log") as url:
        host, port = url.removeprefix("http://").split(":")
        body = json.dumps({"board": "desk", "wait_s": 30})
        head = f"POST /api/v1/work/claim HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {worker.secret}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((host, int(port))) as line:
            line.sendall((head + body).encode())
            until(lambda: _claims_waiting(worker) >= 1, 20, "it to have asked")
        stays = Worker(desk, "stays")
        with ThreadPoolExecutor(1) as pool:
            told = pool.submit(post, url, stays.secret, "claim", {"board": "desk", "wait_s": 30})
            until(lambda: _claims_waiting(stays) >= 1, 20, "the other to have asked")
            task = work_of(desk)
            (work,) = told.result(40)[1]["claimed"]
    assert work["task"]["id"] == task.public_id
    assert _claims_waiting(stays) == 1  # a call that waits is one call, however often it is tried


def _claims_waiting(worker: Worker) -> int:
    with connection.cursor() as cursor:
        cursor.execute("select count from boards_callcount where caller = %s", [f"key:{worker.key.pk}"])
        found = cursor.fetchone()
        return int(found[0]) if found else 0


def test_twenty_workers_and_two_hundred_tasks(desk: Desk, worker: Worker, tmp_path: Path) -> None:
    """Each is claimed once, worked once and handed in once, over a served product."""
    filed = [work_of(desk, f"Boat {n}") for n in range(200)]
    seen: list[str] = []
    lock = threading.Lock()

    def works(secret: str) -> None:
        while True:
            status, told = post(url, secret, "claim", {"board": "desk", "limit": 3})
            assert status == 200, told
            if not told["claimed"]:
                return
            for work in told["claimed"]:
                ticket = {"ticket": work["ticket"]}
                assert post(url, secret, "start", ticket)[0] == 200
                with lock:
                    seen.append(work["task"]["id"])
                assert post(url, secret, "complete", {**ticket, "output": work["task"]["id"]})[0] == 200

    secrets = [Worker(desk, f"w{n}").secret for n in range(20)]
    with served(tmp_path / "web.log") as url, ThreadPoolExecutor(20) as pool:
        for done in [pool.submit(works, secret) for secret in secrets]:
            done.result(200)
    assert sorted(seen) == sorted(task.public_id for task in filed)
    rows = Task.objects.filter(board=desk.board)
    assert set(rows.values_list("status", "attempts", "grant_no")) == {("completed", 1, 1)}
    assert all(row.output == row.public_id for row in rows)
