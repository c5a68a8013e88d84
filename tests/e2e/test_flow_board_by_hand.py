"""A flow's board by pointer and keyboard: drag, menu, keys, several at once, and what changes meanwhile."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import Person

BOARD = "/f/kanban/"


@pytest.fixture
def page(operator: Person) -> Page:
    """The board of the ready template, with three cards of this test in its first column."""
    made = operator.opens("/new-flow/")
    add = made.get_by_role("button", name="Add it Kanban")
    if add.count():
        add.click()
    made.goto(operator.base + BOARD)
    expect(made.locator("#live-light")).to_have_text("Live")
    return made


def start(page: Page, name: str) -> Locator:
    """Start a run in the backlog, by its head."""
    page.get_by_role("link", name="Start a run in Backlog").click()
    page.get_by_label("Task", exact=True).fill(name)
    page.get_by_label("Name of the run").fill(name)
    page.locator("#start").get_by_role("button", name="Start run").click()
    card = page.locator('[data-cards="backlog"] .run-card', has_text=name)
    expect(card).to_be_visible()
    page.keyboard.press("Escape")
    return card


def carry(page: Page, card: Locator, to: Locator, *, at: float = 0.5) -> None:
    start, end = card.bounding_box(), to.bounding_box()
    assert start is not None
    assert end is not None
    page.mouse.move(start["x"] + 30, start["y"] + start["height"] - 8)
    page.mouse.down()
    page.mouse.move(start["x"] + 60, start["y"] + start["height"], steps=4)
    page.mouse.move(end["x"] + 40, end["y"] + end["height"] * at, steps=8)


def test_a_card_is_carried_to_another_column_and_opens_no_run(page: Page) -> None:
    card = start(page, "Carried")
    carry(page, card, page.locator('[data-column="review"]'))
    expect(page.locator(".run-ghost")).to_have_count(1)
    page.mouse.up()
    expect(page.locator('[data-cards="review"] .run-card', has_text="Carried")).to_be_visible()
    expect(page.locator(".run-ghost")).to_have_count(0)
    expect(page).to_have_url(re.compile(re.escape(BOARD) + "$"))


def test_escape_puts_a_carried_card_back(page: Page) -> None:
    card = start(page, "Kept")
    carry(page, card, page.locator('[data-column="review"]'))
    page.keyboard.press("Escape")
    page.mouse.up()
    expect(page.locator(".run-ghost")).to_have_count(0)
    expect(page.locator('[data-cards="backlog"] .run-card', has_text="Kept")).to_be_visible()


def test_a_card_is_put_above_another(page: Page) -> None:
    start(page, "Upper")
    lower = start(page, "Lower")
    carry(page, lower, page.locator('[data-cards="backlog"] .run-card', has_text="Upper"), at=0.1)
    page.mouse.up()
    titles = page.locator(
        '[data-cards="backlog"] .run-card[data-name="Upper"], [data-cards="backlog"] [data-name="Lower"]'
    )
    expect(titles).to_contain_text(["Lower", "Upper"])


def test_keys_go_from_card_to_card_and_move_one(page: Page) -> None:
    start(page, "First key")
    card = start(page, "Second key")
    card.locator(".card-title a").focus()
    page.keyboard.press("ArrowUp")
    expect(card.locator(".card-title a")).not_to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(card.locator(".card-title a")).to_be_focused()
    page.keyboard.press("m")
    menu = page.locator("#run-menu")
    expect(menu).to_be_visible()
    expect(menu.get_by_role("button", name=re.compile("^In Progress"))).to_be_focused()
    page.keyboard.press("3")
    moved = page.locator('[data-cards="review"] .run-card', has_text="Second key")
    expect(moved).to_be_visible()
    expect(moved.locator(".card-title a")).to_be_focused()


def test_several_cards_are_chosen_and_archived(page: Page) -> None:
    for name in ("Pile one", "Pile two"):
        start(page, name).locator(".card-title a").focus()
        page.keyboard.press("x")
    expect(page.locator("[data-picked-count]")).to_have_text("2")
    page.get_by_role("button", name="Move or archive").click()
    page.locator("#run-menu").get_by_role("button", name="Archive").click()
    expect(page.locator(".toast").last).to_contain_text("2 runs archived.")
    expect(page.locator(".run-card", has_text="Pile")).to_have_count(0)
    page.get_by_text("Archive", exact=True).first.click()
    expect(page.locator(".run-card", has_text="Pile")).to_have_count(2)
    expect(page).to_have_url(re.compile(r"\?archived=1$"))


def test_what_another_page_does_comes_while_a_card_is_held(page: Page, operator: Person) -> None:
    held = start(page, "Held in the hand")
    other = operator.opens(BOARD)
    carry(page, held, page.locator('[data-column="review"]'))
    start(other, "From elsewhere")
    expect(page.locator(".run-card", has_text="From elsewhere")).to_be_visible()
    expect(page.locator(".run-ghost")).to_have_count(1)
    page.mouse.up()
    expect(page.locator('[data-cards="review"] .run-card', has_text="Held in the hand")).to_be_visible()


def test_the_focus_stays_where_it_is_while_others_move(page: Page, operator: Person) -> None:
    stays = start(page, "Stays")
    goes = start(page, "Goes")
    stays.locator(".card-title a").focus()
    other = operator.opens(BOARD)
    other.locator(".run-card", has_text="Goes").locator(".card-title a").focus()
    other.keyboard.press("m")
    expect(other.locator("#run-menu")).to_be_visible()
    other.keyboard.press("4")
    expect(page.locator('[data-cards="done"] .run-card', has_text="Goes")).to_be_visible()
    expect(goes).to_have_count(0)
    expect(stays.locator(".card-title a")).to_be_focused()


def test_a_phone_opens_on_the_first_column_with_a_card_and_only_columns_scroll(page: Page) -> None:
    carry(page, start(page, "Swiped"), page.locator('[data-column="review"]'))
    page.mouse.up()
    expect(page.locator('[data-cards="review"] .run-card', has_text="Swiped")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(page.url + "?q=Swiped")
    expect(page.locator(".run-card", has_text="Swiped")).to_be_in_viewport(ratio=1)
    expect(page.locator('[data-column="backlog"]')).not_to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollHeight") <= 844


def test_on_a_phone_the_columns_swipe_and_the_page_is_no_wider(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    start_button = page.get_by_role("link", name="Start a run in Backlog")
    expect(start_button).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("(box => box.scrollWidth > box.clientWidth)(document.getElementById('columns'))")
