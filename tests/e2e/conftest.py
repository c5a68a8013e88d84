"""A browser, and a product running as a newcomer starts it: `manage.py up` in a data folder of its own."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.commands.running import Up, remove

PATIENCE_MS = 60_000  # for what takes moments; a machine of two processors may be busy with something else
expect.set_options(timeout=PATIENCE_MS)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/e2e" in item.nodeid:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(600))


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed; browser tests need it.")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for a file: while its driver lives, no asynchronous test can run in this thread."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The running product with its demo space; stopped at the end, which must be clean."""
    data = tmp_path_factory.mktemp("product")
    running = Up(data, "--print-link")
    try:
        running.is_ready()
        yield running
        assert running.ends() == 0
    finally:
        if running.process.is_running():
            running.process.kill()
        remove(data)


@dataclass
class Person:
    """Somebody at a browser. `complaints` are console errors, page errors and CSP violations of all their pages."""

    context: BrowserContext
    base: str
    complaints: list[str] = field(default_factory=list)

    def opens(self, path: str) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        page.on("console", lambda said: said.type == "error" and self.complaints.append(f"{page.url}: {said.text}"))
        page.goto(self.base + path)
        return page


@pytest.fixture(scope="session")
def signed_in(product: Up, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one-time link, used once; what the browser keeps of it."""
    state = tmp_path_factory.mktemp("browser") / "state.json"
    with chromium() as started:
        page = started.new_context().new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(product.link)
        page.get_by_role("button", name=re.compile("sign in", re.IGNORECASE)).click()
        page.wait_for_url(lambda url: "/sign-in/" not in url)
        page.context.storage_state(path=state)
    return state


@pytest.fixture
def operator(product: Up, signed_in: Path, browser: Browser) -> Iterator[Person]:
    """The first operator, signed in; the test fails where a page complained."""
    context = browser.new_context(storage_state=signed_in)
    context.set_default_timeout(PATIENCE_MS)
    person = Person(context, product.url)
    yield person
    context.close()
    assert person.complaints == []
