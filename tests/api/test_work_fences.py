"""Nobody but who claimed writes, and only while the claim stands: tokens that are forged, foreign, old or void."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django.shortcuts import resolve_url

from boards import keys, tasks
from boards.masking import masked
from boards.models import AgentKey, Attempt, Board, Event, IdempotencyKey, Member, Task, TranscriptItem
from boards.tasks import Ticket
from tests import cast
from tests.api.cast import Caller, Desk
from tests.api.work_cast import OUTSIDE, Worker, put_outside, work_of

pytestmark = pytest.mark.django_db

VERBS: dict[str, dict[str, Any]] = {
    "start": {},
    "renew": {},
    "output": {"items": [{"text": "x"}]},
    "progress": {"note": "x"},
    "ask": {"prompt": "x?"},
    "file_task": {"filing": {"goal": "More"}},
    "complete_step": {"summary": "Done"},
    "suspend": {},
    "complete": {"output": 1},
    "fail": {"error": "x"},
    "hand_back": {},
    "spend": {"spend": {"input_tokens": 1}},
}
GONE = {"status": 404, "code": "ticket_not_found"}


@pytest.fixture
def worker(desk: Desk) -> Worker:
    put_outside(desk.board)
    return Worker(desk)


def facts(desk: Desk) -> tuple[Any, ...]:
    """All that a write could have changed."""
    rows = Task.objects.order_by("pk").values_list("pk", "revision", "status", "grant_no", "lease_until")
    attempts = Attempt.objects.order_by("pk").values_list("pk", "ending", "spend")
    return list(rows), list(attempts), Event.objects.count(), TranscriptItem.objects.count()


def refused_alike(worker: Worker, desk: Desk, token: str) -> None:
    """Every verb answers as for a ticket that does not exist, and writes nothing."""
    before, absent = facts(desk), "orkt_zzzz-1-" + "x" * 43
    for verb, body in VERBS.items():
        told = worker(verb, {"ticket": token, **body})
        assert told.body == worker(verb, {"ticket": absent, **body}).body
        assert {"status": told.status, "code": told.code} == GONE, (verb, token)
    assert facts(desk) == before


FORGED: dict[str, Callable[[str], str]] = {
    "nothing": lambda token: "",
    "blank": lambda token: " " * 60,
    "cut": lambda token: token[:-1],
    "longer": lambda token: token + "A",
    "its mark alone": lambda token: "orkt_",
    "another grant": lambda token: token.replace("-1-", "-2-", 1),
    "another attempt": lambda token: "orkt_1" + token.removeprefix("orkt_"),
    "one sign changed": lambda token: token[:-1] + ("A" if token[-1] != "A" else "B"),
    "a sign in front changed": lambda token: token[:-43] + ("A" if token[-43] != "A" else "B") + token[-42:],
    "in capitals": lambda token: token.upper(),
    "a number beyond all": lambda token: "orkt_" + "z" * 13 + "-1-" + token[-43:],
    "with a line end": lambda token: token + "\n",
    "unsigned": lambda token: token[:-43] + "=" * 43,
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_token_is_as_one_that_does_not_exist(desk: Desk, worker: Worker, how: str) -> None:
    work_of(desk)
    token = worker.begins()
    assert FORGED[how](token) != token
    refused_alike(worker, desk, FORGED[how](token))


def test_a_huge_token_is_refused_before_it_is_looked_at(desk: Desk, worker: Worker) -> None:
    assert worker("renew", {"ticket": "x" * 1_000_000}).body["field"] == "ticket"
    assert worker("renew", {"ticket": 7}).body["field"] == "ticket"
    assert worker("renew", {}).body["field"] == "ticket"


def test_a_token_is_good_with_the_key_that_claimed_and_with_no_other(desk: Desk, worker: Worker) -> None:
    """Not with another key of the same member, nor with one of the same name."""
    work_of(desk)
    token = worker.begins()
    for other in (Worker(desk, "codex"), Worker(desk, "codex", of=desk.ben), Worker(desk, "rival", of=desk.mallory)):
        refused_alike(other, desk, token)
    assert worker("renew", {"ticket": token}).status == 200


def test_a_replaced_secret_is_the_same_key(desk: Desk, worker: Worker) -> None:
    work_of(desk)
    token = worker.begins()
    fresh = keys.rotate(desk.chain, worker.key)
    assert Caller(fresh)("POST", "/work/complete", {"ticket": token}).status == 200


@pytest.mark.parametrize(
    "changed",
    [
        {"board_id": 999_999},
        {"partition": "anna"},
        {"task_key": 999_999},
        {"task_id": "t999"},
        {"attempt": 2},
        {"grant_no": 2},
        {"attempt_key": 1},
        {"incarnation_id": "00000000-0000-0000-0000-000000000000"},
        {"created_at": 1},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_it_is_signed_over_every_field(desk: Desk, worker: Worker, changed: dict[str, Any]) -> None:
    """A signature of a ticket that differs in one field is none of this one's."""
    work_of(desk)
    token = worker.begins()
    ticket, _ = keys.unsealed(token, worker.key.pk)
    fields: dict[str, Any] = {name: getattr(ticket, name) for name in Ticket.__slots__}
    if "created_at" in changed:
        changed = {"created_at": ticket.created_at + timedelta(microseconds=1)}
    assert fields[next(iter(changed))] != next(iter(changed.values()))
    signature = keys.sealed(Ticket(**fields | changed), worker.key.pk)[-43:]
    assert signature != token[-43:]
    refused_alike(worker, desk, token[:-43] + signature)


def test_texts_that_hold_the_sign_between_the_fields_are_told_apart() -> None:
    """A partition and an id that together read the same are signed differently."""
    at, incarnation = datetime(2026, 1, 1, tzinfo=UTC), uuid4()
    one = Ticket(1, "a/2/3/1=b", 2, 3, "c", 1, 1, at, incarnation)
    other = Ticket(1, "a", 2, 3, "b/2/3/1=c", 1, 1, at, incarnation)
    assert keys.sealed(one, 1) != keys.sealed(other, 1)
    assert len(keys.sealed(one, 1)) < 70


def test_a_task_that_came_again_under_the_id_is_another(desk: Desk, worker: Worker) -> None:
    task = work_of(desk, id="boats")
    token = worker.begins()
    Task.objects.filter(pk=task.pk).delete()
    work_of(desk, id="boats")
    refused_alike(worker, desk, token)


def test_the_secret_of_the_product_makes_them(desk: Desk, worker: Worker, settings: Any) -> None:
    work_of(desk)
    token, secret = worker.begins(), settings.SECRET_KEY
    settings.SECRET_KEY = "another-secret-of-the-product-that-is-long-enough"
    refused_alike(worker, desk, token)
    settings.SECRET_KEY_FALLBACKS = [secret]  # while it is changed, what was signed before still counts
    assert worker("renew", {"ticket": token}).status == 200


@pytest.mark.parametrize("named", ["other", "no-such-task", "x" * 300])
def test_another_task_than_the_one_held_is_declined_whether_it_exists_or_not(
    desk: Desk, worker: Worker, named: str
) -> None:
    work_of(desk, id="mine")
    token = worker.begins()
    work_of(desk, "Another", id="other")
    before = facts(desk)
    for verb, body in VERBS.items():
        told = worker(verb, {"ticket": token, "task": named, **body})
        assert (told.status, told.code) == (409, "task_write_declined")
        assert told.detail == f'You hold task "mine", not "{named[:200]}".'
    assert facts(desk) == before
    assert worker("renew", {"ticket": token, "task": "mine"}).status == 200


def _revoked(desk: Desk, worker: Worker) -> None:
    keys.revoke(desk.chain, worker.key)


def _expired(desk: Desk, worker: Worker) -> None:
    AgentKey.objects.filter(pk=worker.key.pk).update(expires_at=Now() - timedelta(milliseconds=1))


def _left(desk: Desk, worker: Worker) -> None:
    Member.objects.filter(pk=desk.anna.pk).delete()


@pytest.mark.parametrize("end", [_revoked, _expired, _left])
def test_a_key_that_ended_fences_its_worker_out_at_the_next_write(
    desk: Desk, worker: Worker, end: Callable[[Desk, Worker], None]
) -> None:
    task = work_of(desk)
    token = worker.begins()
    end(desk, worker)
    before = facts(desk)
    for verb, body in VERBS.items():
        assert worker(verb, {"ticket": token, **body}).code == "key_refused", verb
    assert worker("claim", {"board": "desk"}).code == "key_refused"
    assert facts(desk) == before
    assert cast.fresh(task).status == "in_progress"  # the lease brings it to another


def test_a_member_who_may_not_work_any_more_takes_it_from_the_key(desk: Desk, worker: Worker) -> None:
    work_of(desk)
    token = worker.begins()
    Member.objects.filter(pk=desk.anna.pk).update(role="viewer")
    assert worker("complete", {"ticket": token}).code == "forbidden"
    assert worker("claim", {"board": "desk"}).code == "forbidden"


def test_a_board_that_was_taken_from_the_key_takes_its_tickets_along(desk: Desk) -> None:
    put_outside(desk.board)
    worker = Worker(desk, boards=[desk.board, desk.attic])
    work_of(desk)
    token = worker.begins()
    worker.key.boards.remove(desk.board)
    refused_alike(worker, desk, token)


def test_the_older_attempt_writes_nothing_and_its_result_is_kept_aside(
    desk: Desk, worker: Worker, lapse: Callable[[Task], None]
) -> None:
    """Fault 4: it wakes up after another took the task; attempt 2 is untouched."""
    task = work_of(desk)
    token = worker.begins()
    lapse(task)
    stalled = worker("renew", {"ticket": token})
    assert (stalled.status, stalled.body["reason"]) == (409, "lost-claim")  # also before anybody took it
    fresh = Worker(desk, "fresh").begins()
    before = cast.fresh(task)
    for verb, body in VERBS.items():
        if verb == "spend":  # what it spent is spent
            assert worker(verb, {"ticket": token, **body}).status == 200
            continue
        told = worker(verb, {"ticket": token, **body})
        assert (told.status, told.body["reason"]) in {(409, "lost-claim"), (409, "another_attempt")}, verb
        assert told.body["status_seen"] == "in_progress"
    worker("complete", {"ticket": token, "output": "once more"})
    assert cast.fresh(task).revision == before.revision
    late = TranscriptItem.objects.get(task=task, kind="late")  # one, however often it tries
    assert (late.attempt, late.text) == (1, "1")
    assert Worker.__call__(Worker(desk, "x"), "renew", {"ticket": fresh}).code == "ticket_not_found"


def test_what_was_handed_in_is_handed_in_once_and_is_no_late_result(desk: Desk, worker: Worker) -> None:
    task = work_of(desk)
    ticket = {"ticket": worker.begins(), "output": 1}
    assert worker("complete", ticket, key="end").status == 200
    again = worker("complete", ticket, key="end")
    assert (again.status, again.body) == (200, {"result": "recorded", "status": "completed"})
    plain = worker("complete", ticket)
    assert (plain.status, plain.body["reason"]) == (409, "terminal")
    assert worker("complete", {**ticket, "output": 2}, key="end").code == "idempotency_key_reused"
    assert not TranscriptItem.objects.filter(task=task, kind="late").exists()
    assert Event.objects.filter(task=task, kind="task.completed").count() == 1


def test_a_task_that_was_given_back_is_lost_to_every_verb(desk: Desk, worker: Worker) -> None:
    """It is Ready again, and nobody has taken it: no question is open, so there is nothing to suspend for."""
    task = work_of(desk)
    token = worker.begins()
    assert worker("hand_back", {"ticket": token}).body["status"] == "pending"
    before = cast.fresh(task)
    for verb, body in VERBS.items():
        if verb in {"start", "spend"}:
            continue
        told = worker(verb, {"ticket": token, **body})
        assert (told.status, told.body["reason"], told.body["status_seen"]) == (409, "lost-claim", "pending"), verb
    assert cast.fresh(task).revision == before.revision


def test_a_cancelled_task_tells_its_worker_so(desk: Desk, worker: Worker) -> None:
    task = work_of(desk)
    ticket = {"ticket": worker.begins()}
    tasks.cancel(desk.chain, task, "Not wanted")
    assert not tasks.stopping(task)  # there is nobody of ours to stop it: its next call says so
    told = worker("renew", ticket)
    assert (told.status, told.body["reason"], told.body["status_seen"]) == (409, "terminal", "cancelled")


def test_lines_are_appended_once_under_their_key(desk: Desk, worker: Worker) -> None:
    task = work_of(desk)
    body = {"ticket": worker.begins(), "items": [{"text": "one"}]}
    for _ in range(3):
        assert worker("output", body, key="line-1").status == 200
    assert TranscriptItem.objects.filter(task=task, kind="output").count() == 1


def test_what_is_too_long_is_cut_and_says_so_and_what_is_too_much_is_refused(desk: Desk, worker: Worker) -> None:
    task = work_of(desk)
    ticket = {"ticket": worker.begins()}
    item = {"text": "y" * 200_000, "data": "z" * 200_000}
    assert worker("output", {**ticket, "items": [item]}).status == 200
    line = TranscriptItem.objects.get(task=task, kind="output")
    assert line.text.endswith("… [cut at 64 KiB]")
    assert line.data["note"] == "Cut at 64 KiB."
    assert worker("output", {**ticket, "items": []}).body["field"] == "items"
    assert worker("output", {**ticket, "items": [{"text": "x"}] * 201}).body["field"] == "items"
    assert worker("output", {**ticket, "items": [{"text": 7}]}).body["field"] == "text"
    assert worker("output", {**ticket, "items": [{"text": "x", "kind": "answered"}]}).status == 422
    assert worker.call("POST", "/work/output", raw=b"x" * 5_000_000).code == "too_large"
    assert worker("complete", {**ticket, "output": "o" * 2_000_000}).status == 200
    assert cast.fresh(task).output["note"] == "Cut at 1 MiB."


@pytest.mark.parametrize(
    "spent",
    [{"input_tokens": -1}, {"input_tokens": 1.5}, {"cost_usd": 1e300}, {"model": "m" * 201}, {"other": 1}, [], "x"],
)
def test_what_cannot_be_spent_is_refused(desk: Desk, worker: Worker, spent: Any) -> None:
    work_of(desk)
    assert worker("spend", {"ticket": worker.begins(), "spend": spent}).status == 422


def test_no_ticket_is_stored_logged_or_shown(
    desk: Desk, worker: Worker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = work_of(desk)
    with caplog.at_level(logging.DEBUG):
        (work,) = worker.claims(key="claim-1")
        token = work["ticket"]
        worker("start", {"ticket": token})
        worker("output", {"ticket": token, "items": [{"text": f"I hold {token}", "data": {"t": token}}]}, key="o")
        worker("progress", {"ticket": token, "note": token, "output": {"t": token}})
        monkeypatch.setattr("boards.workers.outside.renew", _broken)
        assert worker("renew", {"ticket": token}).status == 500
        assert "Something broke" in caplog.text
        assert token not in caplog.text
    signature = token[-43:]
    for rows in (IdempotencyKey, Event, Attempt, TranscriptItem, Task):
        for row in rows.objects.values():
            assert signature not in json.dumps(row, default=str), rows
    reader = desk.by_key("read", "admin")
    for path in (f"/boards/desk/tasks/{task.public_id}", "/boards/desk/tasks", "/waiting"):
        assert signature not in json.dumps(reader("GET", path).body)
    shown = desk.signed_in().client.get(resolve_url("web:task", "desk", task.public_id))
    assert (shown.status_code, "codex on laptop-7" in shown.content.decode()) == (200, True)
    page = shown.content.decode()
    assert signature not in page
    assert masked(token).startswith("orkt_…")


def _broken(*_: Any) -> None:
    raise RuntimeError("Something broke")


def test_a_partition_of_somebody_else_is_not_there(desk: Desk) -> None:
    """On a partitioned board a worker has to do with its member's rows alone."""
    board = Board.objects.create(space=desk.space, slug="own", name="Own", partition_by=Board.PartitionBy.USER)
    put_outside(board)
    mine, hers = Worker(desk, "mine", of=desk.ben), Worker(desk, "hers")
    cast.filed(board, cast.chain_of(desk.ben), assignee=OUTSIDE, id="bens")
    assert hers.claims(board="own") == []
    (work,) = mine.claims(board="own")
    assert work["task"]["id"] == "bens"
    refused_alike(hers, desk, work["ticket"])


def test_a_key_that_works_decides_nothing_of_its_own(desk: Desk, worker: Worker) -> None:
    """Nor does another key that bears its name, whatever the worker is called on the roster."""
    task = work_of(desk, checker="person")
    ticket = {"ticket": worker.begins()}
    hold = worker("ask", {**ticket, "kind": "approval", "prompt": "Publish?"}).body["hold"]
    twin = Worker(desk, "codex", "decide", "read", "file", "admin")
    for name in ("codex", OUTSIDE):
        twin = Worker(desk, name, "decide", "read", "file", "admin")
        assert twin.call("POST", f"/holds/{hold}/answer", {"choice": "approve"}).code == "forbidden", name
    other = Worker(desk, "checker", "decide", "read")
    shown = other.call("GET", f"/holds/{hold}").body["hold"]["draft_hash"]
    assert other.call("POST", f"/holds/{hold}/answer", {"choice": "approve", "shown_hash": shown}).status == 200
    assert worker("complete", {**ticket, "output": 1}).body["status"] == "needs_check"
    for name in ("codex", OUTSIDE):
        twin = Worker(desk, name, "decide", "read", "file", "admin")
        assert twin.call("POST", f"/boards/desk/tasks/{task.public_id}/accept").code == "forbidden", name
    assert other.call("POST", f"/boards/desk/tasks/{task.public_id}/accept").status == 200
