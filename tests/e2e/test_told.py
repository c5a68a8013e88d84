"""Notifications of the browser: asked for on a click alone, one for each new row however many pages, a sound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Person
from tests.waiting import until

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


@pytest.fixture
def person(operator: Person) -> Iterator[Person]:
    """The operator at a browser that was not asked yet; everything is off again afterwards."""
    operator.context.add_init_script(BROWSER)
    yield operator
    choose(operator.opens("/me/notifications/"), browser=False, sound=False)


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
    page.goto(person.base + "/b/release-desk/new/")
    page.locator("#f-goal").fill(f"Count the boats. {question}")
    page.locator("summary", has_text="Hold it").click()
    page.locator("#f-question").fill(question)
    page.get_by_role("button", name="File the task").click()
    expect(page).not_to_have_url(re.compile(r"/new/"))
    context.close()
    return question


def told(page: Page) -> list[str]:
    return page.evaluate("JSON.parse(document.documentElement.dataset.told ?? '[]')")


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
    first = ask(person)
    until(lambda: any(first in told(one) for one in pages), 60, "the first row is told")
    second = ask(person)
    until(lambda: any(second in told(one) for one in pages), 60, "the second row is told")
    assert sorted(title for one in pages for title in told(one)) == sorted([first, second])
    teller = next(one for one in pages if second in told(one))
    with teller.expect_navigation():
        teller.evaluate("window.lastTold.told.dispatchEvent(new Event('click'))")
    expect(teller).to_have_url(re.compile(r"/holds/\d+/$"))
    expect(teller.get_by_text(second).first).to_be_visible()


def test_what_came_while_no_page_was_open_is_told_in_one(person: Person) -> None:
    page = person.opens("/me/notifications/")
    page.get_by_role("button", name="Ask this browser").click()
    choose(page, browser=True, sound=False)
    kept = person.opens("/")
    until(lambda: kept.evaluate("Object.keys(localStorage).some((name) => name.startsWith('told:'))"))
    kept.close()
    page.goto("about:blank")
    for _ in range(4):
        ask(person)
    page = person.opens("/b/")
    until(lambda: told(page) == ["4 things wait on you"], 60, "one notification for all of them")


def test_a_sound_is_made_after_a_touch_and_only_where_it_is_wanted(person: Person) -> None:
    page = person.opens("/me/notifications/")
    choose(page, browser=False, sound=True)
    home = person.opens("/")
    expect(home.locator("#live-light")).to_have_text("Live")
    home.locator("h1").first.click()
    ask(person)
    expect(home.locator("html")).to_have_attribute("data-tones", "2", timeout=60_000)
    assert told(home) == []
