"""What waits in the browser tests of Needs you: questions and results, made with the verbs inside the product."""

from __future__ import annotations

import os
import subprocess
import sys

from playwright.sync_api import Locator, Page, expect

from tests.commands.running import ENV, PATIENCE_S, ROOT, Up
from tests.e2e.conftest import Person


def asks(product: Up, slug: str, count: int, kind: str = "approval") -> None:
    """A board of its own whose worker asks so many questions, each on a task of its own."""
    run(
        product,
        f"""
{_BOARD.format(slug=slug)}
for number in range({count}):
    tasks.file_task(chain, board, Filing(f"{slug} task {{number}}", assignee="hand"))
    got = claim([Wanted(board.pk, {{"hand": 1}})], limit=1, lease_ms=3_600_000, claimed_by=here)[0]
    people.open_hold(agent, claim=got.ticket, kind="{kind}",
                     prompt=f"{slug} question {{number}}?", draft=f"Draft {{number}} of {slug}")
    people.suspend(got.ticket)
""",
    )


def checks(product: Up, slug: str, count: int, *, lines: int = 3, first: int = 0) -> None:
    """A board of its own with so many results of so many lines to check; two members may do it: operator and bert."""
    run(
        product,
        f"""
{_BOARD.format(slug=slug)}
from boards.models import User
bert, _ = User.objects.get_or_create(username="bert", defaults={{"first_name": "Bert"}})
Member.objects.get_or_create(space=member.space, user=bert, defaults={{"role": "member"}})
for number in range({first}, {first + count}):
    tasks.file_task(chain, board, Filing(f"{slug} task {{number}}", assignee="hand", checker="person"))
    hand_in(f"Result {{number}} of {slug}\\n" + "\\n".join(f"line {{n}}" for n in range({lines})))
""",
    )


def bert_checks(product: Up, slug: str, verb: str, words: str = "") -> None:
    """Another member decides on the first result of the board."""
    said = f', "{words}"' if words else ""
    run(
        product,
        f"""
from boards import actors, tasks
from boards.models import Board, Member, Task
board = Board.objects.get(slug="{slug}")
chain = actors.person(Member.objects.select_related("user", "space").get(user__username="bert"))
tasks.{verb}(chain, Task.objects.filter(board=board, status="needs_check").order_by("pk").first(){said})
""",
    )


def hands_in_again(product: Up, slug: str, text: str) -> None:
    run(product, f'{_BOARD.format(slug=slug)}\nhand_in("{text}")')


def works(product: Up, slug: str) -> None:
    """A board of its own whose worker has started one task."""
    run(
        product,
        f"""
{_BOARD.format(slug=slug)}
tasks.file_task(chain, board, Filing("{slug} task", assignee="hand"))
claim([Wanted(board.pk, {{"hand": 1}})], limit=1, lease_ms=3_600_000, claimed_by=here)
""",
    )


def reports(product: Up, slug: str, numbers: range) -> None:
    """The worker of the board's task reports: "read 0", "read 1" and so on."""
    run(
        product,
        f"""
{_BOARD.format(slug=slug)}
from boards.models import Attempt, Task
from boards.tasks import Ticket
task = Task.objects.get(board=board)
attempt = Attempt.objects.get(task=task, ended_at=None)
facts = board.pk, "", task.pk, attempt.pk, task.public_id, task.attempts, task.grant_no
ticket = Ticket(*facts, task.created_at, task.incarnation_id)
for number in {list(numbers)}:
    assert tasks.report_progress(agent, task, claim=ticket, note=f"read {{number}}").landed
""",
    )


_BOARD = """
from boards import actors, people, tasks
from boards.models import Board, Member, RosterEntry
from boards.tasks import Filing, Wanted, claim
member = Member.objects.select_related("user", "space").get(user__username="operator")
chain, agent = actors.person(member), actors.agent("hand", member.space_id)
here = {{"drain": "11111111-1111-1111-1111-111111111111", "host": "here"}}
board, made = Board.objects.get_or_create(space=member.space, slug="{slug}", defaults={{"name": "{slug}".title()}})
if made:
    RosterEntry.objects.create(board=board, name="hand", kind="pull")
def hand_in(output):
    got = claim([Wanted(board.pk, {{"hand": 1}})], limit=1, lease_ms=3_600_000, claimed_by=here)[0]
    tasks.complete(agent, got.task, output, claim=got.ticket)
"""


def run(product: Up, code: str) -> None:
    call = [sys.executable, str(ROOT / "manage.py"), "shell", "-v", "0", "-c", code]
    environment = ENV | {"DATA_DIR": str(product.data), "PATH": os.environ["PATH"]}
    subprocess.run(call, env=environment, check=True, timeout=PATIENCE_S, capture_output=True)


def rows(page: Page) -> Locator:
    return page.locator("#needs-list li.row")


def is_live(page: Page) -> None:
    expect(page.locator("#live-light")).to_have_text("Live")


def forgive(person: Person, *expected: str) -> None:
    """Drop the complaints that a browser makes of answers that a test provoked."""
    person.complaints[:] = [said for said in person.complaints if not any(words in said for words in expected)]
