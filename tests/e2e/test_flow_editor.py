"""The editor of flows in a browser: what is typed is judged at once, both sides stay one, and no text is lost."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.e2e.conftest import Person


def editor(page: Page, text: str) -> None:
    page.locator("#f-text").fill(text)


def test_a_flow_is_written_judged_and_saved(operator: Person) -> None:
    page = operator.opens("/new-flow/edit/")
    expect(page.get_by_text("Valid: 2 steps.")).to_be_visible()
    text = page.locator("#f-text").input_value().replace("key: my-flow", "key: e2e-flow").replace("My flow", "By hand")

    editor(page, text.replace("kind: agent", "kind: robot"))
    problem = page.locator(".problems a").first
    expect(problem).to_contain_text('steps[0].kind: Unknown kind "robot"')
    problem.click()
    selected = (
        "document.activeElement.value.slice(document.activeElement.selectionStart, document.activeElement.selectionEnd)"
    )
    assert page.evaluate(selected) == "    kind: robot"

    page.reload()
    page.get_by_role("button", name="Take it up").click()
    expect(page.locator("#f-text")).to_have_value(re.compile("kind: robot"))
    editor(page, text)
    expect(page.get_by_text("Valid: 2 steps.")).to_be_visible()

    page.locator("#f-step-name").fill("Write it")
    page.locator("#f-step-prompt").click()
    expect(page.locator("#f-text")).to_have_value(re.compile("name: Write it"))
    expect(page.locator(".drawing")).to_contain_text("Write it")
    page.locator("#f-step-kind").select_option("approval")
    expect(page.locator("#f-step-draft")).to_be_visible()

    page.get_by_role("button", name="Add a step").click()
    expect(page.locator("#f-text")).to_have_value(re.compile("key: step-3"))
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.locator("#f-text")).not_to_have_value(re.compile("key: step-3"))

    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved: version 1 is the newest.")).to_be_visible()
    page.goto(f"{operator.base}/f/e2e-flow/edit/")
    expect(page.locator("#f-text")).to_have_value(re.compile("name: Write it"))
    expect(page.locator("#kept")).to_be_hidden()


def test_the_editor_works_without_scripts(operator: Person) -> None:
    assert operator.context.browser is not None
    plain = operator.context.browser.new_context(
        java_script_enabled=False, storage_state=operator.context.storage_state()
    )
    page = plain.new_page()
    page.goto(f"{operator.base}/new-flow/edit/?template=kanban")
    page.get_by_role("button", name="3. Review").click()
    page.locator("#f-step-name").fill("Look at it")
    page.get_by_role("button", name="Put it into the text").click()
    expect(page.locator("#f-text")).to_have_value(re.compile("name: Look at it"))
    expect(page.get_by_text("Valid: 4 steps.")).to_be_visible()
    plain.close()
