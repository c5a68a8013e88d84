"""Makes docs/pictures/board.png from the running product: `uv run --group test python -m docs.make_pictures`.

Starts `up` in a throw-away data folder, signs in by its link and waits until the demo's agents are at work.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from tests.commands.running import Up, remove

PICTURES = Path(__file__).with_name("pictures")
SIZE = {"width": 1440, "height": 900}
PATIENCE_MS = 60_000


def main() -> None:
    data = Path(tempfile.mkdtemp(prefix="orchestra-pictures-"))
    running = Up(data, "--print-link")
    try:
        take(running.link, running.url)
    finally:
        running.ends()
        remove(data)


def take(link: str, url: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport=SIZE, color_scheme="light", device_scale_factor=1.5)
        page.goto(link)
        page.get_by_role("button", name="Sign in").click()
        page.goto(f"{url}/b/release-desk/")
        wait_for_work(page)
        PICTURES.mkdir(exist_ok=True)
        page.screenshot(path=PICTURES / "board.png")
        browser.close()


def wait_for_work(page: Page) -> None:
    """One task waits on a person by then, the others are worked, and the page is live."""
    working = page.locator("#lane-in_progress article")
    expect(working.nth(3)).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#lane-in_progress")).to_contain_text("read 1.1", timeout=PATIENCE_MS)
    expect(page.locator("#live-light")).to_have_text("Live", timeout=PATIENCE_MS)


if __name__ == "__main__":
    main()
