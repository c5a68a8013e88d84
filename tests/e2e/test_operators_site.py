"""The operators' site in a real browser, under the strict policy, on the running product."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.commands.running import Up
from tests.e2e.conftest import Person

LISTS = ("task", "attempt", "hold", "flowrun", "event", "debt", "process", "board", "member", "user", "space")


def test_no_page_of_it_breaks_the_policy(operator: Person) -> None:
    page = operator.opens("/admin/")
    for name in LISTS:
        page.goto(f"{operator.base}/admin/boards/{name}/")
        expect(page.locator("#changelist")).to_be_visible()
        first = page.locator("#result_list tbody th a").first
        if first.count():
            first.click()
            expect(page.locator("fieldset").first).to_be_visible()
    assert operator.complaints == []


def test_an_act_on_what_matches_a_filter_shows_each_result_and_keeps_the_filter(operator: Person, product: Up) -> None:
    page = operator.opens("/admin/boards/task/?q=label%3Alegal")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option("set_priority")
    page.get_by_role("button", name=re.compile("^(Go|Run)")).click()
    page.get_by_label("Priority").fill("3")
    page.get_by_role("button", name="Set priority").click()
    expect(page.get_by_role("status")).to_have_text("1 done.")
    page.get_by_role("link", name="Back to the list").click()
    assert page.url.endswith("?q=label%3Alegal")
    assert product.rows("select priority from boards_task where id = 'check-licences'") == [(3,)]


def test_a_task_page_leads_to_the_live_one(operator: Person) -> None:
    page = operator.opens("/admin/boards/task/?q=check-installers")
    page.get_by_role("link", name="check-installers").click()
    page.get_by_role("link", name="Open the live page").click()
    assert page.url.endswith("/b/release-desk/t/check-installers/")
