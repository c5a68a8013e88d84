"""What the open board of a flow is told: that something on it changed, and nothing of what it may not see."""

from __future__ import annotations

from boards import flows
from boards.actors import Chain
from boards.live.hub import Hub
from boards.models import Board, Flow, FlowRun, Member, Role
from boards.queries import catchup
from boards.queries.subscriptions import subscribe
from tests.live.browser import Browser, cookie_of, in_thread
from tests.live.cast import Cast

TEXT = """
key: desk
name: Desk
style: board
steps:
  - {key: ideas, name: Ideas}
  - {key: done, name: Done}
"""


def a_flow(cast: Cast, board: Board | None = None) -> Flow:
    Member.objects.filter(user=cast.anna).update(role=Role.OPERATOR)
    return flows.save_version(cast.chain, cast.space, board or cast.board, flows.validate(TEXT))


def start(chain: Chain, flow: Flow) -> FlowRun:
    return flows.start(chain, flow, {})


async def opened(cast: Cast, flow: Flow) -> Browser:
    cookie = await in_thread(lambda: cookie_of(cast.anna))
    page = Browser(f"flow={flow.pk}", cookie)
    assert await page.open()
    return page


async def test_it_hears_that_a_run_came_and_its_cursor_moves(hub: Hub, cast: Cast) -> None:
    flow = await in_thread(lambda: a_flow(cast))
    page = await opened(cast, flow)
    await page.live(await in_thread(catchup.cursor))
    before = page.cursor
    await in_thread(lambda: start(cast.chain, flow))
    told = await page.until(lambda told: told.changed.get("flows"))
    assert told.changed["flows"] == [flow.pk]
    assert page.cursor != before
    assert not told.html, "what it shows it reads itself, with its reader's rights"


async def test_it_hears_of_the_tasks_of_its_runs_too(hub: Hub, cast: Cast) -> None:
    flow = await in_thread(lambda: a_flow(cast))
    page = await opened(cast, flow)
    await page.live(await in_thread(catchup.cursor))
    await in_thread(lambda: cast.file("a"))
    assert (await page.until(lambda told: told.changed.get("flows"))).changed["flows"] == [flow.pk]


async def test_what_came_between_render_and_subscribe_is_told(hub: Hub, cast: Cast) -> None:
    flow = await in_thread(lambda: a_flow(cast))
    rendered = await in_thread(catchup.cursor)
    await in_thread(lambda: start(cast.chain, flow))
    page = await opened(cast, flow)
    assert (await page.live(rendered)).changed["flows"] == [flow.pk]


async def test_another_board_is_none_of_its_business(hub: Hub, cast: Cast) -> None:
    flow = await in_thread(lambda: a_flow(cast))
    other = await in_thread(lambda: Board.objects.create(space=cast.space, slug="other", name="Other"))
    page = await opened(cast, flow)
    rendered = await in_thread(catchup.cursor)
    elsewhere = Cast(cast.space, other, cast.anna, cast.stranger, cast.elsewhere)
    await in_thread(lambda: elsewhere.file("b"))
    assert "flows" not in (await page.live(rendered)).changed


def test_a_flow_of_another_space_or_of_none_is_refused(cast: Cast) -> None:
    flow = a_flow(cast)
    assert subscribe(cast.anna.pk, {"flow": str(flow.pk)}) is not None
    assert subscribe(cast.stranger.pk, {"flow": str(flow.pk)}) is None
    assert subscribe(cast.anna.pk, {"flow": str(flow.pk + 1)}) is None
    assert subscribe(cast.anna.pk, {"flow": "x"}) is None
