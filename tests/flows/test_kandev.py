"""Reading kandev's portable workflows: what has a counterpart is taken over, all else is named (spec: 05 section 6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from boards.errors import InvalidFlow
from boards.flows.importing import Read, import_flows, read_document
from tests.flows.cast import Stage, place

DEVELOPMENT = """
version: 1
type: kandev_workflow
workflows:
  - name: Development
    description: How we build.
    prompt: Be careful.
    agent_profile: {agent_name: Claude, model: big}
    steps:
      - name: Backlog
        position: 0
        color: bg-neutral-400
        is_start_step: true
        show_in_command_panel: false
        allow_manual_move: true
        auto_advance_requires_signal: false
        cancel_triggers_turn_complete: false
        events:
          on_turn_start: [{type: move_to_next}]
      - name: In Progress
        position: 2
        color: bg-blue-500
        prompt: "Build {{task_prompt}} on {{branch}}, and keep {% this %}."
        allow_manual_move: true
        auto_advance_requires_signal: true
        cancel_triggers_turn_complete: true
        wip_limit: 3
        pull_from_step_position: 0
        events:
          on_enter: [{type: enable_plan_mode}, {type: reset_agent_context}, {type: auto_start_agent}]
          on_turn_complete: [{type: move_to_step, config: {step_position: 7}}, {type: disable_plan_mode}]
          on_exit: [{type: disable_plan_mode}]
          on_comment: [{type: queue_run}]
      - name: Review
        position: 7
        color: purple haze
        auto_archive_after_hours: 48
        profile_session_end_policy: keep
        events:
          on_enter: [{type: auto_start_agent}]
          on_turn_start: [{type: move_to_previous}]
          on_turn_complete: [{type: move_to_next}]
      - {name: Done, position: 9, color: bg-green-500, events: {}}
"""


def read(text: str = DEVELOPMENT) -> Read:
    return read_document(text)


def test_steps_events_flags_and_limits_are_taken_over() -> None:
    flow = read().document.flows[0]
    assert (flow.key, flow.name, flow.style, flow.prompt) == ("development", "Development", "board", "Be careful.")
    backlog, progress, review, done = flow.steps
    assert [step.key for step in flow.steps] == ["backlog", "in-progress", "review", "done"]
    assert [step.color for step in flow.steps] == ["neutral", "blue", "", "green"]
    assert backlog.is_start_step
    assert not backlog.show_in_command_panel
    assert progress.auto_advance_requires_signal
    assert progress.cancel_triggers_turn_complete
    assert (progress.wip_limit, progress.pull_from) == (3, "backlog")
    assert [action.wire() for action in progress.on_enter] == ["reset_context", "auto_start"]
    assert [action.wire() for action in progress.on_turn_complete] == [{"type": "move_to_step", "step": "review"}]
    assert progress.allow_manual_move
    assert review.auto_archive_after_hours == 48
    assert review.prompt == "{{ input.task }}", "a step that starts its agent hands it the task"
    assert not review.allow_manual_move, "a flag that is missing is false there"
    assert not review.cancel_triggers_turn_complete
    assert flow.is_terminal(done)


def test_a_prompt_says_here_what_it_said_there() -> None:
    prompt = read().document.flows[0].steps[1].prompt
    assert prompt == "Build {{ input.task }} on {{ '{{' }}branch}}, and keep {{ '{%' }} this %}."


def test_each_thing_without_a_counterpart_is_named() -> None:
    assert read().notes == (
        '"agent_profile" of the workflow "Development" has no counterpart and was left out.',
        'The event "on_comment" of the step "In Progress" has no counterpart and was left out.',
        'The action "enable_plan_mode" (on_enter of the step "In Progress") has no counterpart and was left out.',
        'The action "disable_plan_mode" (on_turn_complete of the step "In Progress") has no counterpart and was left '
        "out.",
        'The action "disable_plan_mode" (on_exit of the step "In Progress") has no counterpart and was left out.',
        'The placeholder "{{branch}}" in the prompt of the step "In Progress" has no counterpart; it stays as text.',
        '"profile_session_end_policy" of the step "Review" has no counterpart and was left out.',
        'The color "purple haze" of the step "Review" is none here and was left out.',
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("version: 1", "version: 2", "line 2, version: This version of kandev's format is not known here"),
        (
            "        position: 7",
            "        position: 2",
            'line 35, workflows[0].steps[2].position: The position "2" is given twice.',
        ),
        ("wip_limit: 3", "wip_limit: -3", "As read: flows[0].steps[1].wip_limit: This must be a whole number from 0"),
        ("step_position: 7", "step_position: 8", 'There is no step with the key "position-8"'),
        ("pull_from_step_position: 0", "pull_from_step_position: 2", "A step cannot pull from itself."),
        ("name: Review", "nam: Review", "flows[0].steps[2].name: A name has 1 to 200 characters."),
        ("is_start_step: true", "is_start_step: 7", "flows[0].steps[0].is_start_step: This must be true or false."),
        ("    steps:", "    stages:", "workflows[0]: A workflow needs a name and a list of steps."),
        ("workflows:", "flows:", "workflows: The document holds no workflow."),
    ],
)
def test_what_is_wrong_there_is_refused_here(old: str, new: str, problem: str) -> None:
    assert old in DEVELOPMENT
    with pytest.raises(InvalidFlow) as refused:
        read(DEVELOPMENT.replace(old, new, 1))
    assert problem in str(refused.value)


@pytest.mark.parametrize("value", [[], {}, None, "x", 1.5, True])
@pytest.mark.parametrize("where", ["steps", "events", "position", "prompt", "step", "action"])
def test_any_value_anywhere_is_a_sentence_or_is_read(where: str, value: Any) -> None:
    step: dict[str, Any] = {"name": "A", "position": 0, "events": {"on_enter": []}}
    flow: dict[str, Any] = {"name": "F", "steps": [step]}
    match where:
        case "steps":
            flow["steps"] = value
        case "step":
            flow["steps"] = [value]
        case "action":
            step["events"]["on_enter"] = [value]
        case _:
            step[where] = value
    problems: list[str] = []
    keys: list[str] = []
    try:
        told = read(json.dumps({"version": 1, "type": "kandev_workflow", "workflows": [flow]}))
        keys = [each.key for each in told.document.flows]
    except InvalidFlow as refused:
        problems = refused.problems
    assert keys == ["f"] or problems
    assert all(problem.startswith("line ") for problem in problems)


def test_two_steps_of_one_name_get_keys_of_their_own() -> None:
    text = DEVELOPMENT.replace("name: Review", "name: Backlog").replace("name: Done", "name: ''", 1)
    with pytest.raises(InvalidFlow, match=r"steps\[3\]\.name"):
        read(text)
    keys = [step.key for step in read(text.replace("name: ''", "name: Ende ✓")).document.flows[0].steps]
    assert keys == ["backlog", "in-progress", "backlog-2", "ende"]


@pytest.mark.django_db
def test_an_imported_workflow_runs(stage: Stage) -> None:
    done = import_flows(stage.olga, stage.space, DEVELOPMENT, stage.board)
    assert [flow.key for flow in done.saved] == ["development"]
    assert len(done.notes) == 8
    from boards import flows

    run = flows.start(stage.anna, done.saved[0], {"task": "Build a boat"})
    assert place(run) == "backlog active"
