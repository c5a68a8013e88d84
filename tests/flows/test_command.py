"""`manage.py flow`: start, follow, validate, list, show."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

from boards import flows
from boards.flows import library
from boards.flows.validation import validate
from boards.management.commands import flow as command
from boards.models import FlowRun
from tests.flows.cast import REVIEWED, Stage, settle
from tests.flows.repository import small_repository
from tests.flows.tiny_drain import work

pytestmark = pytest.mark.django_db


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("flow", *words, stdout=out)
    return out.getvalue()


def followed(monkeypatch: pytest.MonkeyPatch, stage: Stage, *words: str) -> tuple[str, int]:
    """Start and follow a run, with the tiny drain at work whenever the command looks away."""

    def meanwhile(seconds: float) -> None:
        settle()
        for flow in stage.space.flows.all():
            work(flow.board)

    monkeypatch.setattr(command.time, "sleep", meanwhile)
    out = io.StringIO()
    with pytest.raises(SystemExit) as left:
        call_command("flow", "start", *words, "--follow", stdout=out)
    assert isinstance(left.value.code, int)
    return out.getvalue(), left.value.code


def test_start_says_where_the_run_is(stage: Stage) -> None:
    stage.flow()
    told = run("start", "reviewed", "--input", "topic=tides", "--name", "About tides")
    assert told == "About tides started as run 1 of Reviewed: on the pages at /f/reviewed/r/1/\n"
    made = FlowRun.objects.get()
    assert (made.inputs, made.started_by_name) == ({"topic": "tides"}, "Olga")


def test_start_may_begin_in_another_step(stage: Stage) -> None:
    stage.flow()
    run("start", "reviewed", "--step", "read", "--priority", "5")
    made = FlowRun.objects.get()
    assert (made.step_key, made.priority) == ("read", 5)
    with pytest.raises(CommandError, match="over at once"):
        run("start", "reviewed", "--step", "done")


def test_with_site_url_the_address_can_be_opened(stage: Stage, settings: Any) -> None:
    settings.SITE_URL = "https://board.example.org/"
    stage.flow()
    assert run("start", "reviewed").endswith(" of Reviewed: https://board.example.org/f/reviewed/r/1/\n")


def test_an_installed_template_is_named_once(stage: Stage) -> None:
    flows.install(stage.space, "release-notes")
    with pytest.raises(CommandError) as refused:
        run("start", "nosuch")
    assert str(refused.value).count("release-notes") == 1


def test_a_flow_that_is_there_is_never_changed_by_an_upgrade_of_its_template(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(library, "TEMPLATES", tmp_path)
    (tmp_path / "reviewed.yaml").write_text(REVIEWED)
    run("start", "reviewed")
    before = run("show", "reviewed")
    (tmp_path / "reviewed.yaml").write_text(REVIEWED.replace("name: Approve", "name: Look"))
    run("start", "reviewed")
    assert run("show", "reviewed") == before
    assert list(FlowRun.objects.order_by("pk").values_list("version__number", flat=True)) == [1, 1]


def test_start_acts_as_the_member_that_is_named(stage: Stage) -> None:
    stage.flow()
    run("start", "reviewed", "--as", "anna")
    assert FlowRun.objects.get().started_by_name == "Anna"
    with pytest.raises(CommandError, match='Nobody called "bob"'):
        run("start", "reviewed", "--as", "bob")


def test_a_followed_run_stops_where_a_person_is_asked(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any
) -> None:
    settings.DATA_DIR = tmp_path
    repository = small_repository(tmp_path / "checkout")
    monkeypatch.chdir(repository.folder)
    told, code = followed(monkeypatch, stage, "release-notes", "--input", "repo=.", "--input", "title=Notes")
    assert code == 3
    lines = told.splitlines()
    assert lines[0] == "Release notes 1 started as run 1 of Release notes: on the pages at /f/release-notes/r/1/"
    assert "Collect: entered" in lines
    assert "Collect: done" in lines
    assert lines[-2].startswith("Approve: waits on a person. May these release notes be published?")
    assert lines[-1] == "Answer it in Needs you or in the run: on the pages at /f/release-notes/r/1/"
    assert FlowRun.objects.get().inputs["repo"] == str(repository.folder), "a folder is meant from where the shell is"


def test_a_followed_run_that_fails_says_why(stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told, code = followed(monkeypatch, stage, "release-notes", "--input", f"repo={tmp_path}")
    assert code == 1
    assert f"There is no git repository at {tmp_path}. Give the path of a checkout." in told
    assert "Start it again with other inputs" in told


def test_a_followed_run_that_ends_leaves_with_zero(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.flow("{key: short, name: Short, steps: [{key: done, name: Done}]}")
    told, code = followed(monkeypatch, stage, "short")
    assert code == 0
    assert told.splitlines()[-1] == "Short 1 is completed: on the pages at /f/short/r/1/"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("start", "nothing"), 'There is no flow "nothing" in Halyard. There is kanban, plan-and-build, pr-review, '),
        (("start", "reviewed", "--input", "topic"), '"topic" is no input. Write it as NAME=VALUE.'),
        (("start", "reviewed", "--input", "topics=x"), 'There is no input "topics"'),
        (("start", "release-notes"), "Repository is needed."),
        (("start", "reviewed", "--space", "moon"), "Name the space with --space. There is halyard."),
        (("show", "nothing"), "There is no flow"),
        (("validate", "/no/such/file"), "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(stage: Stage, words: tuple[str, ...], sentence: str) -> None:
    stage.flow()
    with pytest.raises(CommandError) as refused:
        run(*words)
    assert sentence in str(refused.value)
    assert not FlowRun.objects.exists()


def test_without_a_space_it_says_what_to_do() -> None:
    with pytest.raises(CommandError, match="There is no space yet"):
        run("list")


def test_validate_names_every_problem(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(REVIEWED)
    bad.write_text(REVIEWED.replace("kind: approval", "kind: robot"))
    assert run("validate", str(good)).splitlines()[0] == "reviewed: valid, 4 steps"
    with pytest.raises(CommandError, match=r'line 8, steps\[1\]\.kind: Unknown kind "robot"'):
        run("validate", str(bad))


def test_list_and_show(stage: Stage) -> None:
    made = stage.flow()
    flows.start(stage.anna, made, {})
    assert run("list").splitlines()[0] == "reviewed  Reviewed, version 1, 1 run"
    shown = run("show", "reviewed")
    assert yaml.safe_load(shown)["type"] == "orchestra_flow"
    assert validate(shown).wire() == validate(REVIEWED).wire(), "what is shown can be saved again"


def test_export_writes_what_import_reads(stage: Stage, tmp_path: Path) -> None:
    stage.flow()
    flows.install(stage.space, "kanban")
    file = tmp_path / "flows.yaml"
    assert run("export", "--output", str(file)) == f"2 flows written to {file}\n"
    text = file.read_text()
    assert text == run("export")
    assert run("import", str(file)) == (
        'skipped Kanban: a flow with the key "kanban" is here already.\n'
        'skipped Reviewed: a flow with the key "reviewed" is here already.\n'
    )
    stage.space.flows.all().delete()
    told = run("import", str(file), "--board", stage.board.slug)
    assert told.splitlines() == [
        f"kanban: saved as version 1, on the board {stage.board.name}",
        f"reviewed: saved as version 1, on the board {stage.board.name}",
        f'note: Kanban: nobody called "builder" is on the roster of the board {stage.board.name} yet, so their steps '
        "would fail. An operator adds them on the board's page in the admin.",
    ]
    assert run("export") == text
    assert run("export", "reviewed", "--format", "json").startswith('{\n  "version": 1,\n  "type": "orchestra_flow"')


def test_import_says_who_may_not(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(REVIEWED)
    with pytest.raises(CommandError):
        run("import", str(file), "--as", "anna")
    assert not stage.space.flows.exists()
    with pytest.raises(CommandError, match='There is no board "moon"'):
        run("import", str(file), "--board", "moon")
    with pytest.raises(CommandError, match=r'There is no flow "moon" in Halyard\. There is none\.'):
        run("export", "moon")


def test_validate_with_a_space_knows_its_flows(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "calls.yaml"
    file.write_text("{key: a, name: A, steps: [{key: c, name: C, kind: call, flow: reviewed}, {key: d, name: Done}]}")
    assert "a: valid" in run("validate", str(file))
    with pytest.raises(CommandError, match='There is no flow with the key "reviewed" in this space'):
        run("validate", str(file), "--space", "halyard")
    stage.flow()
    assert "a: valid" in run("validate", str(file), "--space", "halyard")
