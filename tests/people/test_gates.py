"""Gate drafts: what goes out is what was shown, once, and by whom the page said (spec: 04 section 1)."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from boards import outbound, people
from boards.debts import paying
from boards.models import Debt, Hold, RosterEntry, Task
from boards.states import Status
from boards.workers.protocol import Answer, SendInDoubt, SyncWorkerTask, TaskFacts, worker
from tests import cast
from tests.people.conftest import Desk
from tests.racing import at_once
from tests.workers.conftest import RecordingPort
from tests.workers.drains import InProcess

pytestmark = pytest.mark.django_db(transaction=True)

PAYLOAD = {"title": "Halyard 2.4", "body": "Dear all,\nit is out.", "to": ["all@example.org"]}


class Receiver(HTTPServer):
    """A receiver of ours, at a real port of this machine."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Takes)
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Takes(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((dict(self.headers.items()), body))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 200)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Tests are quiet."""


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    server = Receiver()
    settings.WEBHOOK_ALLOW_HOSTS = [server.host]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def outlet(desk: Desk, receiver: Receiver) -> Desk:
    config = {"worker": cast.WRITER, "outlet": f"http://{receiver.host}/out", "outlet_secret": "HALYARD_OUTLET"}
    RosterEntry.objects.filter(board=desk.board, name=cast.WRITER).update(config=config)
    return desk


def sent(desk: Desk, settled: Callable[[Hold], None], choice: str = "send") -> Hold:
    hold = desk.answered(desk.asked("gate", draft=PAYLOAD), choice)
    settled(hold)
    return hold


def test_the_product_sends_the_frozen_payload_signed_and_once(outlet, receiver, settled, monkeypatch) -> None:
    monkeypatch.setenv("HALYARD_OUTLET", "a secret of ours")
    hold = sent(outlet, settled)
    assert receiver.got == []
    assert paying.pay_due() == 1
    assert paying.pay_due() == 0
    [(headers, body)] = receiver.got
    told = json.loads(body)
    assert (told["payload"], told["payload_hash"], told["approved_by"]) == (PAYLOAD, hold.draft_hash, "Anna")
    signed = b".".join([f"gate-{hold.pk}".encode(), headers["webhook-timestamp"].encode(), body])
    digest = hmac.new(b"a secret of ours", signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{b64encode(digest).decode()}"
    assert Hold.objects.get(pk=hold.pk).delivered_at is not None


def test_nothing_goes_out_before_it_has_settled_nor_after_an_undo_or_a_no(outlet, receiver, settled) -> None:
    hold = outlet.answered(outlet.asked("gate", draft=PAYLOAD), "send")
    assert paying.pay_due() == 0
    people.undo_hold(outlet.anna, hold.pk)
    settled(hold)
    sent(outlet, settled, "discard")
    paying.pay_due()
    assert receiver.got == []


def test_silence_sends_nothing(outlet, receiver) -> None:
    hold = outlet.asked("gate", draft=PAYLOAD, due_in_ms=0)
    assert people.expire_due() == 1
    paying.pay_due()
    assert (Hold.objects.get(pk=hold.pk).answer["choice"], receiver.got) == ("discard", [])


def test_a_receiver_that_is_busy_is_tried_again_under_the_same_id(outlet, receiver, settled) -> None:
    receiver.answers = [503, 200]
    hold = sent(outlet, settled)
    paying.pay_due()
    debt = Debt.objects.get(kind="deliver_gate")
    assert (debt.state, debt.tries) == ("owed", 1)
    assert "answered 503" in debt.last_error
    settled(hold)
    for _ in range(60):  # the back-off is 2 s at first
        Debt.objects.filter(pk=debt.pk).update(due_at=debt.created_at)
    assert paying.pay_due() == 1
    assert [headers["webhook-id"] for headers, _ in receiver.got] == [f"gate-{hold.pk}"] * 2


@pytest.mark.parametrize("status", [400, 404, 410, 422])
def test_a_refusal_for_good_is_not_tried_again_and_operators_see_it(outlet, receiver, settled, status) -> None:
    receiver.answers = [status]
    sent(outlet, settled)
    paying.pay_due()
    debt = Debt.objects.get(kind="deliver_gate")
    assert (debt.state, len(receiver.got)) == ("undeliverable", 1)
    from boards.queries.needs_you import waiting

    [row] = [row for row in waiting(outlet.members["olga"]).rows if row.debt_id == debt.pk]
    assert str(status) in row.why
    assert [act.verb for act in row.acts][:2] == ["retry", "drop"]


def test_two_payers_at_once_send_once(outlet, receiver, settled) -> None:
    sent(outlet, settled)
    debt = Debt.objects.get(kind="deliver_gate")
    at_once(*[lambda: paying.pay(debt.pk)] * 4)
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/hook",
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://10.0.0.7/x",
        "https://169.254.169.254/latest",
        "https://100.64.0.1/x",
        "https://[::1]/x",
        "https://[::ffff:127.0.0.1]/x",
        "https://[fd00::1]/x",
        "https://[64:ff9b::a00:7]/x",
        "https://[2002:a00:7::1]/x",
        "https://0.0.0.0/x",
        "https://user:secret@example.org/x",
        "ftp://example.org/x",
        "gopher:7",
        "https://[broken/x",
        "",
    ],
)
def test_an_address_that_is_not_public_is_never_sent_to(url: str) -> None:
    with pytest.raises(outbound.Refused):
        outbound.send_json(url, {}, "gate-1", "")


def test_no_redirect_is_followed(receiver: Receiver) -> None:
    receiver.answers = [302]
    with pytest.raises(outbound.Refused, match="Redirects are not followed"):
        outbound.send_json(f"http://{receiver.host}/", {}, "gate-1", "")
    assert len(receiver.got) == 1


def test_the_worker_sends_what_was_shown_once_over_two_calls(
    desk: Desk, drain: Callable[..., InProcess], settled
) -> None:
    out: list[Any] = []

    @worker(cast.WRITER)
    async def mail(task):
        answer = await task.suspend_for_user(kind="gate", title="Send it?", prompt="To all", draft=PAYLOAD)
        first = await task.send(answer, lambda payload: out.append(payload) or "sent")
        second = await task.send(answer, lambda payload: out.append(payload) or "again")
        return {"first": first, "second": second, "hash": answer.draft_hash}

    task = cast.filed(desk.board, desk.anna)
    one = drain()
    hold = one.until(lambda: Hold.objects.filter(task=task.pk).first())
    one.until(lambda: Task.objects.filter(pk=task.pk, kept_open_by="suspended").first())
    desk.answered(hold, "send")
    settled(hold)
    row = one.until_status(task, Status.COMPLETED)
    assert (out, row.output) == ([PAYLOAD], {"first": "sent", "second": "sent", "hash": hold.draft_hash})


def test_a_send_that_was_begun_and_never_kept_is_not_repeated() -> None:
    port, out = RecordingPort(), []
    answer = Answer("gate", "mail", choice="send", draft=PAYLOAD, draft_hash="abc")
    task = SyncWorkerTask(TaskFacts("t1", "Send"), port)

    def dies(payload: Any) -> None:
        out.append(payload)
        raise SystemExit

    with pytest.raises(SystemExit):
        task.send(answer, dies)
    with pytest.raises(SendInDoubt, match="may have gone out"):
        SyncWorkerTask(TaskFacts("t1", "Send"), port).send(answer, out.append)
    assert out == [PAYLOAD]


@pytest.mark.parametrize("answer", [Answer("gate", "mail", choice="discard"), Answer("gate", "mail", cancelled=True)])
def test_nothing_is_sent_without_a_yes(answer: Answer) -> None:
    with pytest.raises(PermissionError, match="not approved"):
        SyncWorkerTask(TaskFacts("t1", "Send"), RecordingPort()).send(answer, print)


def test_where_the_product_sends_the_worker_does_not() -> None:
    answer = Answer("gate", "mail", choice="send", draft=PAYLOAD, outlet="https://example.org/out")
    assert SyncWorkerTask(TaskFacts("t1", "Send"), RecordingPort()).send(answer, lambda _: 1 / 0) is None
