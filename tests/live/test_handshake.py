"""Who may open a socket: this site's own pages, signed in, with the right on what they name (faults 27)."""

from __future__ import annotations

from typing import Any

import pytest
from channels.testing import WebsocketCommunicator
from django.test import Client

from boards.live import admission
from boards.live.hub import Hub
from boards.live.origins import is_own_page
from boards.live.routing import sockets
from boards.live_notices import changed
from boards.models import Member, Role
from tests.live.browser import Browser, cookie_of, in_thread
from tests.live.cast import Cast

FOREIGN = [
    None,
    "",
    "null",
    "http://evil.example",
    "http://testserver.evil.example",
    "http://eviltestserver",
    "http://testserver@evil.example",
    "http://testserver:8000",
    "http://testserver.",
    "http://testserver/",
    "http://testserver http://testserver",
    "http://testserver, http://evil.example",
    "ftp://testserver",
    "testserver",
    "//testserver",
    "http://testserver\x00",
]
UNSEEN = [
    "board={other}",
    "board=999999",
    "board=0",
    "board=-1",
    "board=1e3",
    "board=99999999999999999999",
    "board={own}&run=999999",
    "board={own}&run={own}%27",
    "run=999999",
    "board={own}&q=" + "x" * 5000,
    "board=%00",
    "board=%ff",
]


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_page_of_another_origin_is_none_of_ours(origin: str | None) -> None:
    assert not is_own_page(_handshake(origin))


def test_two_origins_are_none() -> None:
    scope = _handshake("http://testserver")
    scope["headers"].append((b"origin", b"http://evil.example"))
    assert not is_own_page(scope)


@pytest.mark.parametrize(
    ("origin", "host", "is_own"),
    [
        ("http://testserver", "testserver", True),
        ("HTTP://TestServer", "testserver", True),
        ("http://testserver:80", "testserver", True),
        ("http://testserver:8000", "testserver:8000", True),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("http://127.0.0.1:8000", "localhost:8000", False),
        ("http://testserver:8000", "testserver:8001", False),
        ("http://evil.example", "evil.example", False),  # no host of ours
        ("https://desk.example", "10.0.0.3:8000", True),  # trusted by name: a proxy that names another host
        ("https://desk.example:8443", "10.0.0.3:8000", False),
        ("http://desk.example", "10.0.0.3:8000", False),
        ("https://a.desks.example", "10.0.0.3:8000", True),
        ("https://desks.example", "10.0.0.3:8000", False),
        ("https://adesks.example", "10.0.0.3:8000", False),
    ],
)
def test_host_and_port_have_to_be_ours_exactly(settings: Any, origin: str, host: str, is_own: bool) -> None:
    settings.ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1", "[::1]"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://desk.example", "https://*.desks.example"]
    assert is_own_page(_handshake(origin, host)) is is_own


def test_where_cookies_need_https_a_plain_page_is_none_of_ours(settings: Any) -> None:
    settings.SESSION_COOKIE_SECURE = True
    assert not is_own_page(_handshake("http://testserver"))
    assert is_own_page(_handshake("https://testserver"))


async def test_a_foreign_page_is_refused_before_accept(hub: Hub, cast: Cast) -> None:
    cookie = await in_thread(lambda: cookie_of(cast.anna))
    for origin in ("http://evil.example", "null", None):
        assert not await Browser(f"board={cast.board.pk}", cookie, origin).open()


async def test_without_a_session_it_is_refused(hub: Hub, cast: Cast) -> None:
    for cookie in ("", "unknown", "x" * 5000):
        assert not await Browser(f"board={cast.board.pk}", cookie).open()


async def test_who_is_deactivated_or_has_another_password_is_refused(hub: Hub, cast: Cast) -> None:
    cookie = await in_thread(lambda: cookie_of(cast.anna))

    def set_password() -> None:
        cast.anna.set_password("another")
        cast.anna.save()

    await in_thread(set_password)
    assert not await Browser("", cookie).open()
    cookie = await in_thread(lambda: cookie_of(cast.anna))
    await in_thread(lambda: type(cast.anna).objects.filter(pk=cast.anna.pk).update(is_active=False))
    assert not await Browser("", cookie).open()


async def test_what_the_user_may_not_see_reads_like_what_does_not_exist(hub: Hub, cast: Cast) -> None:
    cookie = await in_thread(lambda: cookie_of(cast.anna))
    for query in UNSEEN:
        assert not await Browser(query.format(own=cast.board.pk, other=cast.elsewhere.pk), cookie).open(), query


async def test_a_member_of_no_space_is_refused(hub: Hub, cast: Cast) -> None:
    await in_thread(lambda: Member.objects.all().delete())
    assert not await Browser("", await in_thread(lambda: cookie_of(cast.anna))).open()


async def test_a_member_opens_the_pages_of_the_space(hub: Hub, cast: Cast) -> None:
    cookie = await in_thread(lambda: cookie_of(cast.anna))
    for query in ("", "home=1", "board={own}", "board={own}&q=mine%3D1", "board={own}&task=a"):
        page = Browser(query.format(own=cast.board.pk), cookie)
        assert await page.open(), query
        await page.close()
    assert not hub.rooms.all


async def test_any_other_address_is_refused() -> None:
    accepted, _ = await WebsocketCommunicator(sockets(), "/ws/other", [(b"host", b"testserver")]).connect()
    assert not accepted


async def test_signing_out_closes_the_socket(hub: Hub, cast: Cast) -> None:
    cookie = await in_thread(lambda: cookie_of(cast.anna))
    page = Browser(f"board={cast.board.pk}", cookie)
    assert await page.open()
    await in_thread(lambda: _sign_out(cookie))
    await in_thread(lambda: changed(None, user_id=cast.anna.pk))
    assert await page.closes() == admission.SIGNED_OUT


async def test_a_lost_right_closes_the_socket_without_any_notice(
    hub: Hub, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Browser(f"board={cast.board.pk}", await in_thread(lambda: cookie_of(cast.anna)))
    assert await page.open()
    await in_thread(lambda: _move_to_another_space(cast))
    await hub._check(list(hub.rooms.all))  # what runs twice a minute
    assert await page.closes() == admission.NO_RIGHT


def _handshake(origin: str | None, host: str = "testserver") -> dict[str, Any]:
    headers = [(b"host", host.encode())]
    return {"headers": headers if origin is None else [*headers, (b"origin", origin.encode())]}


def _sign_out(cookie: str) -> None:
    client = Client()
    client.cookies["sessionid"] = cookie
    client.logout()


def _move_to_another_space(cast: Cast) -> None:
    Member.objects.filter(user=cast.anna).delete()
    Member.objects.create(space=cast.elsewhere.space, user=cast.anna, role=Role.VIEWER)
