"""Every page, wide and on a phone, light and dark: axe finds nothing, nothing complains, nothing is too wide."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.commands.running import Up
from tests.e2e.conftest import Person

PAGES = [
    "/",
    "/b/",
    "/b/release-desk/",
    "/b/release-desk/new/",
    "/b/release-desk/batch/",
    "/b/release-desk/t/upgrade-guide/",
    "/needs-you/",
    "/f/",
    "/f/release-notes/",
    "/f/release-notes/runs",
    "/f/release-notes/starts/",
    "/f/release-notes/starts/schedule/",
    "/f/release-notes/starts/webhook/start/",
    "/f/release-notes/edit/",
    "/f/release-notes/versions/",
    "/new-flow/",
    "/new-flow/edit/?template=pr-review",
    "/f/release-notes/r/1/",
    "/me/notifications/",
    "/me/keys/",
    "/password/",
]
ADMIN = ["/admin/", "/admin/boards/task/", "/admin/boards/flowrun/", "/admin/boards/hold/", "/admin/boards/event/"]
SCREENS = {"wide": (1440, 900), "phone": (390, 844)}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_pages_are_accessible_and_fit(operator: Person, screen: str, theme: str) -> None:
    width, height = SCREENS[screen]
    findings = []
    for path in PAGES:
        page = operator.opens(path)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        expect(page.locator("main")).to_be_visible()
        findings += [f"{path}: {finding}" for finding in accessibility(page)]
        if page.evaluate("document.documentElement.scrollWidth") > width:
            findings.append(f"{path}: wider than the screen")
        page.close()
    assert findings == []


def accessibility(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]


def test_admin_pages_keep_the_policy(operator: Person) -> None:
    for path in ADMIN:
        page = operator.opens(path)
        expect(page.locator("#content")).to_be_visible()
        page.close()


def test_nothing_is_shown_to_a_stranger(product: Up) -> None:
    for path in [*PAGES, *ADMIN]:
        if path != "/password/":
            assert "Write the announcement" not in product.get(path)[1].decode()
