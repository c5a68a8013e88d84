"""Every code of a refused filing or edit, brought about at every door with real rows: the same code and sentence in
process and over HTTP, and the same sentence on the page where a person can meet it (spec: 01 sections 3 and 4).
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client

from boards import actors, errors, tasks
from boards.models import Board, Event, Task
from boards.tasks.filing import filing_of
from tests import cast
from tests.api.cast import EVERYTHING, Desk
from tests.web.desk import fields_of

pytestmark = pytest.mark.django_db

TASKS = "/boards/desk/tasks"


@dataclass(frozen=True)
class Way:
    """The same request at three doors. `http`: method, path, body. `form`: address and fields of a page; None where no
    person can meet it there. `act`: the page answers with a toast, as for a button.
    """

    process: Callable[[], Any]
    http: tuple[str, str, Any] | None
    form: tuple[str, dict[str, Any]] | None = None
    act: bool = False


def files(desk: Desk, form: bool = True, **given: Any) -> Way:
    """A filing, from the long form of a new task."""
    given = {"goal": "New", **given}
    fields = {name: " ".join(value) if isinstance(value, list) else value for name, value in given.items()}
    return Way(
        lambda: tasks.file_task(desk.chain, desk.board, **given),
        ("POST", TASKS, given),
        ("/b/desk/new/", fields) if form else None,
    )


def edits(desk: Desk, task: Task, opened: dict[str, Any] | None = None, **fields: Any) -> Way:
    """An edit; `opened` is what the page of it would send untouched."""
    sent = None if opened is None else (f"/b/desk/t/{task.public_id}/edit/", opened | fields)
    return Way(
        lambda: tasks.update_task(desk.chain, task, **fields), ("PATCH", f"{TASKS}/{task.public_id}", fields), sent
    )


def opens(desk: Desk, task: Task) -> dict[str, Any]:
    """Anna has the task's form before her."""
    page = desk.signed_in().client.get(f"/b/desk/t/{task.public_id}/edit/")
    return fields_of(page.content.decode())


def says(desk: Desk, task: Task) -> Way:
    """A message to the task, from its page."""
    name = task.public_id
    return Way(
        lambda: tasks.update_task(desk.chain, task, message="Shorter."),
        ("PATCH", f"{TASKS}/{name}", {"message": "Shorter."}),
        (f"/b/desk/t/{name}/steer", {"message": "Shorter."}),
        act=True,
    )


def limited(desk: Desk, **limits: int) -> Way:
    Board.objects.filter(pk=desk.board.pk).update(**limits)
    desk.board.refresh_from_db()
    return files(desk)


def no_board(desk: Desk) -> Way:
    """A person finds no page there; a board of another space is none either."""
    theirs = cast.make_board(desk.mallory.space, "theirs")
    return Way(
        lambda: tasks.file_task(desk.chain, theirs, goal="New"), ("POST", "/boards/theirs/tasks", {"goal": "New"})
    )


def no_task(desk: Desk) -> Way:
    elsewhere = cast.filed(desk.attic, desk.chain, id="elsewhere")
    Task.objects.filter(pk=elsewhere.pk).delete()
    return Way(
        lambda: tasks.update_task(desk.chain, elsewhere, priority=1), ("PATCH", f"{TASKS}/elsewhere", {"priority": 1})
    )


def no_root(desk: Desk) -> Way:
    cast.filed(desk.attic, desk.chain, id="elsewhere")
    return files(desk, form=False, follow_up_of="elsewhere")


def id_taken(desk: Desk) -> Way:
    desk.filed(id="one")
    return files(desk, id="one")


def open_twin(desk: Desk) -> Way:
    cast.filed(desk.board, desk.chain, "Same", assignee="reader")
    return files(desk, goal=" same ", assignee="reader")


def ended_dependency(desk: Desk) -> Way:
    tasks.cancel(desk.chain, desk.filed(id="gone"))
    return files(desk, deps=["gone"])


def loop(desk: Desk) -> Way:
    first = desk.filed(id="first")
    desk.filed(goal="Second", id="second", deps=["first"])
    return edits(desk, first, opens(desk, first), deps=["second"])


def loop_in_a_batch(desk: Desk) -> Way:
    given = [{"goal": "A", "id": "a", "deps": ["b"]}, {"goal": "B", "id": "b", "deps": ["a"]}]
    return Way(
        lambda: tasks.file_tasks(desk.chain, desk.board, [filing_of(each) for each in given]),
        ("POST", "/boards/desk/batch", {"tasks": given}),
    )


def cancelled_parent(desk: Desk) -> Way:
    """Only a worker's turn files from a task; an outside one hears first that its claim is lost."""
    parent = desk.filed()
    claimed, worker = cast.claimed(desk.board), cast.agent_chain(desk.board)
    tasks.cancel(desk.chain, parent)
    return Way(
        lambda: tasks.file_task(worker, desk.board, goal="Part", filed_by_task=parent, claim=claimed.ticket), None
    )


def unrun_root(desk: Desk) -> Way:
    root = desk.filed()
    way = files(desk, form=False, goal="More", follow_up_of=root.public_id)
    return Way(way.process, way.http, (f"/b/desk/t/{root.public_id}/follow_up", {"goal": "More"}), act=True)


def follow_up_for_another(desk: Desk) -> Way:
    return files(desk, form=False, goal="More", follow_up_of=desk.stuck().public_id, assignee="reader")


def follow_up_sent_to_another(desk: Desk) -> Way:
    root = desk.stuck()
    more = tasks.file_task(desk.chain, desk.board, goal="More", follow_up_of=root.public_id)
    return edits(desk, more, opens(desk, more), assignee="reader")


def started(desk: Desk) -> Way:
    """It starts between the reading of the form and the write."""
    task = desk.filed()
    opened = opens(desk, task)
    cast.claimed(desk.board)
    return edits(desk, task, opened, title="Too late")


def finished(desk: Desk) -> Way:
    task = desk.filed()
    opened = opens(desk, task)
    tasks.cancel(desk.chain, task)
    return edits(desk, task, opened, title="Too late")


def too_long(desk: Desk) -> Way:
    task = desk.filed()
    return edits(desk, task, opens(desk, task), title="x" * 201)


def much_told(desk: Desk) -> Way:
    task = desk.filed()
    for n in range(50):
        tasks.steer(desk.chain, task, f"Word {n}")
    return says(desk, task)


def waits_for_filed(desk: Desk) -> Way:
    parent = desk.filed()
    claimed, worker = cast.claimed(desk.board), cast.agent_chain(desk.board)
    tasks.file_task(worker, desk.board, goal="Part", assignee="reader", filed_by_task=parent)
    tasks.complete(worker, parent, {"n": 1}, claim=claimed.ticket)
    return says(desk, parent)


def ended_meanwhile(desk: Desk) -> Way:
    """A cancel asks nobody before it writes, so whoever comes second meets the engine's decline."""
    task = desk.filed()
    tasks.cancel(desk.chain, task)
    name = task.public_id
    return Way(
        lambda: declined(tasks.cancel(desk.chain, task), errors.TerminalTaskWriteDeclined),
        ("POST", f"{TASKS}/{name}/cancel", {}),
        (f"/b/desk/t/{name}/cancel", {}),
        act=True,
    )


def still_renewed(desk: Desk) -> Way:
    """Nobody reclaims over HTTP."""
    task = desk.filed()
    cast.claimed(desk.board)
    operator = cast.chain_of(desk.olga)
    return Way(
        lambda: declined(tasks.reclaim(operator, task), errors.TaskWriteDeclined),
        None,
        (f"/b/desk/t/{task.public_id}/reclaim", {"as": "olga"}),
        act=True,
    )


def illegal(desk: Desk) -> Way:
    """A hand-in that nobody has to check any more."""
    task = desk.stuck()
    return Way(
        lambda: tasks.accept(desk.chain, task),
        ("POST", f"{TASKS}/{task.public_id}/accept", {}),
        (f"/b/desk/t/{task.public_id}/accept", {}),
        act=True,
    )


def withdrawn(desk: Desk) -> Way:
    task = desk.filed()
    tasks.withdraw(actors.service("flows", desk.space.pk), task)
    return Way(
        lambda: tasks.release(desk.chain, task),
        ("POST", f"{TASKS}/{task.public_id}/release", {}),
        (f"/b/desk/t/{task.public_id}/release", {}),
        act=True,
    )


def declined(outcome: tasks.TaskWriteOutcome, refusal: type[errors.Refusal]) -> None:
    """What a door makes of a decline."""
    assert not outcome.landed
    raise refusal(outcome.sentence)


# Code, status and a word on the case: how it is brought about.
FILING: dict[tuple[str, int, str], Callable[[Desk], Way]] = {
    ("total_task_cap_exceeded", 409, ""): lambda desk: limited(desk, max_total_tasks=0),
    ("enqueued_task_cap_exceeded", 409, ""): lambda desk: limited(desk, max_enqueued_tasks=0),
    ("no_delegation_board", 404, ""): no_board,
    ("task_not_found", 404, ""): no_task,
    ("task_not_found", 404, "of a root"): no_root,
    ("task_id_taken", 409, ""): id_taken,
    ("unknown_assignee", 409, ""): lambda desk: files(desk, assignee="nobody"),
    ("unknown_assignee", 409, "as checker"): lambda desk: files(desk, checker="nobody"),
    ("already_open", 409, ""): open_twin,
    ("dependency_not_on_board", 409, ""): lambda desk: files(desk, deps=["missing"]),
    ("dependency_ended", 409, ""): ended_dependency,
    ("dependency_loop", 409, ""): loop,
    ("dependency_loop", 409, "in a batch"): loop_in_a_batch,
    ("parent_cancelled", 409, ""): cancelled_parent,
    ("follow_up_of_unrun", 409, ""): unrun_root,
    ("follow_up_takes_no_assignee", 422, ""): follow_up_for_another,
    ("follow_up_takes_no_assignee", 422, "at an edit"): follow_up_sent_to_another,
    ("create_task_does_not_wait", 422, ""): lambda desk: files(desk, form=False, wait=True),
    ("invalid_input", 422, ""): lambda desk: files(desk, goal=" \u200b "),
    ("invalid_input", 422, "too long"): lambda desk: files(desk, title="x" * 201),
    ("invalid_input", 422, "of the system"): lambda desk: files(desk, form=False, metadata={"orchestra:x": 1}),
}
EDITING: dict[tuple[str, int, str], Callable[[Desk], Way]] = {
    ("field_locked_after_start", 409, ""): started,
    ("task_finished", 409, ""): finished,
    ("task_finished", 409, "a message"): lambda desk: says(desk, desk.stuck()),
    ("cancel_takes_no_edits", 422, ""): lambda desk: edits(desk, desk.filed(), status="cancelled", title="T"),
    ("message_takes_no_edits", 422, ""): lambda desk: edits(desk, desk.filed(), message="Go", title="T"),
    ("nothing_to_update", 422, ""): lambda desk: edits(desk, desk.filed()),
    ("steer_limit", 409, ""): much_told,
    ("message_not_supported", 409, ""): waits_for_filed,
    ("invalid_input", 422, ""): too_long,
    ("terminal_task_write_declined", 409, ""): ended_meanwhile,
    ("task_write_declined", 409, ""): still_renewed,
    ("bad_state", 409, ""): illegal,
    ("bad_state", 409, "withdrawn"): withdrawn,
}
CASES = [*((*name, make) for name, make in FILING.items()), *((*name, make) for name, make in EDITING.items())]
WHOLE = {"total_task_cap_exceeded", "enqueued_task_cap_exceeded", "no_delegation_board", "task_not_found"}


def test_no_code_of_the_two_lists_is_left_out() -> None:
    filing = {
        *WHOLE,
        *("task_id_taken", "unknown_assignee", "already_open", "parent_cancelled", "invalid_input"),
        *("dependency_not_on_board", "dependency_ended", "dependency_loop", "create_task_does_not_wait"),
        *("follow_up_of_unrun", "follow_up_takes_no_assignee"),
    }
    editing = {
        *("field_locked_after_start", "task_finished", "cancel_takes_no_edits", "message_takes_no_edits"),
        *("nothing_to_update", "steer_limit", "message_not_supported", "invalid_input", "bad_state"),
        *("terminal_task_write_declined", "task_write_declined"),
    }
    assert {code for code, _, _ in FILING} == filing
    assert {code for code, _, _ in EDITING} == editing


@pytest.mark.parametrize(("code", "status", "how", "make"), CASES, ids=[" ".join(one[:3:2]).strip() for one in CASES])
def test_it_is_the_same_at_every_door_and_writes_nothing(
    desk: Desk, code: str, status: int, how: str, make: Callable[[Desk], Way]
) -> None:
    way = make(desk)
    before = rows()
    with pytest.raises(errors.Refusal) as raised:
        way.process()
    refusal = raised.value
    assert (refusal.code, refusal.http_status) == (code, status)
    assert refusal.sentence[-1] in ".?"
    whole = code in WHOLE and not how
    assert refusal.wire == (code if whole else f"{code}: {refusal.sentence}")
    if way.http is not None:
        for caller in (desk.by_key(*EVERYTHING), desk.signed_in()):
            answer = caller(*way.http)
            assert (answer.code, answer.status, answer.detail) == (code, status, refusal.sentence)
    if way.form is not None:
        assert refusal.sentence in told_by_page(desk, way)
    assert rows() == before


def rows() -> tuple[list[Any], int]:
    return list(Task.objects.order_by("pk").values_list("pk", "revision", "status")), Event.objects.exclude(
        task=None
    ).count()


def told_by_page(desk: Desk, way: Way) -> str:
    """What a person reads: the form again, or the toast of a button."""
    assert way.form is not None
    address, fields = way.form
    client = Client(headers={"hx-request": "true"} if way.act else {})
    client.force_login(desk.olga.user if fields.get("as") else desk.anna.user)
    response = client.post(address, fields)
    if way.act:
        return str(json.loads(response.headers["HX-Trigger"])["toast"]["text"])
    assert response.status_code == 422
    return html.unescape(response.content.decode())
