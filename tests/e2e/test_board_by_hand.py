"""The board by keyboard and pointer: filter, quick line, drawer, focus, and the theme."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.e2e.conftest import Person

BOARD = "/b/release-desk/"


def test_a_line_is_filed_from_the_keyboard_and_the_line_is_free_for_the_next(operator: Person) -> None:
    page = operator.opens(BOARD)
    page.keyboard.press("c")
    line = page.get_by_label(re.compile("^File a task"))
    expect(line).to_be_focused()
    line.press_sequentially("Wind the tower clock")
    line.press("Enter")
    expect(page.locator(".card", has_text="Wind the tower clock")).to_have_count(1)
    expect(line).to_be_focused()
    expect(line).to_have_value("")
    line.fill("Wind the tower clock")
    line.press("Enter")
    expect(page.get_by_role("button", name="File anyway")).to_be_visible()
    expect(line).to_have_value("Wind the tower clock")


def test_a_filter_stands_in_the_address_and_keeps_what_is_typed_elsewhere(operator: Person) -> None:
    page = operator.opens(BOARD)
    page.get_by_label(re.compile("^File a task")).fill("Half a thought")
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("/")
    page.keyboard.type("nothing has this name")
    expect(page.locator(".lane-cards > .card")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"\?q=nothing\+has\+this\+name$"))
    expect(page.get_by_label("Filter by text")).to_be_focused()
    expect(page.get_by_label(re.compile("^File a task"))).to_have_value("Half a thought")
    page.get_by_role("link", name="Clear").click()
    expect(page).to_have_url(re.compile(r"/b/release-desk/$"))
    expect(page.locator(".lane-cards > .card").first).to_be_visible()


def test_a_card_opens_in_the_drawer_and_escape_gives_the_focus_back(operator: Person) -> None:
    page = operator.opens(BOARD)
    link = page.locator(".card-title a").first
    href = link.get_attribute("href") or ""
    link.focus()
    link.press("Enter")
    drawer = page.locator("#drawer")
    expect(drawer).to_be_visible()
    expect(page).to_have_url(re.compile(re.escape(href)))
    expect(drawer.get_by_role("heading", level=1)).to_be_focused()
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(page).to_have_url(re.compile(r"/b/release-desk/$"))
    expect(page.locator(f'.card-title a[href="{href}"]')).to_be_focused()
    page.go_forward()
    expect(drawer).to_be_visible()
    page.go_back()
    expect(drawer).to_be_hidden()


def test_a_chosen_theme_is_there_before_the_first_paint(operator: Person) -> None:
    page = operator.opens(BOARD)
    page.locator(".me summary").click()
    page.get_by_role("radio", name="Dark").check()
    page.goto(page.url, wait_until="commit")
    page.wait_for_selector("body", state="attached")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
