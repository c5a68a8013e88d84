"""The first space: made once, whole or not at all, with rows that could really exist."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from django.conf import LazySettings

from boards import actors, people, tasks
from boards.demo import first_space, release_notes
from boards.models import Attempt, Board, Flow, FlowRun, Member, Role, Space, Task, TaskDep, User
from boards.states import Status
from boards.tasks import Wanted


@pytest.fixture
def repository(settings: LazySettings, tmp_path: Path) -> None:
    """A checkout without history, so that the made-up one is used."""
    settings.BASE_DIR = tmp_path / "checkout"
    settings.BASE_DIR.mkdir()
    settings.DATA_DIR = tmp_path / "data"


@pytest.fixture
def demo(repository: None, transactional_db: None) -> Board:
    assert first_space.make_if_empty(demo=True, say=print) is True
    return Board.objects.get(slug="release-desk")


def test_the_operator_has_no_password_and_every_right(demo: Board) -> None:
    operator = first_space.first_operator()
    assert operator is not None
    assert operator.username == "operator"
    assert not operator.has_usable_password()
    assert operator.is_staff
    assert operator.is_superuser
    assert Member.objects.get(user=operator).role == Role.OPERATOR


def test_the_demo_board_shows_each_status_but_working_before_any_drain_runs(demo: Board) -> None:
    shown = set(Task.objects.filter(board=demo).values_list("status", flat=True))
    assert shown == set(Status) - {Status.IN_PROGRESS}
    stuck = Task.objects.get(board=demo, status=Status.ERRORED)
    assert stuck.error.endswith("Upload the build, then retry this task.")
    assert (
        tasks.get_task(actors.service("demo", demo.space_id), demo, "macos-note").status == Status.CANCELLED
    )  # because of the stuck one


def test_its_counters_equal_a_recount(demo: Board) -> None:
    for task in Task.objects.filter(board=demo):
        edges = TaskDep.objects.filter(dependent=task)
        assert task.unmet_deps == edges.exclude(dependency__status=Status.COMPLETED).count()
        assert task.open_holds == task.holds.filter(state="open").count()
        assert task.attempts == Attempt.objects.filter(task=task).count()
        assert not Attempt.objects.filter(task=task, ended_at=None).exists()


def test_two_agents_find_work_and_people_too(demo: Board) -> None:
    claimed = tasks.claim([Wanted(demo.pk, {"reader": 2, "writer": 1})], limit=3, claimed_by={"host": "here"})
    assert {one.task.assignee for one in claimed} == {"reader", "writer"}
    assert Task.objects.filter(board=demo, status=Status.PENDING, assignee="operator").count() == 2


def test_release_notes_are_under_way_on_a_repository_with_history(demo: Board) -> None:
    run = FlowRun.objects.get()
    log = subprocess.run(
        ["git", "-C", run.inputs["repo"], "log", "--format=%an %s"], capture_output=True, text=True, check=True
    )
    assert len(log.stdout.splitlines()) == 13
    assert run.status == "active"
    assert Flow.objects.get().key == "release-notes"


def test_what_names_nobody_is_the_writers_and_a_killed_drain_is_soon_noticed(demo: Board) -> None:
    assert demo.default_worker == "writer"
    assert set(Board.objects.values_list("lease_ms", flat=True)) == {30_000}


def test_its_agents_have_work_for_about_five_minutes_and_no_more(demo: Board) -> None:
    spans: dict[str, float] = {}
    for task in Task.objects.filter(board=demo, status=Status.PENDING).exclude(input={}):
        parts = len(task.input.get("pages") or task.input["sections"])
        spans[task.assignee] = spans.get(task.assignee, 0) + parts * task.input.get("pace_s", 2)
    assert 240 <= spans["reader"] / 2 <= 360, "two of its tasks run at once"
    assert 240 <= spans["writer"] <= 360


def test_a_second_start_makes_nothing(demo: Board) -> None:
    before = Task.objects.count()
    assert first_space.make_if_empty(demo=True, say=print) is False
    assert Task.objects.count() == before


def test_a_start_that_fails_on_the_way_leaves_nothing(
    repository: None, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(release_notes, "start", fails)
    with pytest.raises(KeyboardInterrupt):
        first_space.make_if_empty(demo=True, say=print)
    assert not Space.objects.exists()
    assert not User.objects.exists()
    monkeypatch.undo()
    assert first_space.make_if_empty(demo=True, say=print) is True


def test_without_the_demo_there_is_one_empty_board(db: None) -> None:
    assert first_space.make_if_empty(demo=False, say=print) is True
    board = Board.objects.get()
    assert (board.slug, list(board.roster.values_list("name", flat=True))) == ("work", ["operator"])
    assert not Task.objects.exists()


def test_a_checkout_with_history_is_preferred(settings: LazySettings, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    made = release_notes.repository_of_ours()
    assert made is not None
    settings.BASE_DIR = made
    assert release_notes.inputs() == {"repo": str(made)}


def test_without_git_there_is_a_demo_without_a_run(
    repository: None, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_notes.shutil, "which", lambda _program: None)
    assert first_space.make_if_empty(demo=True, say=print) is True
    assert Board.objects.filter(slug="release-desk").exists()
    assert not FlowRun.objects.exists()


def test_the_confirm_on_the_beta_builds_is_what_keeps_them(demo: Board) -> None:
    task = tasks.get_task(actors.service("demo", demo.space_id), demo, "remove-beta-builds")
    hold = task.holds.get()
    member = Member.objects.select_related("user", "space").get(user__username="operator")
    people.answer_hold(actors.person(member), hold.pk, choice="yes")
    assert tasks.get_task(actors.service("demo", demo.space_id), demo, "remove-beta-builds").open_holds == 0
