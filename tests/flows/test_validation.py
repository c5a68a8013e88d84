"""A document is judged whole before anything is written, each fault with its line and path (spec: 05 section 1)."""

from __future__ import annotations

import textwrap

import pytest

from boards.errors import InvalidFlow
from boards.flows import library
from boards.flows.definition import FlowDefinition
from boards.flows.validation import validate, validate_document

GOOD = """\
key: notes
name: Notes
inputs:
  properties:
    repo: {type: string}
steps:
  - key: write
    name: Write
    kind: agent
    assignee: writer
    prompt: Write about {{ input.repo }}.
  - key: ask
    name: Ask
    kind: approval
    events:
      on_turn_complete:
        - type: move_to_step
          step: write
          when: not output.approved
        - move_to_next
  - key: done
    name: Done
"""


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidFlow) as refused:
        validate(textwrap.dedent(text))
    return refused.value.problems


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_good_document_is_read_whole() -> None:
    flow = validate(GOOD)
    assert [(s.key, s.position, s.kind) for s in flow.steps] == [
        ("write", 0, "agent"),
        ("ask", 1, "approval"),
        ("done", 2, "column"),
    ]
    assert flow.start_step.key == "write"
    assert flow.is_terminal(flow.steps[2])
    assert [a.wire() for a in flow.steps[1].on_turn_complete] == [
        {"type": "move_to_step", "step": "write", "when": "not output.approved"},
        "move_to_next",
    ]


def test_json_is_read_like_yaml() -> None:
    import json

    flow = validate(json.dumps({"version": 1, "type": "orchestra_flow", "flows": [validate(GOOD).wire()]}))
    assert flow.wire() == validate(GOOD).wire()


def test_nothing_is_lost_in_a_round_trip() -> None:
    import yaml

    text = changed("    name: Done\n", "    name: Done\n    color: green\n    cancel_triggers_turn_complete: true\n")
    flow = validate(text)
    again = validate(yaml.safe_dump(flow.wire()))
    assert again.wire() == flow.wire()
    assert again.steps[2].cancel_triggers_turn_complete
    assert flow.wire()["steps"][0]["cancel_triggers_turn_complete"] is False, "always written"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("name: Notes\n", "", 'line 1, name: A flow needs a "name".'),
        ("    name: Write\n", "", 'line 7, steps[0].name: A step needs a "name".'),
        ("name: Write\n", "name: '  '\n", "line 8, steps[0].name: A name has 1 to 200 characters."),
        ("key: done", "key: write", 'line 21, steps[2].key: The key "write" stands on line 7 already.'),
        (
            "    name: Done\n",
            "    name: Done\n    position: 1\n",
            'line 23, steps[2].position: The position "1" stands on line 12 already.',
        ),
        ("key: done", "key: 'do ne'", "line 21, steps[2].key: A key has 1 to 80 letters, digits, - and _, and begins"),
        (
            "          step: write",
            "          step: wriet",
            "line 17, steps[1].events.on_turn_complete[0]: There is no step",
        ),
        ("- move_to_next", "- move_on", 'line 20, steps[1].events.on_turn_complete[1]: Unknown action "move_on".'),
        ("- move_to_next", "- notify", 'events.on_turn_complete[1].message: "notify" needs a message.'),
        ("- move_to_next", "- auto_start", '"auto_start" may stand under on_enter only.'),
        ("input.repo", "input.repos", 'line 11, steps[0].prompt: There is no input "repos". Known: repo.'),
        ("{{ input.repo }}", "{{ repo }}", 'line 11, steps[0].prompt: Unknown name "repo".'),
        (
            "{{ input.repo }}",
            "{{ steps.draft.output }}",
            'line 11, steps[0].prompt: There is no step with the key "draft"',
        ),
        ("{{ input.repo }}", "{{ input.repo", "line 11, steps[0].prompt: This cannot be read"),
        (
            "{{ input.repo }}",
            "{{ input.repo | shout }}",
            "line 11, steps[0].prompt: This cannot be read: No filter named",
        ),
        ("when: not output.approved", "when: not output.", "line 19, steps[1].events.on_turn_complete[0].when: This"),
        ("when: not output.approved", "when: approved", 'when: Unknown name "approved"'),
        ("kind: agent", "kind: parallel", 'line 7, steps[0].branches: A parallel step needs "branches"'),
        ("kind: agent", "kind: robot", 'line 9, steps[0].kind: Unknown kind "robot".'),
        (
            "kind: approval",
            "kind: approval\n    wip_limit: -1",
            "line 15, steps[1].wip_limit: This must be a whole number",
        ),
        ("kind: approval", "kind: approval\n    timeout_ms: -1", "line 15, steps[1].timeout_ms: This must be a whole"),
        ("kind: agent", "kind: agent\n    timeout_ms: 0", "line 10, steps[0].timeout_ms: This must be a whole number"),
        ("kind: agent", "kind: agent\n    max_attempts: 0", "This must be a whole number from 1 on."),
        ("kind: agent", "kind: agent\n    kind2: x", 'line 10, steps[0].kind2: Unknown field "kind2".'),
        ("kind: agent", "kind: agent\n    terminal: true", "A run ends on entering this step"),
        ("kind: agent", "kind: agent\n    is_start_step: maybe", "This must be true or false."),
        (
            "    prompt: Write about {{ input.repo }}.\n",
            "",
            "line 7, steps[0].prompt: This step files a task and needs a prompt",
        ),
        (
            "repo: {type: string}",
            "repo: {type: strong}",
            "line 5, inputs.properties.repo.type: This is not a valid JSON schema",
        ),
        ("repo: {type: string}", "repo: {$ref: 'http://x/y'}", "nothing is fetched"),
        ("key: notes\n", "key: notes\nkey: more\n", 'line 2: The key "key" is given twice; it stands on line 1 too.'),
        ("key: notes\n", "key: notes\nprompt: '{{ x }}'\n", 'line 2, prompt: Unknown name "x".'),
        ("key: notes\n", "key: notes\nstyle: tree\n", "line 2, style: This must be one of pipeline, board."),
        ("key: notes\n", "key: notes\ncolour: red\n", 'line 2, colour: Unknown field "colour".'),
    ],
)
def test_each_fault_is_named_with_its_line_and_path(old: str, new: str, problem: str) -> None:
    found = problems(changed(old, new))
    assert any(problem in each for each in found), found


def test_all_faults_are_named_at_once_in_the_order_of_their_lines() -> None:
    text = changed("kind: agent", "kind: robot").replace("name: Ask", "nmae: Ask")
    found = problems(text)
    assert [each.split(",")[0] for each in found] == ["line 9", "line 12", "line 13"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "- a\n- b\n",
        "just words",
        "a: &x [1]\nb: *x\n",
        "[" * 3000,
        "a: !!python/object:os.system {}\n",
        "a: b: c",
    ],
)
def test_what_is_no_document_is_refused_in_words(text: str) -> None:
    found = problems(text)
    assert all(each.startswith("line ") for each in found)


def test_a_document_larger_than_a_megabyte_is_refused() -> None:
    assert "larger than 1 MB" in problems("key: " + "x" * 1_000_001)[0]


def test_an_envelope_may_hold_several_flows_with_keys_of_their_own() -> None:
    one = textwrap.indent(GOOD, "    ")[4:]
    two = one.replace("key: notes", "key: more")
    text = f"version: 1\ntype: orchestra_flow\nflows:\n  - {one}\n  - {two}"
    assert [flow.key for flow in validate_document(text).flows] == ["notes", "more"]
    found = problems(text.replace("key: more", "key: notes"))
    assert any('The key "notes" stands on line' in each for each in found)
    assert "This document holds 2 flows" in problems(text)[0]


def test_another_version_or_type_is_refused() -> None:
    with pytest.raises(InvalidFlow, match="version of the format is not known"):
        validate_document("version: 2\ntype: orchestra_flow\nflows: []\n")
    with pytest.raises(InvalidFlow, match='The type must be "orchestra_flow"'):
        validate_document("version: 1\ntype: kandev_workflow\nflows: []\n")


def looping(middle: str, *, checker: str = "") -> str:
    checked = f", checker: {checker}" if checker else ""
    return f"""
    key: loop
    name: Loop
    steps:
      - {{key: a, name: A, kind: agent, prompt: Go.{checked}}}
      - {middle}
      - key: c
        name: C
        kind: agent
        prompt: Go.
        events: {{on_turn_complete: [{{type: move_to_step, step: a, when: output.again}}, move_to_next]}}
      - {{key: done, name: Done}}
    """


AGENT = "{key: b, name: B, kind: agent, prompt: Go.}"


def test_a_loop_with_no_person_in_it_cannot_be_saved() -> None:
    found = problems(looping(AGENT))
    assert found == [
        "line 7, steps[2]: A run would go round by itself: a → b → c → a. Put a person (an approval) in it."
    ]


@pytest.mark.parametrize(
    "text",
    [
        looping("{key: b, name: B, kind: approval}"),
        looping("{key: b, name: B}"),
        looping(AGENT, checker="person"),
    ],
)
def test_a_loop_with_a_person_in_it_is_a_warning(text: str) -> None:
    warnings = validate(textwrap.dedent(text)).warnings
    assert any("A run can go round: a → b → c → a. A person stands in it." in each for each in warnings)


def test_what_an_author_may_not_have_meant_is_a_warning() -> None:
    flow: FlowDefinition = validate(
        textwrap.dedent(
            """
            key: odd
            name: Odd
            style: board
            steps:
              - {key: a, name: A, kind: approval, events: {on_turn_complete: [move_to_next]}}
              - {key: b, name: B, kind: agent, prompt: Go.}
              - {key: c, name: C, kind: agent, prompt: Go., events: {on_turn_complete: [move_to_next]}}
            """
        )
    )
    assert len(flow.warnings) == 4
    assert "A rejection fails the run" in flow.warnings[0]
    assert "Nothing leads on from here" in flow.warnings[1]
    assert "leads nowhere from here" in flow.warnings[2]


@pytest.mark.parametrize("key", library.template_keys())
def test_every_ready_template_is_valid(key: str) -> None:
    document = library.template(key)
    assert [flow.key for flow in document.flows] == [key]
