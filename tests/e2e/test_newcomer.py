"""The main job, by hand: start it, sign in, approve the draft in one page, see the run finish in another."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.commands.running import Up, file_work
from tests.e2e.conftest import Person

RUN = "/f/release-notes/r/1/"


def test_a_draft_is_sent_back_with_words_then_approved_and_published_live(operator: Person, product: Up) -> None:
    watching = operator.opens(RUN)
    inbox = operator.opens("/needs-you/")
    expect(inbox.get_by_text("Approve: Release notes 1").first).to_be_visible()
    expect(watching.get_by_text("Waits on a person").first).to_be_visible()

    inbox.get_by_role("link", name="Approve: Release notes 1").first.click()
    inbox.get_by_label(re.compile("^Note")).first.fill("Please start with a word of thanks.")
    inbox.get_by_role("button", name=re.compile("^Reject")).first.click()

    # The words reach the next draft, and the run page shows it without being asked.
    expect(watching.get_by_text("Please start with a word of thanks").first).to_be_visible()
    approve = watching.get_by_role("button", name=re.compile("^Approve"))
    expect(approve).to_be_visible()
    second = operator.opens(RUN)
    second.get_by_role("button", name=re.compile("^Approve")).click()

    expect(watching.get_by_text("The run is done").first).to_be_visible()
    published = watching.get_by_role("link", name=re.compile(r"\.md"))
    expect(published.first).to_be_visible()
    answer = operator.context.request.get(product.url + published.first.get_attribute("href"))
    assert answer.ok
    assert answer.text().startswith("# ")
    assert list((product.data / "published").rglob("*.md"))


def test_what_one_person_files_another_sees_at_once(operator: Person) -> None:
    one, other = operator.opens("/b/release-desk/"), operator.opens("/b/release-desk/")
    expect(other.locator("#live-light")).to_have_text("Live")
    line = one.get_by_label(re.compile("^File a task"))
    line.fill("Count the tide gauges")
    line.press("Enter")
    expect(other.get_by_role("link", name="Count the tide gauges")).to_be_visible()
    expect(one.get_by_role("link", name="Count the tide gauges")).to_have_count(1)


def test_an_answer_leaves_every_other_page_and_the_count_goes_down(operator: Person) -> None:
    one, other = operator.opens("/needs-you/"), operator.opens("/needs-you/")
    expect(other.locator("#live-light")).to_have_text("Live")
    question = other.get_by_role("link", name="Which headline?")
    expect(question).to_be_visible()
    one.get_by_role("button", name="Tidewater 2.4 works offline").first.click()
    expect(question).to_have_count(0)


def test_a_drain_that_is_killed_loses_nothing_and_the_page_goes_on(operator: Person, product: Up) -> None:
    file_work(product.data, tasks=12)  # the demo's own may be done by now
    page = operator.opens("/b/release-desk/")
    expect(page.locator("#lane-in_progress .card").first).to_be_visible()
    product.child("drain").kill()
    product.says(r"drain .*is ready", times=2)
    product.is_ready()
    expect(page.locator("#live-light")).to_have_text("Live")
