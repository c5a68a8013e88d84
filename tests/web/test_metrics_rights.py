"""Who may read `/metrics`, and of which boards."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as configured
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from boards import keys
from boards.models import Debt, Member, User
from boards.queries import log_counts, metrics
from boards.tasks import claim
from tests import cast
from tests.api.cast import Desk
from tests.web.metrics_page import TOKEN, Page, read

pytestmark = pytest.mark.django_db(transaction=True)
OTHERS = {"desk", "attic"}  # of Halyard; `cellar` is the board of the other space


@pytest.fixture
def desk(transactional_db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Desk:
    settings.METRICS_TOKEN = TOKEN
    monkeypatch.setattr(metrics, "_log", log_counts.LogCounts())
    desk = Desk()
    cast.make_board(desk.mallory.space, "cellar")
    return desk


def signed_in(user: User) -> Page:
    client = Client()
    client.force_login(user)
    return read(client, bearer="")


def member(name: str) -> Callable[[Desk], Page]:
    return lambda desk: signed_in(getattr(desk, name).user)


def key(*scopes: str, of: str = "olga", boards: bool = False) -> Callable[[Desk], Page]:
    def reads(desk: Desk) -> Page:
        return read(bearer=desk.key(*scopes, of=getattr(desk, of), boards=[desk.board] if boards else None)[1])

    return reads


def became(role: str, of: str = "olga") -> Callable[[Desk], Page]:
    """A key that was made before its member's role changed."""

    def reads(desk: Desk) -> Page:
        _made, secret = desk.key("read", of=getattr(desk, of))
        Member.objects.filter(pk=getattr(desk, of).pk).update(role=role)
        return read(bearer=secret)

    return reads


def ended(end: Callable[[Desk, Any], object]) -> Callable[[Desk], Page]:
    def reads(desk: Desk) -> Page:
        made, secret = desk.key("read", of=desk.olga)
        end(desk, made)
        return read(bearer=secret)

    return reads


def superuser(desk: Desk) -> Page:
    return signed_in(User.objects.create_superuser("root"))


def nobody_of_a_space(desk: Desk) -> Page:
    return signed_in(User.objects.create_user("nemo"))


def lend(desk: Desk) -> Page:
    """The ticket with which a worker acts on its own task."""
    desk.filed()
    made, _secret = desk.key("work", of=desk.olga)
    got = claim([cast.Wanted(desk.board.pk, {cast.WRITER: 1})], limit=1, claimed_by=cast.HERE)[0]
    return read(bearer=keys.sealed(got.ticket, made.pk))


MATRIX: dict[str, tuple[Callable[[Desk], Page], int, set[str]]] = {
    "anonymous": (lambda desk: read(bearer=""), 401, set()),
    "the token": (lambda desk: read(), 200, OTHERS | {"cellar"}),
    "a wrong token": (lambda desk: read(bearer=TOKEN[:-1]), 401, set()),
    "a longer token": (lambda desk: read(bearer=f"{TOKEN}x"), 401, set()),
    "an odd token": (lambda desk: read(bearer="ü" * 30), 401, set()),
    "stranger": (nobody_of_a_space, 403, set()),
    "viewer": (member("vera"), 403, set()),
    "member": (member("anna"), 403, set()),
    "operator": (member("olga"), 200, OTHERS),
    "operator of the other space": (member("mallory"), 200, {"cellar"}),
    "superuser": (superuser, 200, OTHERS | {"cellar"}),
    "key: read": (key("read"), 200, OTHERS),
    "key: read, of one board": (key("read", boards=True), 200, {"desk"}),
    "key: read, of a member": (key("read", of="anna"), 403, set()),
    "key: read, of one who only views by now": (became("viewer"), 403, set()),
    "key: read, of one who operates by now": (became("operator", of="anna"), 200, OTHERS),
    "key: file": (key("file"), 403, set()),
    "key: work": (key("work"), 403, set()),
    "key: decide": (key("decide"), 403, set()),
    "key: admin": (key("admin", "file"), 403, set()),
    "key: revoked": (ended(lambda desk, made: keys.revoke(cast.chain_of(desk.olga), made)), 401, set()),
    "a worker's lend": (lend, 401, set()),
}


@pytest.mark.parametrize("who", MATRIX)
def test_who_reads_what(desk: Desk, who: str) -> None:
    reads, status, boards = MATRIX[who]
    page = reads(desk)
    assert page.status == status
    assert page.boards == boards
    if status != 200:
        assert "orchestra_" not in page.text
        assert page.text.endswith(".\n")


def test_without_a_setting_no_token_is_one(desk: Desk, settings: Any) -> None:
    settings.METRICS_TOKEN = ""
    assert read(bearer="").status == 401
    client = Client(headers={"Authorization": "Bearer "})
    assert read(client, bearer="").status == 401


@pytest.mark.parametrize("header", ["", "Bearer", f"Basic {TOKEN}", TOKEN, "Bearer a b"])
def test_any_other_header_is_none(desk: Desk, header: str) -> None:
    client = Client(headers={"Authorization": header})
    client.force_login(desk.olga.user)  # a header that does not count is not made up for by a session
    assert read(client, bearer="").status == 401


def test_a_refusal_says_what_to_show(desk: Desk) -> None:
    answer = Client().get("/metrics")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="Orchestra"'
    assert b"METRICS_TOKEN" in answer.content


def test_who_operates_two_spaces_reads_both(desk: Desk) -> None:
    Member.objects.create(space=desk.mallory.space, user=desk.olga.user, role="operator")
    assert signed_in(desk.olga.user).boards == OTHERS | {"cellar"}


def test_who_operates_one_space_and_views_another_reads_the_one(desk: Desk) -> None:
    Member.objects.create(space=desk.mallory.space, user=desk.olga.user, role="viewer")
    assert signed_in(desk.olga.user).boards == OTHERS


def test_debts_of_other_spaces_are_told_to_the_token_only(desk: Desk) -> None:
    Debt.objects.create(kind="cascade", unique_key="one", task=desk.filed())
    assert signed_in(desk.olga.user).of("debts", kind="cascade", state="owed") == 1
    assert not any(name == "orchestra_debts" for name, _ in signed_in(desk.mallory.user).samples)
    assert read().of("debts", kind="cascade", state="owed") == 1


def test_guessing_is_slowed_down(desk: Desk) -> None:
    statuses = [read(bearer=f"guess-{number}").status for number in range(62)]
    assert statuses[:60] == [401] * 60
    assert statuses[60:] == [429] * 2
    assert read().status == 200  # who has the token is not kept out by it


def test_a_key_is_counted_as_by_the_api(desk: Desk, settings: Any) -> None:
    settings.API_CALLS_PER_MINUTE = 2
    _, secret = desk.key("read", of=desk.olga)
    assert [read(bearer=secret).status for _ in range(3)] == [200, 200, 429]


def test_the_token_stands_in_no_log(desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    with caplog.at_level(logging.DEBUG):
        read()
        monkeypatch.setattr(metrics, "_ONE_MOMENT", "select 1/0")
        assert read().of("up") == 0
    assert TOKEN not in caplog.text


def test_it_is_kept_by_nobody_and_only_read(desk: Desk) -> None:
    client = Client(headers={"Authorization": f"Bearer {TOKEN}"})
    answer = client.get("/metrics")
    assert "no-store" in answer.headers["Cache-Control"]
    assert {"Authorization", "Cookie"} <= {part.strip() for part in answer.headers["Vary"].split(",")}
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert client.head("/metrics").content == b""
    for method in ("post", "put", "patch", "delete"):
        assert getattr(client, method)("/metrics").status_code == 405


def test_it_may_be_asked_over_plain_http_inside_the_network(desk: Desk, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert read().status == 200


def test_a_token_that_could_be_guessed_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    import runpy

    monkeypatch.setenv("METRICS_TOKEN", "short")
    with pytest.raises(ImproperlyConfigured, match="METRICS_TOKEN must be at least 20 characters"):
        runpy.run_path(f"{configured.BASE_DIR}/orchestra/settings.py")
