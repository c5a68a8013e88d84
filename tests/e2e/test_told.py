"""Notifications of the browser: asked for on a click alone, one for each new row however many pages, a sound.

The product is shared with other files, whose work goes on meanwhile: what is told here is of one board alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from uuid import uuid4

import pytest
from playwright.sync_api import Page, Route, expect

from tests.commands.running import Up
from tests.e2e.conftest import Person
from tests.e2e.needs_desk import asks, forgive
from tests.waiting import until

BOARD = "told"

# Stands in for what a browser without a screen lacks; what happened can be read from the page's first element.
BROWSER = """
const root = () => document.documentElement.dataset;
class Told extends EventTarget {
  static get permission() { return localStorage.getItem("test-permission") ?? "default"; }
  static async requestPermission() {
    root().asked = String(Number(root().asked ?? 0) + 1);
    localStorage.setItem("test-permission", "granted");
    return "granted";
  }
  constructor(title, { body, tag }) {
    super();
    root().told = JSON.stringify([...JSON.parse(root().told ?? "[]"), title]);
    window.lastTold = { told: this, body, tag };
  }
  close() {}
}
Object.defineProperty(window, "Notification", { value: Told });
class Tones {
  state = "suspended";
  currentTime = 0;
  destination = {};
  resume() { this.state = "running"; }
  createOscillator() {
    const start = () => { root().tones = String(Number(root().tones ?? 0) + 1); };
    return { frequency: {}, connect: (next) => next, start, stop() {} };
  }
  createGain() { return { gain: { setValueAtTime() {}, exponentialRampToValueAtTime() {} }, connect: (next) => next }; }
}
Object.defineProperty(window, "AudioContext", { value: Tones });
"""


@pytest.fixture(scope="module")
def board(product: Up) -> str:
    """A board of this file's own, on which nothing happens by itself."""
    asks(product, BOARD, 0)
    return BOARD


@pytest.fixture
def person(operator: Person, board: str) -> Iterator[Person]:
    """The operator at a browser that was not asked yet, who hears of one board; afterwards of nothing."""
    operator.context.add_init_script(BROWSER)
    page = operator.opens("/me/notifications/")
    for tick in page.locator("[name=boards]").all():
        tick.set_checked(tick.locator("xpath=..").inner_text() == board.title())
    choose(page, browser=False, sound=False)
    expect(page.locator("[name=boards]:checked")).to_have_count(1)
    page.close()
    yield operator
    page = operator.opens("/me/notifications/")
    for tick in page.locator("[name=boards]").all():
        tick.check()
    choose(page, browser=False, sound=False)


def choose(page: Page, *, browser: bool, sound: bool) -> None:
    page.locator("[name=browser]").set_checked(browser)
    page.locator("[name=sound]").set_checked(sound)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()


def ask(person: Person) -> str:
    """Something new that waits on the person: a task that asks before it starts, filed by a page that tells nothing."""
    question = f"May this start, {uuid4().hex[:8]}?"
    browser, state = person.context.browser, person.context.storage_state()
    assert browser is not None
    context = browser.new_context(storage_state=state, java_script_enabled=False)
    page = context.new_page()
    page.goto(person.base + f"/b/{BOARD}/new/")
    page.locator("#f-goal").fill(f"Count the boats. {question}")
    page.locator("summary", has_text="Hold it").click()
    page.locator("#f-question").fill(question)
    page.get_by_role("button", name="File the task").click()
    expect(page).not_to_have_url(re.compile(r"/new/"))
    context.close()
    return question


# What the page's script keeps of what it told.
KEPT = """() => new Promise((answer) => {
  const asked = indexedDB.open("orchestra");
  asked.onerror = () => answer([]);
  asked.onupgradeneeded = () => asked.transaction.abort();
  asked.onsuccess = () => {
    const base = asked.result;
    const read = base.transaction("told").objectStore("told").getAllKeys();
    read.onsuccess = () => { base.close(); answer(read.result); };
  };
})"""


def knows(page: Page) -> None:
    """Wait until this browser has asked once: what comes from then on is told."""
    until(lambda: page.evaluate(KEPT), what="the browser keeps what it was told")


def told(page: Page) -> list[str]:
    return page.evaluate("JSON.parse(document.documentElement.dataset.told ?? '[]')")


def hears_nothing(person: Person) -> None:
    """From now on no socket of the person's pages says anything: what they do, they do by themselves."""
    person.context.route_web_socket(re.compile("/ws/"), lambda socket: None)


def is_told(page: Page, *titles: str) -> None:
    expect(page.locator("html")).to_have_attribute("data-told", json.dumps(titles, separators=(",", ":")))


def are_told(pages: list[Page], titles: set[str]) -> None:
    """Wait until the pages told that between them; AssertionError says what they did tell."""

    def all_told() -> list[str]:
        return [title for one in pages for title in told(one)]

    try:
        until(lambda: titles <= set(all_told()))
    finally:
        assert sorted(all_told()) == sorted(titles)


def test_the_permission_is_asked_for_on_a_click_and_never_else(person: Person) -> None:
    page = person.opens("/me/notifications/")
    html = page.locator("html")
    expect(page.get_by_text("This browser was not asked yet.")).to_be_visible()
    page.reload()
    person.opens("/").close()
    expect(html).not_to_have_attribute("data-asked", re.compile("."))
    page.get_by_role("button", name="Ask this browser").click()
    expect(html).to_have_attribute("data-asked", "1")
    expect(page.get_by_text("This browser may show them.")).to_be_visible()
    expect(page.get_by_role("button", name="Ask this browser")).to_be_hidden()
    page.locator("[name=browser]").check()
    expect(html).to_have_attribute("data-asked", "1")


def test_a_new_row_is_told_once_however_many_pages_are_open_and_leads_to_its_page(person: Person) -> None:
    page = person.opens("/me/notifications/")
    page.locator("[name=browser]").check()
    expect(page.locator("html")).to_have_attribute("data-asked", "1")
    choose(page, browser=True, sound=False)
    pages = [page, person.opens("/"), person.opens("/b/")]
    for one in pages:
        expect(one.locator("#live-light")).to_have_text("Live")
    knows(page)
    first = ask(person)
    are_told(pages, {first})
    second = ask(person)
    are_told(pages, {first, second})
    teller = next(one for one in pages if second in told(one))
    with teller.expect_navigation():
        teller.evaluate("window.lastTold.told.dispatchEvent(new Event('click'))")
    expect(teller).to_have_url(re.compile(r"/holds/\d+/$"))
    expect(teller.get_by_text(second).first).to_be_visible()


def test_what_came_while_no_page_was_open_is_told_in_one(person: Person) -> None:
    page = person.opens("/me/notifications/")
    page.get_by_role("button", name="Ask this browser").click()
    choose(page, browser=True, sound=False)
    knows(page)
    page.goto("about:blank")
    for _ in range(4):
        ask(person)
    page = person.opens("/b/")
    is_told(page, "4 things wait on you")


def test_pages_that_cannot_wait_for_each_other_tell_a_row_once(person: Person) -> None:
    person.context.add_init_script("Object.defineProperty(navigator, 'locks', { value: undefined });")
    page = person.opens("/me/notifications/")
    page.get_by_role("button", name="Ask this browser").click()
    choose(page, browser=True, sound=False)
    pages = [page, *(person.opens("/b/") for _ in range(4))]
    for one in pages:
        expect(one.locator("#live-light")).to_have_text("Live")
    knows(page)
    question = ask(person)
    are_told(pages, {question})
    for one in pages * 2:
        with one.expect_response("**/me/news/**"):
            one.evaluate("document.dispatchEvent(new Event('needs:changed'))")
    are_told(pages, {question})


def test_a_page_that_got_no_answer_asks_again_by_itself(person: Person) -> None:
    page = person.opens("/me/notifications/")
    page.get_by_role("button", name="Ask this browser").click()
    choose(page, browser=True, sound=False)
    knows(page)
    page.goto("about:blank")
    question = ask(person)
    failed: list[str] = []

    def fail(route: Route) -> None:
        failed.append(route.request.url)
        if len(failed) == 1:
            route.abort()
        elif len(failed) == 2:
            route.fulfill(status=503, body="Away")
        else:
            route.continue_()

    hears_nothing(person)
    person.context.route("**/me/news/**", fail)
    is_told(person.opens("/b/"), question)
    assert len(failed) > 2
    person.context.unroute("**/me/news/**")
    forgive(person, "503", "ERR_FAILED")


def test_what_came_in_quiet_hours_is_told_when_they_end_though_nothing_changes_then(person: Person) -> None:
    page = person.opens("/me/notifications/")
    page.get_by_role("button", name="Ask this browser").click()
    choose(page, browser=True, sound=False)
    knows(page)
    page.goto("about:blank")
    question = ask(person)
    hears_nothing(person)
    quiet = {"at": "2026-01-01T00:00:00+00:00", "quiet": True, "rows": []}
    person.context.route("**/me/news/**", lambda route: route.fulfill(json=quiet))
    page.clock.install()
    with page.expect_response("**/me/news/**"):
        page.goto(person.base + "/b/")
    person.context.unroute("**/me/news/**")
    assert told(page) == []
    page.clock.run_for(61_000)
    is_told(page, question)


def test_a_sound_is_made_after_a_touch_and_only_where_it_is_wanted(person: Person) -> None:
    page = person.opens("/me/notifications/")
    choose(page, browser=False, sound=True)
    home = person.opens("/")
    expect(home.locator("#live-light")).to_have_text("Live")
    knows(home)
    home.locator("h1").first.click()
    ask(person)
    expect(home.locator("html")).to_have_attribute("data-tones", "2")
    assert told(home) == []
