"""Results are checked in their rows of Needs you, by keyboard too, and first wins; keys are the same on each page."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.commands.running import Up
from tests.e2e.conftest import Person
from tests.e2e.needs_desk import bert_checks, checks, forgive, hands_in_again, is_live, rows

WORDS = "a name is missing: rather say who wrote it."  # its first letters are keys of the page


def test_results_are_read_accepted_and_sent_back_with_the_keyboard_alone(operator: Person, product: Up) -> None:
    checks(product, "readers", 3)
    page = operator.opens("/needs-you/?board=readers")
    is_live(page)
    expect(rows(page)).to_have_count(3)
    opened = page.locator("li.row[data-open]")
    expect(opened.get_by_text("Result 0 of readers")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(rows(page)).to_have_count(2)
    page.keyboard.press("a")  # opens the row that took the focus
    expect(opened.get_by_text("Result 1 of readers")).to_be_visible()
    page.keyboard.press("r")
    expect(opened.get_by_text("Say what is missing")).to_be_visible()
    forgive(operator, "422")
    page.keyboard.type(WORDS)  # at once: the focus is in the field, so that nothing of it is a key
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    expect(rows(page)).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/needs-you/\?board=readers$"))  # never another page
    task = operator.opens("/b/readers/")
    task.get_by_role("link", name=re.compile("readers task 1")).click()
    expect(task.locator("#drawer").get_by_text(WORDS).first).to_be_visible()


def test_words_typed_after_a_refusal_on_the_tasks_page_decide_nothing(operator: Person, product: Up) -> None:
    checks(product, "typed", 1)
    page = operator.opens("/b/typed/")
    page.get_by_role("link", name=re.compile("typed task 0")).click()
    drawer = page.locator("#drawer")
    expect(drawer.get_by_role("heading", name="Is this result right?")).to_be_visible()
    for way in (lambda: page.keyboard.press("r"), drawer.get_by_role("button", name=re.compile("^Send back")).click):
        way()
        expect(drawer.get_by_text("Say what is missing")).to_be_visible()
        expect(drawer.get_by_label(re.compile("^Words for"))).to_be_focused()
        page.keyboard.type("an")
        page.keyboard.press("Escape")
        expect(drawer.get_by_label(re.compile("^Words for"))).to_have_value("an")
        drawer.get_by_label(re.compile("^Words for")).fill("")
        drawer.locator("section.ask").focus()
    refusal = drawer.locator("section.ask [data-wrong]")
    refusal.focus()  # whoever goes back to the sentence does not decide by typing either
    page.keyboard.type("ar")
    expect(drawer.get_by_role("heading", name="Is this result right?")).to_be_visible()
    page.keyboard.press("n")
    expect(refusal).to_be_focused()
    forgive(operator, "422")


def test_a_long_result_is_folded_and_unfolds_in_the_row(operator: Person, product: Up) -> None:
    checks(product, "longread", 1, lines=200)
    page = operator.opens("/needs-you/?board=longread")
    opened = page.locator("li.row[data-open]")
    expect(opened.get_by_text("line 5", exact=False).first).to_be_visible()
    expect(opened.get_by_text("line 199")).to_be_hidden()
    opened.get_by_text("The whole result").click()
    expect(opened.get_by_text("line 199")).to_be_visible()


def test_who_comes_late_hears_it_and_keeps_their_words(operator: Person, product: Up) -> None:
    checks(product, "latecheck", 1)
    page = operator.opens("/needs-you/?board=latecheck")
    is_live(page)
    words = page.get_by_label(re.compile("^Words for"))
    words.fill(WORDS)
    bert_checks(product, "latecheck", "accept")
    expect(page.get_by_text(re.compile(r"Bert accepted this at \d\d:\d\d UTC"))).to_be_visible()
    expect(words).to_have_value(WORDS)
    expect(page.locator("li.row[data-open] .ask-foot button:enabled")).to_have_count(0)
    page.get_by_role("button", name="Close").click()
    expect(rows(page)).to_have_count(0)


def test_a_result_that_was_handed_in_anew_is_read_before_it_is_decided(operator: Person, product: Up) -> None:
    checks(product, "anew", 1)
    page = operator.opens("/needs-you/?board=anew")
    operator.context.route("**/needs-you/rows/**", lambda route: route.abort())  # this tab hears of nothing
    words = page.get_by_label(re.compile("^Words for"))
    words.fill(WORDS)
    bert_checks(product, "anew", "send_back", "Longer")
    hands_in_again(product, "anew", "Result 0 of anew, much longer")
    page.get_by_role("button", name=re.compile("^Accept")).click()
    opened = page.locator("li.row[data-open]")
    expect(opened.get_by_text("It was handed in again")).to_be_visible()
    expect(opened.get_by_text("much longer").first).to_be_visible()
    expect(page.get_by_label(re.compile("^Words for"))).to_have_value(WORDS)
    operator.context.unroute("**/needs-you/rows/**")
    page.get_by_role("button", name=re.compile("^Accept")).click()
    expect(rows(page)).to_have_count(0)
    forgive(operator, "409", "ERR_FAILED", "htmx:")


def test_while_a_check_is_in_flight_both_buttons_are_locked(operator: Person, product: Up) -> None:
    checks(product, "lockcheck", 1)
    page = operator.opens("/needs-you/?board=lockcheck")
    sent: list[str] = []

    def slowly(route: object) -> None:
        sent.append("accept")
        expect(page.locator("fieldset.ask-foot button:enabled")).to_have_count(0)
        route.continue_()  # type: ignore[attr-defined]

    operator.context.route("**/accept", slowly)
    page.get_by_role("button", name=re.compile("^Accept")).dblclick()
    expect(rows(page)).to_have_count(0)
    operator.context.unroute("**/accept")
    assert sent == ["accept"]


def test_many_checks_show_their_results_and_a_long_one_is_fetched_when_it_is_opened(
    operator: Person, product: Up
) -> None:
    checks(product, "manychecks", 2)
    checks(product, "manychecks", 1, lines=900, first=2)
    page = operator.opens("/needs-you/?board=manychecks")
    page.get_by_role("button", name="All that match…").click()
    expect(page.get_by_text("Result 1 of manychecks")).to_be_visible()
    expect(page.get_by_text("line 899")).to_have_count(0)
    page.locator("summary", has_text=re.compile("characters")).click()
    page.get_by_text("The whole result").click()
    expect(page.get_by_text("line 899")).to_be_visible()
    page.get_by_role("button", name="Accept (3)").click()
    expect(page.get_by_text("3 done.")).to_be_visible()
    expect(page.get_by_text("accepted", exact=True)).to_have_count(3)


def test_the_same_keys_answer_in_the_drawer_and_say_what_they_cannot_do(operator: Person, product: Up) -> None:
    checks(product, "drawer", 1)
    page = operator.opens("/b/drawer/")
    is_live(page)
    says = page.locator("#toasts [data-of-keys]")
    page.keyboard.press("a")
    expect(says).to_have_text("Nothing on this page waits for your yes.")
    page.keyboard.press("x")
    expect(says).to_have_text("Nothing can be selected on this page.")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard")
    expect(keys).to_be_visible()
    expect(keys.locator("dt.is-off kbd").first).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator(".card-title a:focus")).to_have_count(1)
    page.keyboard.press("Enter")
    check = page.locator("#drawer section.ask")
    expect(check).to_be_visible()
    page.keyboard.press("n")
    page.keyboard.type(WORDS)
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).to_be_visible()
    expect(check).to_be_focused()
    page.keyboard.press("a")
    expect(check).to_have_count(0)
    expect(page.locator("#task-title")).to_be_visible()
    forgive(
        operator, "htmx:"
    )  # of two reads of the drawer's parts at once the older one is dropped, and htmx logs that


def test_single_keys_are_switched_off_for_every_page(operator: Person, product: Up) -> None:
    page = operator.opens("/needs-you/")
    page.keyboard.press("?")
    page.get_by_label("Single keys are on").uncheck()
    page.keyboard.press("Escape")
    page.goto(product.url + "/b/release-desk/")
    page.keyboard.press("c")
    expect(page.locator("#quick-line")).not_to_be_focused()
    page.keyboard.press("?")
    page.get_by_label("Single keys are on").check()
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    expect(page.locator("#quick-line")).to_be_focused()
