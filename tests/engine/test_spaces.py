"""Every verb, called by somebody of another space or by a viewer (spec: 06 section 1.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from boards import errors, people, tasks
from boards.actors import Chain
from boards.models import Event, Task
from boards.tasks import HoldFiling
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)

VERBS: dict[str, Callable[[Chain, Task], Any]] = {
    "hold": tasks.hold,
    "release": tasks.release,
    "claim_for_person": tasks.claim_for_person,
    "cancel": tasks.cancel,
    "skip": lambda chain, task: tasks.skip(chain, task, "because"),
    "retry": tasks.retry,
    "retry with dependents": lambda chain, task: tasks.retry(chain, task, with_dependents=True),
    "start_anyway": tasks.start_anyway,
    "reclaim": tasks.reclaim,
    "accept": tasks.accept,
    "send_back": lambda chain, task: tasks.send_back(chain, task, "again"),
    "update_task": lambda chain, task: tasks.update_task(chain, task, title="Mine"),
    "update_task with deps": lambda chain, task: tasks.update_task(chain, task, deps=["nothing"]),
    "update_task with real deps": lambda chain, task: tasks.update_task(chain, task, deps=[task.public_id]),
    "steer": lambda chain, task: tasks.steer(chain, task, "hello"),
    "set_assignee": lambda chain, task: tasks.set_assignee(chain, task, "reader"),
    "set_priority": lambda chain, task: tasks.set_priority(chain, task, 3),
    "add_label": lambda chain, task: tasks.add_label(chain, task, "x"),
    "remove_label": lambda chain, task: tasks.remove_label(chain, task, "x"),
    "patch_metadata": lambda chain, task: tasks.patch_metadata(chain, task, {"a": 1}),
}


@pytest.fixture
def task(board, anna):
    return cast.filed(board, anna, holds=[HoldFiling("confirm", "Sure?")])


@pytest.fixture
def stranger():
    space = cast.make_space("elsewhere")
    member = cast.make_member(space, "sven", "operator")
    cast.make_board(space)
    return cast.chain_of(member)


@pytest.fixture
def viewer(space):
    return cast.chain_of(cast.make_member(space, "vera", "viewer"))


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_stranger_finds_no_task(task, stranger, verb):
    before = (cast.fresh(task).revision, Event.objects.count())
    with pytest.raises(errors.TaskNotFound):
        verb(stranger, task)
    assert (cast.fresh(task).revision, Event.objects.count()) == before


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_viewer_changes_nothing(task, viewer, verb):
    before = (cast.fresh(task).revision, Event.objects.count())
    with pytest.raises(errors.Forbidden):
        verb(viewer, task)
    assert (cast.fresh(task).revision, Event.objects.count()) == before


def test_strangers_and_viewers_file_pause_and_answer_nothing(board, task, stranger, viewer):
    hold = task.holds.get()
    with pytest.raises(errors.BoardNotFound):
        tasks.file_task(stranger, board, goal="x")
    with pytest.raises(errors.BoardNotFound):
        tasks.set_paused(stranger, board, True)
    for verb in (lambda c: people.answer_hold(c, hold.pk, choice="yes"), lambda c: people.dismiss_hold(c, hold.pk)):
        for nobody in (stranger, viewer):
            with pytest.raises(errors.NotFound, match=r"There is no such question here\."):
                verb(nobody)
    with pytest.raises(errors.Forbidden):
        tasks.file_task(viewer, board, goal="x")
    with pytest.raises(errors.Forbidden):
        tasks.set_paused(viewer, board, True)


def test_a_task_of_another_space_is_no_parent(board, task, stranger):
    theirs = board.__class__.objects.get(space=stranger.space_id)
    with pytest.raises(errors.TaskNotFound):
        tasks.file_task(stranger, theirs, goal="x", filed_by_task=task)


def test_the_servers_ticket_of_a_person_is_for_the_space_where_they_work(space, anna):
    board = cast.make_board(space, "hand")
    member = space.members.get(user=anna.user_id) if hasattr(space, "members") else None
    member = member or cast.Member.objects.get(space=space, user=anna.user_id)
    cast.put_on_roster(board, member)
    task = tasks.claim_for_person(anna, cast.filed(board, anna, assignee="anna")).task
    elsewhere = cast.make_space("elsewhere")
    guest = cast.chain_of(cast.Member.objects.create(space=elsewhere, user=member.user, role="operator"))
    assert tasks.person_ticket(anna, task) is not None
    assert tasks.person_ticket(guest, task) is None
    member.role = "viewer"
    assert tasks.person_ticket(cast.chain_of(member), task) is None


def test_a_ticket_writes_under_a_chain_of_its_space_only(board, anna, worker, stranger):
    task = cast.filed(board, anna)
    ticket = cast.claimed(board).ticket
    for write in (
        lambda: tasks.complete(stranger, task, "x", claim=ticket),
        lambda: tasks.fail(stranger, task, "x", claim=ticket),
        lambda: tasks.hand_back(stranger, task, claim=ticket),
        lambda: tasks.report_progress(stranger, task, note="x", claim=ticket),
        lambda: people.open_hold(stranger, claim=ticket, kind="question", prompt="Which?"),
    ):
        with pytest.raises(errors.TaskNotFound):
            write()
    assert not Event.objects.exclude(space=board.space).exists()
    assert cast.fresh(task).status == "in_progress"
