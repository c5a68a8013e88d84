"""Prompts and conditions: strict names, a sandbox, and sentences instead of exceptions."""

from __future__ import annotations

import pytest

from boards.flows.templating import Known, TemplatingError, condition_faults, holds, render, template_faults

VALUES = {
    "input": {"repo": "/x", "tags": ["a", "b"]},
    "steps": {"write": {"output": {"text": "Words"}}, "ask": {"output": None}},
    "run": {"name": "Run 1"},
    "data": {},
    "output": {"approved": False, "n": 3},
}
KNOWN = Known(frozenset({"input", "steps", "run", "data"}), frozenset({"write", "ask"}), frozenset({"repo"}))


def test_values_are_put_in() -> None:
    assert (
        render("{{ run.name }}: {{ steps.write.output.text | upper }} of {{ input.repo }}", VALUES)
        == "Run 1: WORDS of /x"
    )
    assert render("{% if steps.ask.output %}yes{% else %}not asked{% endif %}", VALUES) == "not asked"


def test_text_stays_text() -> None:
    values = {"input": {"repo": "{{ run.name }} <b>"}}
    assert render("{{ input.repo }}", values) == "{{ run.name }} <b>", "neither rendered again nor escaped"


@pytest.mark.parametrize(
    ("condition", "held"),
    [("not output.approved", True), ("output.approved", False), ("output.n > 2 and run.name == 'Run 1'", True)],
)
def test_conditions_hold_or_not(condition: str, held: bool) -> None:
    assert holds(condition, VALUES) is held


@pytest.mark.parametrize(
    "template",
    [
        "{{ input.nothing }}",
        "{{ steps.ask.output.note }}",
        "{{ input.repo.more.more }}",
        "{{ 1 / 0 }}",
        "{{ input.tags.append('c') }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ 'a' * 100000000 }}",
        "{{ 9 ** 9999999 }}",
        "{{ range(10) }}",
        "{{ '%100000000d' % 1 }}",
        "{{ 'a'.ljust(100000000) }}",
        "{{ ('a' * 9999) * 9999 }}",
        "{% for a in input.tags %}{{ ('x' * 9999) ~ ('y' * 9999) ~ ('z' * 9999) }}{% endfor %}" * 9,
    ],
)
def test_what_cannot_be_worked_out_is_one_sentence(template: str) -> None:
    with pytest.raises(TemplatingError):
        render(template, VALUES)


@pytest.mark.parametrize("source", ["{{ " + "9" * 5000 + " }}", "{{ 0x" + "f" * 5000 + " }}", "{{ 1|center(9) }}"])
def test_what_cannot_even_be_read_is_a_fault(source: str) -> None:
    assert template_faults(source, Known(frozenset(), frozenset()))


def test_nothing_is_worked_out_while_a_template_is_only_judged() -> None:
    assert template_faults("{{ '%1000000000d' % 1 }}", Known(frozenset(), frozenset())) == []


def test_a_condition_that_cannot_be_worked_out_is_one_sentence() -> None:
    with pytest.raises(TemplatingError, match="could not be worked out"):
        holds("output.missing", VALUES)
    with pytest.raises(TemplatingError, match="could not be worked out"):
        holds("output.approved.x > 3", VALUES)


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{{ foo }}", 'Unknown name "foo". Known here: data, input, run, steps.'),
        ("{{ output }}", 'Unknown name "output"'),
        ("{{ range(3) }}", 'Unknown name "range"'),
        ("{{ input.x }}", 'There is no input "x". Known: repo.'),
        ("{{ input['x'] }}", 'There is no input "x"'),
        ("{{ steps.gone.output }}", 'There is no step with the key "gone"'),
        ("{{ run.colour }}", 'A run has no field "colour"'),
        ("{{ input.repo", "This cannot be read"),
        ("{{ input.repo | nofilter }}", "nofilter"),
    ],
)
def test_unknown_names_are_faults(template: str, fault: str) -> None:
    assert any(fault in each for each in template_faults(template, KNOWN))


@pytest.mark.parametrize(
    "template",
    ["", "plain", "{{ input.repo }}", "{% for k in steps.items() %}{{ k }}{% endfor %}", "{% set x = 1 %}{{ x }}"],
)
def test_known_names_are_no_faults(template: str) -> None:
    assert template_faults(template, KNOWN) == []


def test_a_condition_is_one_expression() -> None:
    assert condition_faults("input.repo == 'x'", KNOWN) == []
    for broken in ("input.repo }} {{ run.name", "input.repo run.name", "", "% if"):
        assert condition_faults(broken, KNOWN), broken
