"""A countdown runs by the database's clock, which the page carries, whatever the clock of the reader says."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

SCRIPT = Path(__file__).resolve().parents[2] / "static" / "js" / "times.js"
PAGE = """<!doctype html><html lang="en"><body data-now="2026-11-30T12:00:00.250000+00:00">
<p data-due><time datetime="2026-11-30T12:01:05Z" data-t="left"></time></p>
<p id="age"><time datetime="2026-11-30T11:58:00Z" data-t="ago"></time></p>
<script type="module" src="/times.js"></script></body></html>"""


@pytest.mark.parametrize("year", [2019, 2026, 2033])
def test_a_wrong_clock_of_the_reader_changes_nothing(year: int, browser: Browser) -> None:
    page = browser.new_page()

    def answer(route: Route) -> None:
        if route.request.url.endswith("times.js"):
            route.fulfill(path=SCRIPT, content_type="text/javascript")
        else:
            route.fulfill(body=PAGE, content_type="text/html")

    page.route("**/*", answer)
    opened = datetime.datetime(year, 3, 4, 5, 6, 7, tzinfo=datetime.UTC)
    page.clock.install(time=opened)
    page.goto("http://desk.test/")
    left = page.locator("[data-due] time")
    expect(left).to_have_text("1 min left")
    expect(page.locator("#age time")).to_have_text("2 min ago")
    page.clock.pause_at(opened + datetime.timedelta(seconds=30))
    expect(left).to_have_text(re.compile(r"^3[45] s left$"))
    before = int(left.inner_text().split()[0])
    page.clock.run_for(1_000)
    expect(left).to_have_text(f"{before - 1} s left")
    page.clock.run_for(60_000)
    expect(left).to_have_text("its time is up")
    expect(page.locator(".is-over")).to_have_count(1)
    page.close()
