"""Needs you by hand: ten decisions from the keyboard, notes that survive, undo, many at once, and late decisions."""

from __future__ import annotations

import re
import statistics

from playwright.sync_api import Page, expect

from tests.commands.running import Up
from tests.e2e.conftest import Person
from tests.e2e.needs_desk import asks, forgive, is_live, rows, run
from tests.waiting import slowness, until

NOTE = "Only after the second reading, please."


def stirs(product: Up, slug: str, times: int) -> None:
    """So many changes on the board, each of which every open page hears of."""
    run(
        product,
        f"""
from boards import actors, tasks
from boards.models import Board, Member
from boards.tasks import Filing
chain = actors.person(Member.objects.select_related("user", "space").get(user__username="operator"))
board = Board.objects.get(slug="{slug}")
for number in range({times}):
    tasks.file_task(chain, board, Filing(f"{slug} stir {{number}}", assignee="hand"))
""",
    )


def settles(product: Up, seconds: int) -> None:
    run(
        product,
        f"""
from boards.models import Member
Member.objects.filter(user__username="operator").update(settle_s={seconds})
""",
    )


def test_ten_rows_are_decided_with_the_keyboard_alone(operator: Person, product: Up) -> None:
    asks(product, "tenrows", 10)
    page = operator.opens("/needs-you/?board=tenrows")
    is_live(page)
    expect(rows(page)).to_have_count(10)
    for left in range(10, 0, -1):
        page.keyboard.press("j") if left == 10 else None
        opened = page.locator("li.row[data-open]")
        if not opened.count():
            expect(page.locator("li.row h3 a:focus")).to_have_count(1)
            page.keyboard.press("Enter")
        expect(opened).to_have_count(1)
        expect(opened.get_by_text(re.compile(r"^Draft \d of tenrows"))).to_be_visible()  # what is decided was shown
        page.keyboard.press("a" if left % 2 else "r")
        expect(rows(page)).to_have_count(left - 1)
    expect(page.get_by_text("Nothing that matches waits.")).to_be_visible()


def test_a_note_survives_twenty_updates_an_error_escape_and_a_reload(operator: Person, product: Up) -> None:
    asks(product, "notes", 1)
    page = operator.opens("/needs-you/?board=notes")
    is_live(page)
    note = page.get_by_label(re.compile("^Note"))
    page.keyboard.press("n")
    expect(note).to_be_focused()
    page.keyboard.type(NOTE)
    page.keyboard.press("Home")
    stirs(product, "notes", 20)
    other = operator.opens("/b/notes/")
    expect(other.get_by_role("link", name="notes stir 19")).to_be_visible()
    page.bring_to_front()
    expect(note).to_be_focused()
    expect(note).to_have_value(NOTE)
    assert note.evaluate("field => field.selectionStart") == 0  # the caret did not move

    operator.context.route("**/answer", lambda route: route.fulfill(status=500, body="Broken"))
    page.get_by_role("button", name=re.compile("^Approve")).click()
    expect(page.get_by_text("Nothing you wrote is lost")).to_be_visible()
    expect(page.locator("[data-wrong]")).to_be_focused()
    expect(note).to_have_value(NOTE)
    operator.context.unroute("**/answer")
    forgive(operator, "500")

    note.focus()
    page.keyboard.press("Escape")
    expect(rows(page)).to_have_count(1)
    expect(note).to_have_value(NOTE)
    page.reload()
    expect(page.get_by_label(re.compile("^Note"))).to_have_value(NOTE)
    page.get_by_role("button", name=re.compile("^Approve")).click()
    expect(rows(page)).to_have_count(0)
    answered = operator.opens("/needs-you/")
    expect(answered.get_by_text("notes question 0").first).to_be_visible()


# Notes when the answer's request leaves one tab and when the row leaves the other, both by the clock of the machine.
WATCHES_LEAVING = """(left) => {
  window.left = new Promise((tell) => {
    const seen = new MutationObserver(() => {
      if (document.querySelectorAll("#needs-list li.row").length > left) return;
      seen.disconnect();
      tell(performance.timeOrigin + performance.now());
    });
    seen.observe(document.getElementById("needs-list"), { childList: true, subtree: true });
  });
}"""
WATCHES_SENDING = """() => {
  const note = ({ detail }) => {
    if (!detail.elt.matches("[data-ask-form]")) return;
    window.sent = performance.timeOrigin + performance.now();
    document.removeEventListener("htmx:beforeSend", note);
  };
  document.addEventListener("htmx:beforeSend", note);
}"""
DECISIONS = 5
COUNT = """() => {
  const n = Number(document.getElementById("needs-count").dataset.n);
  const sum = document.getElementById("needs-sum").textContent;
  const said = n ? document.title.startsWith(`(${n}) `) && sum.startsWith(`${n} wait`) : sum.includes("nothing waits");
  return said ? n : -1;
}"""


def count_of(page: Page) -> int:
    """What the page counts; -1 where its frame, its title and its head do not say the same."""
    return page.evaluate(COUNT)


def counted(operator: Person) -> int:
    """What a page counts that is opened now. Work of other boards brings rows meanwhile."""
    page = operator.opens("/needs-you/")
    count = count_of(page)
    page.close()
    return count


def test_a_decision_leaves_the_second_tab_and_its_count_within_a_second(operator: Person, product: Up) -> None:
    """The median of five, each by the share of the processors that there was for it: other work is no fault of ours."""
    asks(product, "twotabs", DECISIONS + 1)
    one, other = (operator.opens("/needs-you/?board=twotabs") for _ in range(2))
    is_live(one)
    is_live(other)
    took = []
    for left in range(DECISIONS, 0, -1):
        if not one.locator("li.row[data-open]").count():
            one.locator("[data-open-row]").first.click()
        approve = one.locator("li.row[data-open]").get_by_role("button", name=re.compile("^Approve"))
        expect(approve).to_be_visible()
        slow = slowness()
        other.evaluate(WATCHES_LEAVING, left)
        one.evaluate(WATCHES_SENDING)
        approve.click()
        took.append((other.evaluate("() => window.left") - one.evaluate("() => window.sent"), slow))
        expect(rows(one)).to_have_count(left)
    said = ", ".join(f"{ms:.0f} ms, {slow:.1f} times slowed" for ms, slow in took)
    print(f"The second tab lost its rows after {said}.")
    assert 0 < statistics.median(ms / slow for ms, slow in took) < 1_000
    expect(rows(other)).to_have_count(1)
    until(lambda: count_of(other) == counted(operator), what="the second tab counts what there is")


def test_while_a_decision_is_in_flight_the_whole_group_is_locked(operator: Person, product: Up) -> None:
    asks(product, "locked", 1)
    page = operator.opens("/needs-you/?board=locked")
    sent: list[str] = []

    def slowly(route: object) -> None:
        sent.append("answer")
        expect(page.locator("fieldset.ask-foot button:enabled")).to_have_count(0)
        route.continue_()  # type: ignore[attr-defined]

    operator.context.route("**/answer", slowly)
    page.get_by_role("button", name=re.compile("^Approve")).dblclick()
    expect(rows(page)).to_have_count(0)
    operator.context.unroute("**/answer")
    assert sent == ["answer"]


def test_going_back_and_deciding_again_gives_a_sentence(operator: Person, product: Up) -> None:
    asks(product, "back", 1)
    page, other = operator.opens("/needs-you/?board=back"), operator.opens("/needs-you/?board=back")
    operator.context.route("**/live/**", lambda route: route.abort())
    page.goto(product.url + "/boards-that-are-not/")
    other.get_by_role("button", name=re.compile("^Approve")).click()
    expect(rows(other)).to_have_count(0)
    page.go_back()
    again = page.get_by_role("button", name=re.compile("^Reject"))
    if again.count() and again.is_visible():
        again.click()
        expect(page.get_by_text(re.compile("approved this at")).first).to_be_visible()
    else:  # the page had been read anew, and says so by itself
        expect(page.get_by_text("Nothing that matches waits.")).to_be_visible()
    operator.context.unroute("**/live/**")
    forgive(operator, "404", "409", "ERR_FAILED", "WebSocket")


def test_an_answer_that_settles_is_taken_back_with_u(operator: Person, product: Up) -> None:
    asks(product, "undo", 1)
    settles(product, 10)
    try:
        page = operator.opens("/needs-you/?board=undo")
        is_live(page)
        page.get_by_role("button", name=re.compile("^Approve")).click()
        expect(rows(page)).to_have_count(0)
        expect(page.locator("#toasts").get_by_role("button", name="Undo")).to_be_visible()
        page.keyboard.press("u")
        expect(rows(page)).to_have_count(1)
        expect(page.get_by_text("is open again").first).to_be_visible()
    finally:
        settles(product, 0)


def test_rows_are_selected_with_x_and_one_answer_goes_to_each(operator: Person, product: Up) -> None:
    asks(product, "many", 3)
    page = operator.opens("/needs-you/?board=many")
    is_live(page)
    go = page.get_by_role("button", name="Act on what is selected…")
    expect(go).to_be_hidden()
    page.keyboard.press("j")
    for _ in range(2):
        page.keyboard.press("j")
        page.keyboard.press("x")
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 320})
    rows(page).last.scroll_into_view_if_needed()
    expect(go).to_be_in_viewport(ratio=1)
    go.click()
    expect(page.get_by_text("2 rows")).to_be_visible()
    expect(page.get_by_text(re.compile(r"^Draft \d of many")).first).to_be_visible()
    page.get_by_label(re.compile("^In words")).fill("All of them")
    page.get_by_role("button", name="Approve (2)").click()
    expect(page.get_by_text("2 done.")).to_be_visible()
    page.get_by_role("link", name="Back to the list").click()
    expect(page).to_have_url(re.compile(r"board=many"))
    expect(rows(page)).to_have_count(1)
