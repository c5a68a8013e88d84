"""Export and import: the same text comes back, what is there is skipped, nothing is saved by halves (05 section 6)."""

from __future__ import annotations

import json

import pytest
import yaml

from boards import flows
from boards.errors import Forbidden, InvalidFlow
from boards.flows import exporting, importing, library
from boards.flows.surroundings import surroundings_of
from boards.flows.validation import validate, validate_document
from boards.models import Board, Flow, FlowVersion, RosterEntry
from tests.flows.cast import REVIEWED, Stage

pytestmark = pytest.mark.django_db


def exported(stage: Stage, key: str, form: str = "yaml") -> str:
    return exporting.exported([library.newest(stage.space, key)], form)


@pytest.mark.parametrize("form", exporting.FORMATS)
@pytest.mark.parametrize("key", library.template_keys())
def test_every_template_comes_back_as_the_same_text(stage: Stage, key: str, form: str) -> None:
    library.install(stage.space, key)
    text = exported(stage, key, form)
    Flow.objects.all().delete()
    done = importing.import_flows(stage.olga, stage.space, text)
    assert [flow.key for flow in done.saved] == [key]
    assert exported(stage, key, form) == text
    assert library.newest(stage.space, key).wire() == library.template(key).flows[0].wire(), "nothing is lost"


def test_the_envelope_says_what_it_is(stage: Stage) -> None:
    stage.flow()
    told = json.loads(exported(stage, "reviewed", "json"))
    assert (told["version"], told["type"], [flow["key"] for flow in told["flows"]]) == (
        1,
        "orchestra_flow",
        ["reviewed"],
    )
    assert yaml.safe_load(exported(stage, "reviewed")) == told


def test_the_flag_of_a_cancel_is_always_written_and_missing_reads_as_false(stage: Stage) -> None:
    library.install(stage.space, "kanban")
    text = exported(stage, "kanban")
    assert text.count("cancel_triggers_turn_complete: true") == 2
    assert text.count("cancel_triggers_turn_complete: false") == 2
    without = "\n".join(line for line in text.splitlines() if "cancel_triggers" not in line)
    assert [step.cancel_triggers_turn_complete for step in validate(without).steps] == [False] * 4


def test_the_order_of_names_is_kept(stage: Stage) -> None:
    text = """
key: ordered
name: Ordered
inputs: {properties: {zebra: {type: string}, a: {type: string}, bb: {type: string}}}
steps:
  - key: ask
    name: Ask
    kind: input
    schema: {properties: {second: {type: string}, at first: {type: string}}}
    events:
      on_turn_complete:
        - {type: set_data, data: {longer: "1", b: "{{ data.longer }}2"}}
        - move_to_next
  - {key: done, name: Done}
"""
    flow = stage.flow(text)
    loaded = library.newest(stage.space, flow.key)
    assert list(loaded.inputs["properties"]) == ["zebra", "a", "bb"]
    assert list((loaded.steps[0].schema or {})["properties"]) == ["second", "at first"]
    assert list(loaded.steps[0].on_turn_complete[0].options["data"]) == ["longer", "b"]
    assert exporting.exported([loaded]) == exporting.exported([validate(text)])
    stage.flow(text)
    assert FlowVersion.objects.count() == 1, "the same again is no new version"
    stage.flow(text.replace('{longer: "1", b: "{{ data.longer }}2"}', '{b: "{{ data.longer }}2", longer: "1"}'))
    assert FlowVersion.objects.count() == 2, "another order sets other data"


def test_what_is_there_is_skipped_and_reported(stage: Stage) -> None:
    stage.flow()
    text = f"""
flows:
  - {json.dumps(validate(REVIEWED).wire())}
  - {{key: other, name: reviewed, steps: [{{key: done, name: Done}}]}}
  - {{key: new, name: New, steps: [{{key: done, name: Done}}]}}
"""
    done = importing.import_flows(stage.olga, stage.space, text)
    assert [flow.key for flow in done.saved] == ["new"]
    assert done.skipped == (
        'Reviewed: a flow with the key "reviewed" is here already.',
        'other: a flow called "reviewed" is here already.',
    )
    assert FlowVersion.objects.filter(flow__key="reviewed").count() == 1
    assert Board.objects.filter(slug="new").exists(), "each on a board of its own"


def test_a_document_with_a_fault_saves_nothing(stage: Stage) -> None:
    good, bad = "{key: d, name: Done}", "{key: x, name: X, kind: robot}"
    text = f"flows: [{{key: a, name: A, steps: [{good}]}}, {{key: b, name: B, steps: [{bad}]}}]"
    with pytest.raises(InvalidFlow, match="Unknown kind"):
        importing.import_flows(stage.olga, stage.space, text)
    with pytest.raises(InvalidFlow, match="larger than 1 MB"):
        importing.import_flows(stage.olga, stage.space, "key: " + "x" * 1_000_000)
    assert not Flow.objects.exists()


def test_only_who_may_edit_flows_imports_them(stage: Stage) -> None:
    with pytest.raises(Forbidden):
        importing.import_flows(stage.anna, stage.space, REVIEWED)
    with pytest.raises(Forbidden):
        library.add_template(stage.anna, stage.space, "kanban")
    assert not Flow.objects.exists()
    assert library.add_template(stage.olga, stage.space, "kanban").key == "kanban"


def test_a_call_of_a_flow_that_is_not_there_is_refused(stage: Stage) -> None:
    call = "{key: a, name: A, steps: [{key: c, name: C, kind: call, flow: b}, {key: d, name: Done}]}"
    with pytest.raises(InvalidFlow, match=r'line 1, steps\[0\]\.flow: There is no flow with the key "b" in this space'):
        importing.import_flows(stage.olga, stage.space, call)
    both = f"flows: [{call}, {{key: b, name: B, steps: [{{key: d, name: Done}}]}}]"
    assert len(importing.import_flows(stage.olga, stage.space, both).saved) == 2


def test_flows_that_call_one_another_are_refused(stage: Stage) -> None:
    one = "{key: a, name: A, steps: [{key: c, name: C, kind: call, flow: b}, {key: d, name: Done}]}"
    two = one.replace("key: a, name: A", "key: b, name: B").replace("flow: b", "flow: a")
    with pytest.raises(InvalidFlow, match="These flows call one another, so none of them would end: a → b → a"):
        validate_document(f"flows: [{one}, {two}]")
    importing.import_flows(stage.olga, stage.space, two.replace("kind: call, flow: a", "kind: column"))
    importing.import_flows(stage.olga, stage.space, one)
    around = surroundings_of(stage.space, None)
    with pytest.raises(InvalidFlow, match="none of them would end"):
        validate(two, around)


def test_roster_entries_of_a_document_are_made_and_kept(stage: Stage) -> None:
    text = "flows: [{key: a, name: A, steps: [{key: d, name: Done}]}]\nroster: [{name: helper, kind: pull}]\n"
    made = importing.import_flows(stage.olga, stage.space, text).saved[0]
    assert RosterEntry.objects.get(board=made.board, name="helper").kind == "pull"


def test_a_flow_that_was_edited_is_not_undone_by_its_template(stage: Stage) -> None:
    library.install(stage.space, "kanban")
    mine = exported(stage, "kanban").replace("name: Kanban", "name: Our cards")
    flows.save_version(stage.olga, stage.space, None, validate(mine))
    assert library.install(stage.space, "kanban").versions.count() == 2
    assert library.newest(stage.space, "kanban").name == "Our cards"


def test_who_was_overtaken_is_told(stage: Stage) -> None:
    flow = stage.flow()
    mine = validate(REVIEWED.replace("name: Approve", "name: Mine"))
    theirs = validate(REVIEWED.replace("name: Approve", "name: Theirs"))
    flows.save_version(stage.olga, stage.space, None, theirs, based_on=1)
    with pytest.raises(flows.FlowChanged, match="Version 2 of Reviewed has been saved meanwhile"):
        flows.save_version(stage.olga, stage.space, None, mine, based_on=1)
    flows.save_version(stage.olga, stage.space, None, theirs, based_on=1)
    assert flow.versions.count() == 2, "the same again is no conflict"
