"""A task's page while its worker is at it: what comes by the socket stands where it belongs."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.commands.running import Up
from tests.e2e.conftest import Person
from tests.e2e.needs_desk import is_live, reports, works


def test_what_a_worker_reports_stays_one_line_that_counts(operator: Person, product: Up) -> None:
    works(product, "reporting")
    page = operator.opens("/b/reporting/t/t1/")
    is_live(page)
    log = page.locator("#event-list")
    expect(log.get_by_text("started attempt 1")).to_be_visible()
    for already, now in ((0, 2), (2, 5)):
        reports(product, "reporting", range(already, now))
        expect(log.get_by_text(f"reported progress {now} times, last")).to_be_visible()
        expect(log.get_by_text(re.compile("reported progress"))).to_have_count(1)
        expect(page.get_by_text(f"read {now - 1}")).to_be_visible()
    expect(log.locator("li").first).to_contain_text("reported progress")
    page.reload()
    expect(log.locator("li")).to_have_count(3)
