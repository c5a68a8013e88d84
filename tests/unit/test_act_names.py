"""One act has one name wherever it is offered: in a row of Needs you, for many at once, on its own page (spec: 00)."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from boards.queries import needs_bulk, run_acts, task_acts, waiting_words

TEMPLATES = Path(__file__).parents[2] / "templates"

# What was called otherwise somewhere: the other names stay away.
OTHER_NAMES = (
    *("Retry step", "Run the step again", "Retry the step", "Cancel this turn", "Cancel this run", "Cancel the run"),
    *("Skip this step", "Complete this step", "File it again…", "Dismiss this question…", "Move…", "Try again…"),
)


def test_one_verb_has_one_label() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    run = run_acts._RULES
    for rule in run:
        found[rule.verb].add(str(rule.label(run_acts.Standing(run=None, visit=None))))  # type: ignore[arg-type]
    for act in task_acts._RULES:
        found[f"task {act.verb}"].add(str(act.label()))
    for group, acts in needs_bulk.ACTS.items():
        for each in acts:
            found[each.verb if group == "flow" else f"task {each.verb}"].add(str(each.label))
    for failed in ("failed", "active"):
        for row in waiting_words.run_acts(failed == "failed"):
            found[row.verb or "start_again"].add(row.label)
    names = {verb: {label.rstrip("…") for label in labels} for verb, labels in found.items()}
    assert {verb: labels for verb, labels in names.items() if len(labels) > 1} == {}


def test_names_that_an_act_had_before_are_gone() -> None:
    texts = {path: path.read_text() for path in TEMPLATES.rglob("*.html")}
    said = [
        (path.name, name)
        for path, text in texts.items()
        for name in OTHER_NAMES
        if re.search(rf'["\'>]{name}["\'<]', text)
    ]
    assert said == []
