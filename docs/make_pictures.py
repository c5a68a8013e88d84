"""Makes docs/pictures/board.png from the running product: `uv run --group test python docs/make_pictures.py`.

Starts `up` in a throw-away data folder, signs in by its link and waits until the demo's agents are at work.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
SIZE = {"width": 1440, "height": 900}
PATIENCE_MS = 60_000


def main() -> None:
    folder = tempfile.mkdtemp(prefix="orchestra-pictures-")
    words = ["up", "--port", "0", "--print-link", "--data-dir", folder]
    product = subprocess.Popen([sys.executable, ROOT / "manage.py", *words], stdout=subprocess.PIPE, text=True)
    try:
        take(sign_in_link(product))
    finally:
        product.terminate()
        product.communicate()
        shutil.rmtree(folder)


def sign_in_link(product: subprocess.Popen[str]) -> str:
    assert product.stdout is not None
    for line in product.stdout:
        if found := re.search(r"http://\S+/sign-in/\S+", line):
            return found[0]
    sys.exit("The product did not start.")


def take(link: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport=SIZE, color_scheme="light", device_scale_factor=2)
        page.goto(link)
        page.get_by_role("button", name="Sign in").click()
        page.goto(link.partition("/sign-in/")[0] + "/b/release-desk/")
        wait_for_work(page)
        expect(page.locator("#live-light")).to_have_text("Live", timeout=PATIENCE_MS)
        PICTURES.mkdir(exist_ok=True)
        page.screenshot(path=PICTURES / "board.png")
        browser.close()


def wait_for_work(page: Page) -> None:
    """One task waits on a person by then, and two are worked."""
    working = page.locator("#lane-in_progress article")
    expect(working.nth(2)).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#lane-in_progress")).to_contain_text("read", timeout=PATIENCE_MS)


if __name__ == "__main__":
    main()
