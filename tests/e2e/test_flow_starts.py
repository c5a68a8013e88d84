"""A program posts to a webhook of the running product: the key is copied off the page, and the run shows up on it."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from typing import Any

from playwright.sync_api import expect

from boards.outbound import new_secret, signed_headers
from tests.e2e.conftest import Person


def posted(address: str, secret: str, payload: dict[str, Any], ident: str = "msg_1") -> tuple[int, Any]:
    body = json.dumps(payload).encode()
    headers = {"Content-Type": "application/json"} | signed_headers(ident, secret, body)
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def test_a_signed_post_starts_a_run_and_a_repeat_does_not(operator: Person) -> None:
    page = operator.opens("/f/release-notes/starts/")
    page.get_by_role("link", name="One that starts a run").click()
    page.get_by_label("Name", exact=True).fill("Tracker")
    page.get_by_label("Title").fill("{{ payload.title }}")
    page.get_by_label("Name of each run").fill("{{ payload.title }}")
    page.get_by_role("button", name="Save").click()
    secret = page.locator(".start-secret .mono").inner_text()
    address = page.locator(".start dd.mono").inner_text()
    payload = {"repo": "/nowhere", "title": "From a tracker"}
    status, told = posted(address, secret, payload)
    assert status == 200
    assert posted(address, secret, payload) == (200, told)
    assert posted(address, new_secret(), payload, "msg_2") == (
        401,
        {"code": "not_signed", "error": "There is no such webhook, or the message is not signed with its key."},
    )
    assert posted(address, secret, {"x": "y" * 300_000}, "msg_3")[0] == 413
    page.reload()
    expect(page.get_by_text(re.compile("whsec_"))).to_have_count(0)
    page.get_by_role("link", name="From a tracker").click()
    expect(page.get_by_role("heading", name="From a tracker")).to_be_visible()
    expect(page.get_by_text("The webhook Tracker started it")).to_be_visible()


def test_an_open_page_shows_what_somebody_else_adds_and_pauses(operator: Person) -> None:
    watched = operator.opens("/f/release-notes/starts/")
    expect(watched.locator("#live-light")).to_have_text("Live")
    page = operator.opens("/f/release-notes/starts/schedule/")
    page.get_by_label("When", exact=True).fill("17 3 * * *")
    page.get_by_label("Repository").fill(".")
    page.get_by_role("button", name="Save").click()
    there = watched.locator(".start", has_text="17 3 * * *")
    expect(there).to_be_visible()
    page.locator(".start", has_text="17 3 * * *").get_by_role("button", name="Pause").click()
    expect(there.get_by_text("Paused")).to_be_visible()
