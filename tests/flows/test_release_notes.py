"""The flow `release-notes` on a real repository, from the path of a checkout to the published file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from boards import flows
from boards.flows import library
from boards.models import Flow, FlowRun, FlowVersion, RosterEntry
from tests.flows.cast import Stage, fresh, open_hold, place, step_task
from tests.flows.repository import Repository, small_repository
from tests.flows.tiny_drain import work

pytestmark = pytest.mark.django_db


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return small_repository(tmp_path / "checkout")


@pytest.fixture
def flow(stage: Stage, tmp_path: Path, settings: Any) -> Flow:
    settings.DATA_DIR = tmp_path / "data"
    return library.install(stage.space, "release-notes")


def started(stage: Stage, flow: Flow, **inputs: Any) -> FlowRun:
    run = flows.start(stage.anna, flow, inputs)
    work(flow.board)
    return fresh(run)


def test_from_the_repository_to_the_file(stage: Stage, flow: Flow, repository: Repository, tmp_path: Path) -> None:
    run = started(stage, flow, repo=str(repository.folder), title="Halyard 2.0")
    assert place(run) == "approve active"
    draft = open_hold(run).draft
    assert draft.startswith("# Halyard 2.0\n")
    assert "6 commits from `v1.0` to `HEAD`" in draft
    assert "## Breaking changes\n\n- Rename the board's key" in draft
    assert "- **board:** Show the age of a lane" in draft
    assert "## Fixes\n\n- Fix the order of two answers at once" in draft
    assert draft.endswith("## Contributors\n\nAda Lovelace.\n")
    stage.answer(run, "approve")
    assert work(flow.board) == ["publisher"]
    assert place(run) == "done completed"
    published = run.visits.get(step_key="publish").output
    assert published == {"file": "halyard/release-notes/1/halyard-2-0.md", "bytes": len(draft.encode())}
    assert (tmp_path / "data" / "published" / published["file"]).read_text() == draft


def test_words_of_a_rejection_reach_the_next_draft_and_earlier_ones_are_kept(
    stage: Stage, flow: Flow, repository: Repository
) -> None:
    run = started(stage, flow, repo=str(repository.folder))
    assert "## Other" in open_hold(run).draft
    stage.answer(run, "reject", "No chores. Thank the testers by name.")
    assert "Anna sent the last draft back: No chores." in step_task(run).goal
    assert work(flow.board) == ["writer"]
    second = open_hold(run).draft
    assert "Bump the linter" not in second
    assert "> **Editor's note.** Thank the testers by name." in second
    stage.answer(run, "reject", "Without hashes, please")
    work(flow.board)
    third = open_hold(run).draft
    assert "Bump the linter" not in third, "what was asked before still counts"
    assert "(`" not in third
    stage.answer(run, "approve")
    work(flow.board)
    assert place(run) == "done completed"


BAD: list[tuple[dict[str, str], str]] = [
    ({"repo": "/no/such/folder"}, "There is no git repository at /no/such/folder. Give the path of a checkout."),
    ({"repo": "{tmp}"}, "There is no git repository at {tmp}. Give the path of a checkout."),
    ({"repo": "checkout"}, "checkout is not a full path. Give the path of a checkout from / or ~ on."),
    ({"repo": "{repo}", "from": "v9"}, 'The ref "v9" does not exist in {repo}. Name a tag, a branch or a commit.'),
    ({"repo": "{repo}", "from": "--output=/tmp/x"}, 'The ref "--output=/tmp/x" does not exist in {repo}.'),
    ({"repo": "{repo}", "from": "v1.0", "to": "v1.0"}, "There are no commits between v1.0 and v1.0."),
]


@pytest.mark.parametrize(("inputs", "sentence"), BAD)
def test_bad_input_fails_its_step_in_words(
    stage: Stage, flow: Flow, repository: Repository, tmp_path: Path, inputs: dict[str, str], sentence: str
) -> None:
    def told(text: str) -> str:
        return text.replace("{tmp}", str(tmp_path)).replace("{repo}", str(repository.folder))

    run = started(stage, flow, **{name: told(value) for name, value in inputs.items()})
    assert place(run) == "collect failed"
    assert told(sentence) in run.error


def test_a_run_with_bad_input_can_be_started_again_with_other_input(
    stage: Stage, flow: Flow, repository: Repository
) -> None:
    run = started(stage, flow, repo="/no/such/folder")
    again = flows.start_again(stage.anna, run, {"repo": str(repository.folder)})
    work(flow.board)
    assert place(again) == "approve active"


def test_nothing_is_published_without_a_yes(stage: Stage, flow: Flow, repository: Repository, tmp_path: Path) -> None:
    run = started(stage, flow, repo=str(repository.folder))
    flows.move(stage.olga, run, "publish")
    work(flow.board)
    assert place(run) == "publish failed"
    assert fresh(run).error.startswith("The draft was not approved")
    assert not (tmp_path / "data" / "published").exists()


def test_what_is_published_is_the_text_that_was_approved(
    stage: Stage, flow: Flow, repository: Repository, tmp_path: Path
) -> None:
    run = started(stage, flow, repo=str(repository.folder), title="Notes")
    approved = stage.answer(run, "approve").draft
    flows.move(stage.olga, run, "draft")
    work(flow.board)
    flows.move(stage.olga, run, "publish")
    work(flow.board)
    assert place(run) == "done completed"
    assert (tmp_path / "data/published/halyard/release-notes/1/notes.md").read_text() == approved


def test_installing_again_changes_nothing(stage: Stage, flow: Flow) -> None:
    RosterEntry.objects.filter(board=flow.board, name="writer").update(config={"worker": "ours.draft"})
    again = library.install(stage.space, "release-notes")
    assert (again.pk, again.board_id) == (flow.pk, flow.board_id)
    assert FlowVersion.objects.filter(flow=flow).count() == 1
    assert flow.board.roster.get(name="writer").config == {"worker": "ours.draft"}, "an operator's change stays"


def test_an_upgrade_of_the_template_changes_no_flow_that_is_there(stage: Stage, flow: Flow) -> None:
    version = FlowVersion.objects.get(flow=flow)
    version.steps.filter(key="draft").update(name="Write")
    library.install(stage.space, "release-notes")
    assert [v.number for v in FlowVersion.objects.filter(flow=flow)] == [1]
    assert version.steps.get(key="draft").name == "Write"
