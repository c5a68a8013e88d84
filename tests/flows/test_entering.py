"""What runs when a run enters a step, and what the step's work is told (spec: 05 sections 1 and 2.1)."""

from __future__ import annotations

import pytest

from boards import errors, flows, people
from boards.flows import data, library
from boards.models import FlowVersion
from tests import cast
from tests.flows.cast import REVIEWED, Stage, fresh, open_hold, place, step_task

pytestmark = pytest.mark.django_db


def test_the_flows_prompt_stands_before_every_steps_prompt(stage: Stage) -> None:
    run = stage.started(
        """
        key: told
        name: Told
        prompt: You work for {{ run.started_by }}.
        agent: writer
        steps:
          - {key: write, name: Write, kind: agent, prompt: Write.}
          - {key: done, name: Done}
        """
    )
    task = step_task(run)
    assert (task.goal, task.assignee) == ("You work for Anna.\n\nWrite.", "writer")


def test_a_column_files_a_task_when_its_events_say_so(stage: Stage) -> None:
    run = stage.started(
        """
        key: column
        name: Column
        style: board
        steps:
          - key: doing
            name: Doing
            assignee: writer
            prompt: Write.
            events: {on_enter: [auto_start], on_turn_complete: [move_to_next]}
          - {key: review, name: Review}
          - {key: done, name: Done}
        """
    )
    stage.complete()
    assert place(run) == "review active"


def approval(assignee: str) -> str:
    return f"""
    key: asks
    name: Asks
    steps:
      - {{key: ask, name: Ask, kind: approval, assignee: {assignee}, prompt: "Is “{{{{ run.name }}}}” right?"}}
      - {{key: done, name: Done}}
    """


def test_an_approval_for_a_role_is_answered_by_that_role_only(stage: Stage) -> None:
    run = stage.started(approval("operator"))
    assert open_hold(run).prompt == "Is “Asks 1” right?"
    with pytest.raises(errors.NotFound):
        stage.answer(run, "approve")
    stage.answer(run, "approve", chain=stage.olga)
    assert place(run) == "done completed"


def test_an_approval_for_one_person_is_answered_by_that_person_only(stage: Stage) -> None:
    cast.put_on_roster(stage.board, stage.member)
    run = stage.started(approval("anna"))
    with pytest.raises(errors.NotFound):
        stage.answer(run, "approve", chain=stage.olga)
    stage.answer(run, "approve")
    assert place(run) == "done completed"


def test_an_approval_for_nobody_that_is_known_fails_its_step(stage: Stage) -> None:
    run = stage.started(approval("writer"))
    assert place(run) == "ask failed"
    assert "“writer”, who is to answer the step Ask, is no person on this board's roster." in fresh(run).error


def test_an_answer_is_bound_to_the_draft_that_was_shown(stage: Stage) -> None:
    run = stage.started()
    stage.complete("writer", {"text": "Words"})
    with pytest.raises(errors.DraftChanged):
        people.answer_hold(stage.anna, open_hold(run).pk, choice="approve", shown_hash="of something else")


def test_what_is_too_large_for_a_tasks_input_is_left_out_oldest_first(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stage.started()
    stage.complete("writer", {"text": "x" * 5000})
    monkeypatch.setattr(data, "MAX_INPUT_BYTES", 4000)
    stage.answer(run, "approve")
    steps = step_task(run).input["steps"]
    assert steps["write"]["output"] is None
    assert steps["write"]["note"].startswith("Left out")


def test_only_operators_save_flows_and_a_change_makes_a_version(stage: Stage) -> None:
    definition = flows.validate(REVIEWED)
    with pytest.raises(errors.Forbidden):
        flows.save_version(stage.anna, stage.space, stage.board, definition)
    first = stage.flow()
    assert stage.flow().pk == first.pk
    assert FlowVersion.objects.filter(flow=first).count() == 1, "saved unchanged, it stays one version"
    stage.flow(REVIEWED.replace("Is it right?", "Is it?"))
    assert [v.number for v in FlowVersion.objects.filter(flow=first)] == [1, 2]


def test_a_stored_version_reads_back_as_it_was_judged(stage: Stage) -> None:
    flow = stage.flow()
    stored = flows.load(FlowVersion.objects.get(flow=flow))
    assert stored.wire() == flows.validate(REVIEWED).wire()


def test_a_template_that_there_is_not_is_named(stage: Stage) -> None:
    with pytest.raises(errors.NotFound, match="release-notes"):
        library.install(stage.space, "nothing")
