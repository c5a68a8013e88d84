"""A run from its start to its end: steps in order, approvals, send backs, failures (spec: 05 section 2)."""

from __future__ import annotations

import pytest

from boards import errors, flows
from boards.models import Event, FlowRun, Hold, Session, Task
from boards.states import Phase, RunStatus
from tests.flows.cast import Stage, fresh, history, open_hold, place, settle, step_task

pytestmark = pytest.mark.django_db


def test_a_run_goes_through_its_steps_and_ends(stage: Stage) -> None:
    run = stage.started(topic="tides")
    assert place(run) == "write active"
    stage.complete("writer", {"text": "All about tides"})
    assert place(run) == "approve active"
    assert open_hold(run).draft == "All about tides"
    stage.answer(run, "approve", "Good.")
    assert place(run) == "read active"
    stage.complete("reader", {"read": True})
    assert place(run) == "done completed"
    assert history(run) == [
        " > write (start, Anna)",
        "write > approve (on_turn_complete, writer)",
        "approve > read (approval, Anna)",
        "read > done (on_turn_complete, reader)",
    ]
    kinds = list(Event.objects.filter(run=run, kind__startswith="run.").values_list("kind", flat=True))
    assert kinds == ["run.started", "run.completed"]


def test_a_steps_task_is_filed_for_the_starter_in_the_runs_session(stage: Stage) -> None:
    run = stage.started(topic="tides")
    task = step_task(run)
    assert (task.goal, task.title, task.assignee) == ("Write about tides.", "Write: Reviewed 1", "writer")
    assert task.filer_id == run.session_id
    assert task.filed_by == "Anna"
    assert task.input == {
        "inputs": {"topic": "tides"},
        "steps": {},
        "run": {"name": "Reviewed 1", "number": 1, "flow": "reviewed", "space": "halyard", "started_by": "Anna"},
    }
    assert Session.objects.get(pk=run.session_id).parent_id == stage.anna.session_id
    chain = Event.objects.get(task=task, kind="task.filed").chain
    assert [hop["id"] for hop in chain] == [str(stage.member.user_id), "flows"]


def test_a_later_step_is_told_what_the_earlier_ones_gave(stage: Stage) -> None:
    run = stage.started()
    stage.complete("writer", {"text": "Words"})
    stage.answer(run, "approve")
    steps = step_task(run).input["steps"]
    assert steps["write"] == {"output": {"text": "Words"}}
    answer = {"approved": True, "choice": "approve", "note": "", "by": "Anna", "draft": "Words"}
    assert steps["approve"]["output"] == answer


def test_an_approval_step_files_no_task(stage: Stage) -> None:
    run = stage.started()
    stage.complete()
    assert Task.objects.filter(visit__run=run).count() == 1
    visit = fresh(run).current_visit
    assert visit is not None
    assert (visit.phase, visit.task_id) == (Phase.WAITING, None)


def test_a_rejection_goes_back_and_its_words_reach_the_next_turn(stage: Stage) -> None:
    run = stage.started()
    stage.complete("writer", {"text": "Long"})
    stage.answer(run, "reject", "Shorter, please.")
    assert place(run) == "write active"
    assert step_task(run).input["steps"]["approve"]["output"]["note"] == "Shorter, please."
    stage.complete("writer", {"text": "Short"})
    assert open_hold(run).draft == "Short"
    stage.answer(run, "reject", "Still too long.")
    told = step_task(run).input["steps"]["approve"]
    assert told["output"]["note"] == "Still too long."
    assert [each["note"] for each in told["earlier"]] == ["Shorter, please."]
    assert Task.objects.filter(visit__run=run).count() == 3, "each visit files a task of its own"


WITHOUT_A_WAY_BACK = """
key: strict
name: Strict
steps:
  - {key: approve, name: Approve, kind: approval, timeout_ms: 60000}
  - {key: done, name: Done}
"""


def test_a_rejection_that_no_transition_answers_fails_the_run_in_words(stage: Stage) -> None:
    run = stage.started(WITHOUT_A_WAY_BACK)
    stage.answer(run, "reject", "Not like this.")
    assert place(run) == "approve failed"
    assert fresh(run).error == "Anna rejected it: Not like this."


def test_a_hold_past_its_due_time_reads_as_a_no(stage: Stage) -> None:
    from boards import people

    run = stage.started(WITHOUT_A_WAY_BACK)
    hold = open_hold(run)
    assert hold.due_at is not None
    visit = fresh(run).current_visit
    assert visit is not None
    assert visit.due_at == hold.due_at
    Hold.objects.filter(pk=hold.pk).update(due_at=hold.asked_at)
    people.expire_due()
    settle()
    assert place(run) == "approve failed"
    assert "due time" in fresh(run).error


def test_a_failed_task_fails_the_run_with_its_sentence(stage: Stage) -> None:
    run = stage.started()
    stage.fail("There is no ink.")
    run = fresh(run)
    assert (run.status, run.error) == (RunStatus.FAILED, "There is no ink.")
    assert run.completed_at is not None
    visit = run.current_visit
    assert visit is not None
    assert (visit.phase, visit.left_at) == (Phase.FAILURE, None)


def test_a_failure_with_tries_left_is_not_the_steps_failure(stage: Stage) -> None:
    run = stage.started(
        """
        key: tries
        name: Tries
        steps:
          - {key: write, name: Write, kind: agent, assignee: writer, prompt: Write., max_attempts: 2}
          - {key: done, name: Done}
        """
    )
    stage.fail("There is no ink.")
    assert place(run) == "write active"
    stage.fail("There is no paper.")
    assert place(run) == "write failed"


def test_the_task_of_a_failed_run_retried_on_its_own_page_makes_the_run_go_on(stage: Stage) -> None:
    from boards import tasks

    run = stage.started()
    stage.fail("There is no ink.")
    tasks.retry(stage.anna, step_task(run))
    stage.complete()
    run = fresh(run)
    assert place(run) == "approve active"
    assert (run.error, run.completed_at) == ("", None)


def test_a_step_that_cannot_file_its_task_fails_with_the_sentence(stage: Stage) -> None:
    run = stage.started(
        """
        key: nobody
        name: Nobody
        steps:
          - {key: write, name: Write, kind: agent, assignee: ghost, prompt: Write.}
          - {key: done, name: Done}
        """
    )
    assert place(run) == "write failed"
    assert "“ghost” is not on the roster" in fresh(run).error


BROKEN_PROMPT = """
key: broken
name: Broken
steps:
  - {key: write, name: Write, kind: agent, assignee: writer, prompt: Write.}
  - {key: read, name: Read, kind: agent, assignee: reader, prompt: "{{ steps.write.output.missing.more }}"}
  - {key: done, name: Done}
"""


def test_a_prompt_that_cannot_be_worked_out_fails_its_step_and_is_never_raised(stage: Stage) -> None:
    run = stage.started(BROKEN_PROMPT)
    stage.complete("writer", {"text": "Words"})
    assert place(run) == "read failed"
    assert "could not be worked out" in fresh(run).error


def test_a_condition_that_cannot_be_worked_out_fails_the_step_that_ended(stage: Stage) -> None:
    run = stage.started(
        """
        key: odd
        name: Odd
        steps:
          - key: write
            name: Write
            kind: agent
            assignee: writer
            prompt: Write.
            events: {on_turn_complete: [{type: move_to_next, when: output.score.high > 3}]}
          - {key: done, name: Done}
        """
    )
    stage.complete("writer", {"text": "Words"})
    assert place(run) == "write failed"


def test_side_effects_set_the_data_that_later_steps_read(stage: Stage) -> None:
    run = stage.started(
        """
        key: data
        name: Data
        steps:
          - key: write
            name: Write
            kind: agent
            assignee: writer
            prompt: Write.
            events:
              on_enter: [{type: set_data, data: {round: 1}}]
              on_turn_complete:
                - {type: set_data, data: {said: "{{ output.text }}!"}}
                - move_to_next
              on_exit: [{type: set_data, data: {left: "{{ data.said }}?"}}]
          - {key: read, name: Read, kind: agent, assignee: reader, prompt: "{{ data.left }}"}
          - {key: done, name: Done}
        """
    )
    stage.complete("writer", {"text": "Words"})
    assert step_task(run).goal == "Words!?"
    assert fresh(run).data == {"round": 1, "said": "Words!", "left": "Words!?"}


def test_a_run_keeps_the_version_it_began_with(stage: Stage) -> None:
    run = stage.started()
    stage.flow(
        """
        key: reviewed
        name: Reviewed
        steps:
          - {key: other, name: Other, kind: agent, assignee: writer, prompt: Other.}
          - {key: done, name: Done}
        """
    )
    stage.complete()
    assert place(run) == "approve active"
    again = flows.start_again(stage.anna, fresh(run))
    assert place(again) == "other active"


def test_starting_again_makes_a_new_run_and_leaves_the_old_one(stage: Stage) -> None:
    run = stage.started(topic="tides")
    stage.fail("No ink.")
    again = flows.start_again(stage.anna, fresh(run), {"topic": "moon"})
    assert (again.number, again.inputs, again.name) == (2, {"topic": "moon"}, "Reviewed 2")
    assert place(run) == "write failed"
    assert place(again) == "write active"


def test_inputs_are_judged_before_anything_is_written(stage: Stage) -> None:
    flow = stage.flow(
        """
        key: strict
        name: Strict
        inputs:
          required: [repo]
          properties:
            repo: {type: string, title: Repository}
            count: {type: integer, default: 3}
        steps:
          - {key: write, name: Write, kind: agent, assignee: writer, prompt: Write.}
          - {key: done, name: Done}
        """
    )
    with pytest.raises(errors.InvalidInput, match="Repository is needed"):
        flows.start(stage.anna, flow, {"repo": ""})
    with pytest.raises(errors.InvalidInput, match='There is no input "repos"') as refused:
        flows.start(stage.anna, flow, {"repo": "x", "repos": "y"})
    assert set(refused.value.facts["fields"]) == {"repos"}
    with pytest.raises(errors.InvalidInput, match="count: 'many' is not of type 'integer'"):
        flows.start(stage.anna, flow, {"repo": "x", "count": "many"})
    assert not FlowRun.objects.exists()
    assert flows.start(stage.anna, flow, {"repo": "x"}).inputs == {"repo": "x", "count": 3}


def test_a_start_repeated_under_its_key_answers_the_first_run(stage: Stage) -> None:
    flow = stage.flow()
    first = flows.start(stage.anna, flow, {"topic": "tides"}, idempotency_key="k1")
    assert flows.start(stage.anna, flow, {"topic": "tides"}, idempotency_key="k1").pk == first.pk
    with pytest.raises(errors.KeyReused):
        flows.start(stage.anna, flow, {"topic": "moon"}, idempotency_key="k1")
    assert FlowRun.objects.count() == 1


def test_viewers_and_strangers_start_nothing(stage: Stage) -> None:
    from boards.models import Role
    from tests import cast

    flow = stage.flow()
    viewer = cast.chain_of(cast.make_member(stage.space, "vera", Role.VIEWER))
    with pytest.raises(errors.Forbidden):
        flows.start(viewer, flow, {})
    stranger = cast.chain_of(cast.make_member(cast.make_space("other"), "sam"))
    with pytest.raises(errors.NotFound):
        flows.start(stranger, flow, {})
