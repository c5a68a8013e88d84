"""Every kind of step, what stands inside it, and every action: what is valid, and each fault (spec: 05 section 1)."""

from __future__ import annotations

import textwrap

import pytest

from boards.errors import InvalidFlow
from boards.flows.definition import FlowDefinition
from boards.flows.surroundings import Surroundings
from boards.flows.validation import validate

HEAD = """\
key: whole
name: Whole
agent: writer
inputs:
  properties:
    topic: {type: string}
steps:
"""
# Each of them valid, between a first and a last step.
KINDS = {
    "input": """\
kind: input
prompt: Which one?
schema: {properties: {which: {type: string}}}
timeout_ms: 1000
""",
    "wait": """\
kind: wait
duration_ms: 1000
""",
    "until": """\
kind: wait
until: "{{ input.topic }}"
""",
    "choice": """\
kind: choice
choices:
  - {when: data.big, step: last}
  - {step: done}
""",
    "parallel": """\
kind: parallel
join: 1
branches:
  - {key: left, kind: agent, prompt: Go left.}
  - {key: right, name: To the right, kind: approval, prompt: "May it?", draft: "{{ input.topic }}"}
""",
    "stage": """\
kind: stage
timeout_ms: 5000
tasks:
  - {key: plan, goal: "Plan {{ input.topic }}.", assignee: writer}
  - {key: build, goal: Build it., deps: [plan], required: false, checker: person, max_attempts: 2, timeout_ms: 9}
""",
    "loop": """\
kind: loop
judge: tests.judge
replanner: tests.replan
finalize: tests.finalize
max_iterations: 3
tasks:
  - {key: seed, goal: Begin.}
""",
    "call": """\
kind: call
flow: other
inputs: {topic: "{{ input.topic }}", n: 3}
""",
    "notify": """\
kind: notify
prompt: "It goes on: {{ run.name }}."
to: operators
""",
    "column": """\
kind: column
assignee: writer
prompt: Work on {{ input.topic }}.
timeout_ms: 1000
wip_limit: 2
pull_from: first
auto_archive_after_hours: 24
cancel_triggers_turn_complete: true
on_failure:
  steps:
    - {key: tell, kind: task, prompt: Say why.}
  then: goto first
events:
  on_enter:
    - auto_start
    - {type: set_data, data: {n: 1}}
    - {type: notify, message: "{{ run.name }} is here.", to: anna}
    - reset_context
    - {type: create_task, goal: Look at it., title: Look, assignee: writer}
  on_turn_start: [move_to_previous]
  on_turn_complete:
    - {type: move_to_step, step: last, when: output.ok, requires_approval: true}
    - {type: move_to_next, quorum: {role: members, threshold: "n_approve:2"}}
  on_exit:
    - {type: notify, message: It left.}
""",
}


def document(middle: str) -> str:
    """The step that is looked at begins on line 9; its own first line is 11."""
    inner = textwrap.indent(f"key: it\nname: It\n{textwrap.dedent(middle)}", "    ")
    return (
        f"{HEAD}  - {{key: first, name: First, kind: approval}}\n  -{inner[3:]}"
        "  - {key: last, name: Last}\n  - {key: done, name: Done}\n"
    )


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidFlow) as refused:
        validate(text)
    return refused.value.problems


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_read_whole_and_written_the_same(kind: str) -> None:
    import yaml

    flow: FlowDefinition = validate(document(KINDS[kind]))
    told = flow.steps[1].wire()
    given = yaml.safe_load(document(KINDS[kind]))["steps"][1]
    assert told == {"cancel_triggers_turn_complete": False} | given, "every field, and the flag always"
    assert validate(yaml.safe_dump(flow.wire(), sort_keys=False)).wire() == flow.wire()


def test_null_reads_as_left_out() -> None:
    text = document("kind: null\nwip_limit: null\npull_from: null\non_failure: null\nevents: null\nbranches: null\n")
    assert validate(text).wire() == validate(document("")).wire()


@pytest.mark.parametrize(
    ("kind", "old", "new", "problem"),
    [
        (
            "input",
            "schema: {properties: {which: {type: string}}}\n",
            "",
            'line 9, steps[1].schema: An input step needs a "schema"',
        ),
        ("input", "{which: {type: string}}", "{}", 'line 13, steps[1].schema: An input step needs a "schema"'),
        (
            "input",
            "type: string",
            "type: strong",
            "steps[1].schema.properties.which.type: This is not a valid JSON schema",
        ),
        (
            "input",
            "prompt: Which one?",
            "checker: writer",
            'line 12, steps[1].checker: "checker" does nothing on a step of the kind "input". It belongs to agent,',
        ),
        (
            "input",
            "kind: input",
            "kind: approval",
            '"schema" does nothing on a step of the kind "approval". It belongs to input.',
        ),
        (
            "wait",
            "duration_ms: 1000\n",
            "",
            'line 11, steps[1].kind: A wait needs "duration_ms" or "until", one of the two, or the "event" that it '
            "waits for.",
        ),
        ("wait", "1000", "1000\nuntil: '2030-01-01T00:00:00Z'", "line 13, steps[1].until: A wait needs"),
        ("wait", "1000", "-1", "line 12, steps[1].duration_ms: This must be a whole number from 1 on."),
        ("wait", "1000", "1000\ntimeout_ms: 5", '"timeout_ms" does nothing on a step of the kind "wait"'),
        ("until", "input.topic", "input.topics", 'line 12, steps[1].until: There is no input "topics".'),
        (
            "choice",
            "step: last",
            "step: lost",
            'line 13, steps[1].choices[0].step: There is no step with the key "lost".',
        ),
        ("choice", "step: last", "step: it", "steps[1].choices[0].step: A choice cannot lead to itself."),
        ("choice", "when: data.big, ", "", 'line 13, steps[1].choices[0]: A way without "when" is always taken'),
        ("choice", "data.big", "output.big", 'steps[1].choices[0].when: Unknown name "output".'),
        (
            "choice",
            "{step: done}",
            "{whenn: x, step: done}",
            'line 14, steps[1].choices[1].whenn: Unknown field "whenn".',
        ),
        ("choice", "{step: done}", "{when: data.x}", 'steps[1].choices[1].step: A way of a choice needs a "step".'),
        ("parallel", "join: 1", "join: 3", "line 12, steps[1].join: This waits for 3 branches, and there are 2."),
        ("parallel", "join: 1", "join: most", "line 12, steps[1].join: This must be all, any, or a whole number"),
        ("parallel", "join: 1", "join: 0", "line 12, steps[1].join: This must be all, any, or a whole number"),
        (
            "parallel",
            "key: right",
            "key: left",
            'line 15, steps[1].branches[1].key: The key "left" stands on line 14 already.',
        ),
        ("parallel", "key: left, ", "", 'line 14, steps[1].branches[0].key: A branch needs a "key".'),
        (
            "parallel",
            "kind: agent",
            "kind: parallel",
            'A step of the kind "parallel" cannot stand inside another. Here: agent, task, approval, input.',
        ),
        ("parallel", "kind: agent", "kind: robot", 'steps[1].branches[0].kind: Unknown kind "robot".'),
        ("parallel", "prompt: Go left.", "prompt: '{{ x }}'", 'steps[1].branches[0].prompt: Unknown name "x".'),
        (
            "parallel",
            ", prompt: Go left.",
            "",
            "steps[1].branches[0].prompt: This step files a task and needs a prompt",
        ),
        (
            "parallel",
            "prompt: Go left.",
            "prompt: Go., draft: x",
            'steps[1].branches[0].draft: "draft" does nothing on a step of the kind "agent"',
        ),
        ("parallel", "prompt: Go left.", "prompt: Go., wip_limit: 2", 'Unknown field "wip_limit". A branch takes'),
        ("parallel", "prompt: Go left.", "prompt: Go., on_failure: {then: continue}", "nested deeper than one"),
        ("stage", "key: build", "key: plan", 'steps[1].tasks[1].key: The key "plan" stands on line 14 already.'),
        (
            "stage",
            "deps: [plan]",
            "deps: [paln]",
            'line 15, steps[1].tasks[1].deps[0]: There is no task with the key "paln" in this step.',
        ),
        (
            "stage",
            "deps: [plan]",
            "deps: [build]",
            "steps[1].tasks[1].deps: These tasks wait for one another: build → build.",
        ),
        ("stage", "deps: [plan]", "deps: plan", "steps[1].tasks[1].deps: This must be a list of keys."),
        ("stage", "deps: [plan]", "deps: [plan, plan]", '"plan" is listed more than once.'),
        ("stage", "assignee: writer", "deps: [build]", "These tasks wait for one another: plan → build → plan."),
        ("stage", "goal: Build it.", "goal: ' '", "steps[1].tasks[1].goal: A task needs a goal"),
        ("stage", "input.topic", "topic", 'line 14, steps[1].tasks[0].goal: Unknown name "topic".'),
        (
            "stage",
            "timeout_ms: 9",
            "timeout_ms: -9",
            "steps[1].tasks[1].timeout_ms: This must be a whole number from 1 on.",
        ),
        ("stage", "required: false", "required: no way", "steps[1].tasks[1].required: This must be true or false."),
        ("loop", "judge: tests.judge\n", "", 'line 9, steps[1].judge: A loop needs a "judge"'),
        ("loop", "max_iterations: 3\n", "", 'line 9, steps[1].max_iterations: A loop needs "max_iterations"'),
        (
            "loop",
            "max_iterations: 3",
            "max_iterations: 0",
            "steps[1].max_iterations: This must be a whole number from 1 on.",
        ),
        (
            "loop",
            "goal: Begin.",
            "goal: Begin., required: false",
            "steps[1].tasks[0].required: A loop is done when its judge",
        ),
        ("call", "flow: other\n", "", 'line 9, steps[1].flow: A call needs a "flow"'),
        ("call", "flow: other", "flow: whole", "line 12, steps[1].flow: These flows call one another"),
        ("call", "input.topic", "input.topics", 'line 13, steps[1].inputs.topic: There is no input "topics".'),
        (
            "notify",
            'prompt: "It goes on: {{ run.name }}."\n',
            "",
            'line 9, steps[1].prompt: A notify step needs a "prompt"',
        ),
        ("notify", "run.name", "run.title", 'steps[1].prompt: A run has no field "title".'),
        (
            "column",
            "wip_limit: 2",
            "wip_limit: -2",
            "line 15, steps[1].wip_limit: This must be a whole number from 0 on.",
        ),
        (
            "column",
            "auto_archive_after_hours: 24",
            "auto_archive_after_hours: -1",
            "steps[1].auto_archive_after_hours: This must",
        ),
        ("column", "pull_from: first", "pull_from: it", "line 16, steps[1].pull_from: A step cannot pull from itself."),
        (
            "column",
            "pull_from: first",
            "pull_from: frist",
            'line 16, steps[1].pull_from: There is no step with the key "frist".',
        ),
        ("column", "pull_from: first", "pull_from: done", 'Runs end in "done", so there is never one to pull from it.'),
        (
            "column",
            "then: goto first",
            "then: goto frist",
            'line 22, steps[1].on_failure.then: There is no step with the key "frist".',
        ),
        ("column", "then: goto first", "then: goto it", "steps[1].on_failure.then: A step cannot go to itself."),
        (
            "column",
            "then: goto first",
            "then: give up",
            "steps[1].on_failure.then: This must be fail, continue, or goto and",
        ),
        (
            "column",
            "prompt: Say why.",
            "prompt: Go., on_failure: {then: fail}",
            "line 21, steps[1].on_failure.steps[0].on_failure: A step inside another has no",
        ),
        (
            "column",
            "kind: task, prompt: Say why.",
            "kind: choice",
            'A step of the kind "choice" cannot stand inside another.',
        ),
        (
            "column",
            "    - auto_start\n",
            "",
            "line 14, steps[1].timeout_ms: Nothing is due in a column that files no task.",
        ),
        ("column", "    - auto_start\n", "", "steps[1].on_failure: Nothing can fail in a column that files no task."),
        (
            "column",
            "data: {n: 1}",
            "data: {}",
            'steps[1].events.on_enter[1].data: "set_data" needs a mapping of names and values.',
        ),
        ("column", "data: {n: 1}", "data: {n: '{{ x }}'}", 'steps[1].events.on_enter[1].data.n: Unknown name "x".'),
        ("column", "to: anna", "step: it", 'steps[1].events.on_enter[2].step: "notify" takes no "step".'),
        ("column", "to: anna", "too: anna", 'steps[1].events.on_enter[2].too: Unknown field "too".'),
        (
            "column",
            "title: Look, assignee",
            "wait: true, assignee",
            'steps[1].events.on_enter[4].wait: Unknown field "wait". An action waits for nothing '
            "(create_task_does_not_wait): work that is waited for is a step.",
        ),
        ("column", "goal: Look at it., ", "", 'steps[1].events.on_enter[4].goal: "create_task" needs a goal'),
        (
            "column",
            "- reset_context",
            "- {type: reset_context, when: data.x}",
            'A "when" belongs to a transition under on_turn_complete.',
        ),
        (
            "column",
            "[move_to_previous]",
            "[{type: move_to_previous, requires_approval: true}]",
            'A "requires_approval" belongs to a transition under on_turn_complete.',
        ),
        (
            "column",
            "[move_to_previous]",
            "[reset_context]",
            '"reset_context" may stand under on_enter and on_turn_complete and on_exit only.',
        ),
        (
            "column",
            "{type: notify, message: It left.}",
            "move_to_next",
            'steps[1].events.on_exit[0]: "move_to_next" may stand under on_turn_start and on_turn_complete only.',
        ),
        ("column", "step: last, when", "when", '"move_to_step" needs the key of a step.'),
        ("column", "requires_approval: true", "requires_approval: please", "This must be true or false."),
        (
            "column",
            "n_approve:2",
            "n_approve:0",
            "steps[1].events.on_turn_complete[1].quorum.threshold: This must be all_approve",
        ),
        (
            "column",
            "n_approve:2",
            "most_approve",
            "steps[1].events.on_turn_complete[1].quorum.threshold: This must be all_approve",
        ),
        (
            "column",
            "role: members",
            "role: agents",
            "steps[1].events.on_turn_complete[1].quorum.role: This must be one of members, operators, member,",
        ),
        ("column", "role: members, ", "", 'steps[1].events.on_turn_complete[1].quorum.role: A quorum needs a "role".'),
    ],
)
def test_each_fault_of_a_kind_is_named_with_its_line_and_path(kind: str, old: str, new: str, problem: str) -> None:
    assert old in KINDS[kind]
    found = problems(document(KINDS[kind].replace(old, new)))
    assert any(problem in each for each in found), found


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"column"}))
def test_only_a_column_may_be_where_a_run_ends(kind: str) -> None:
    found = problems(document(KINDS[kind] + "terminal: true\n"))
    assert any("steps[1].kind: A run ends on entering this step" in each for each in found), found


def test_auto_start_needs_a_task_to_start() -> None:
    found = problems(document(KINDS["wait"] + "events: {on_enter: [auto_start]}\n"))
    assert 'A step of the kind "wait" files no task that "auto_start" could start.' in found[0]


def test_steps_that_pull_in_a_circle_are_refused() -> None:
    text = f"""{HEAD}
  - {{key: a, name: A, pull_from: c, wip_limit: 1}}
  - {{key: b, name: B, pull_from: a, wip_limit: 1}}
  - {{key: c, name: C, pull_from: b, wip_limit: 1}}
"""
    assert problems(text) == [
        "line 10, steps[1].pull_from: These steps would pull from one another in a circle: a → c → b → a."
    ]


def test_several_pull_chains_that_meet_are_no_circle() -> None:
    text = f"""{HEAD}
  - {{key: a, name: A}}
  - {{key: b, name: B, pull_from: a, wip_limit: 1}}
  - {{key: c, name: C, pull_from: a, wip_limit: 1}}
"""
    assert [step.pull_from for step in validate(text).steps] == ["", "a", "a"]


def looping(*middle: str) -> str:
    return f"{HEAD}" + "".join(f"  - {{{each}}}\n" for each in middle) + "  - {key: done, name: Done}\n"


AGENT = "key: a, name: A, kind: agent, prompt: Go."
CHOICE = "key: c, name: C, kind: choice, choices: [{when: data.again, step: a}, {step: done}]"
FAILS = "key: f, name: F, kind: agent, prompt: Go., on_failure: {then: goto a}"
ASKED = "on_failure: {steps: [{key: ask, kind: approval, prompt: Again.}], then: goto a}"


@pytest.mark.parametrize(
    ("middle", "words"),
    [
        ((AGENT, CHOICE), "a → c → a"),
        ((AGENT, FAILS), "a → f → a"),
        ((AGENT, FAILS.replace("prompt: Go.", "prompt: Go., checker: person")), "a → f → a"),
        (
            (
                AGENT,
                "key: ask, name: Ask, kind: approval, timeout_ms: 9, on_failure: {then: goto a}, "
                "events: {on_turn_complete: [{type: move_to_step, step: done}]}",
            ),
            "a → ask → a",
        ),
        ((AGENT, "key: w, name: W, kind: wait, duration_ms: 5", CHOICE), "a → w → c → a"),
        (
            (
                AGENT,
                "key: n, name: N, kind: notify, prompt: Hello., "
                "events: {on_turn_complete: [{type: move_to_step, step: a, when: data.x}]}",
            ),
            "a → n → a",
        ),
        (
            (
                AGENT,
                "key: s, name: S, kind: stage, tasks: [{key: t, goal: Go.}, {key: u, goal: Go., required: false, "
                "checker: person}], events: {on_turn_complete: [{type: move_to_step, step: a, when: data.x}]}",
            ),
            "a → s → a",
        ),
        (
            (
                AGENT,
                "key: p, name: P, kind: parallel, join: any, "
                "branches: [{key: x, prompt: Go.}, {key: y, kind: approval}]"
                ", events: {on_turn_complete: [{type: move_to_step, step: a, when: data.x}]}",
            ),
            "a → p → a",
        ),
    ],
)
def test_every_loop_with_no_person_in_it_is_refused(middle: tuple[str, ...], words: str) -> None:
    found = problems(looping(*middle))
    assert any(f"A run would go round by itself: {words}." in each for each in found), found


@pytest.mark.parametrize(
    "middle",
    [
        (AGENT, "key: f, name: F, kind: agent, prompt: Go., " + ASKED),
        (AGENT, "key: p, name: P, kind: parallel, branches: [{key: x, prompt: Go.}, {key: y, kind: approval}]", CHOICE),
        (AGENT, "key: s, name: S, kind: stage, tasks: [{key: t, goal: Go., checker: person}]", CHOICE),
        (AGENT, "key: i, name: I, kind: input, schema: {properties: {x: {type: string}}}", CHOICE),
        (
            AGENT,
            "key: m, name: M, kind: agent, prompt: Go., "
            "events: {on_turn_complete: [{type: move_to_step, step: a, when: data.x, requires_approval: true}]}",
        ),
        (
            AGENT,
            "key: q, name: Q, kind: agent, prompt: Go., events: {on_turn_complete: "
            "[{type: move_to_previous, quorum: {role: members, threshold: any_reject}}]}",
        ),
    ],
)
def test_a_loop_in_which_a_person_is_asked_is_a_warning(middle: tuple[str, ...]) -> None:
    warnings = validate(looping(*middle)).warnings
    assert any("A run can go round: a → " in each and "A person stands in it." in each for each in warnings), warnings


def test_a_task_of_a_person_on_the_roster_keeps_a_loop_from_going_round_by_itself() -> None:
    text = looping(AGENT, "key: b, name: B, kind: task, assignee: anna, prompt: Go.", CHOICE)
    assert any("go round by itself" in each for each in problems(text))
    assert any(
        "A person stands in it" in each for each in validate(text, Surroundings(people=frozenset({"anna"}))).warnings
    )


def test_a_cancel_that_completes_nothing_is_a_warning() -> None:
    text = f"{HEAD}  - {{key: a, name: A, cancel_triggers_turn_complete: true}}\n"
    assert validate(text).warnings == (
        "line 8, steps[0].cancel_triggers_turn_complete: No transition on completion leads on from here, so a "
        "cancelled turn would complete nothing.",
    )
    assert not validate(f"{text}  - {{key: b, name: B}}\n").warnings, "a pipeline moves to the next by itself"


def test_a_rejection_that_is_caught_is_no_warning() -> None:
    ask = "{key: a, name: A, kind: approval%s}"
    plain, caught = (
        f"{HEAD}  - {ask % more}\n  - {{key: done, name: Done}}\n" for more in ("", ", on_failure: {then: continue}")
    )
    assert "A rejection fails the run" in validate(plain).warnings[0]
    assert not validate(caught).warnings
