"""What the pages that make and change flows show: templates, the editor's parts, versions and their differences."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, Q

from boards.flows import exporting, library
from boards.flows.definition import FlowDefinition, load
from boards.flows.differences import Difference, difference
from boards.flows.surroundings import surroundings_of
from boards.flows.validation import judged
from boards.models import Board, Flow, FlowVersion, RosterEntry, Space
from boards.queries.flow_diagram import Diagram, diagram
from boards.queries.flow_form import Form, form_of, plain_flow
from boards.states import RunStatus

EMPTY: Final = """\
key: my-flow
name: My flow
steps:
  - key: work
    name: Work
    kind: agent
    assignee: ""
    prompt: Say what is to be done.
  - key: done
    name: Done
"""


@dataclass(frozen=True, slots=True)
class Template:
    key: str
    name: str
    description: str
    steps: tuple[str, ...]
    is_here: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, or a warning: its line in the text (0: of none), the line itself, and the sentence."""

    line: int
    source: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Editor:
    """A text that is being edited, judged and drawn. `at`: the key of the step whose form is open."""

    text: str
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    diagram: Diagram | None
    form: Form | None
    is_valid: bool
    roster: tuple[str, ...]
    flows: tuple[str, ...]

    @property
    def lines(self) -> range:
        return range(1, self.text.count("\n") + 2)

    @property
    def wrong_lines(self) -> frozenset[int]:
        return frozenset(problem.line for problem in self.problems)

    @property
    def at(self) -> str:
        return self.form.step.key if self.form and self.form.step else ""


@dataclass(frozen=True, slots=True)
class VersionRow:
    number: int
    made_at: datetime
    made_by: str
    steps: int
    runs: int
    active: int


@dataclass(frozen=True, slots=True)
class Versions:
    """Newest first. `old`, `new`: the two that are compared; `difference` is None where there is but one."""

    rows: tuple[VersionRow, ...]
    old: int
    new: int
    difference: Difference | None


def templates(space: Space) -> list[Template]:
    """The ready templates, each with whether the space has a flow of its key."""
    here = set(Flow.objects.filter(space=space).values_list("key", flat=True))
    ready = [library.template(key).flows[0] for key in library.template_keys()]
    return [
        Template(flow.key, flow.name, flow.description, tuple(step.name for step in flow.steps), flow.key in here)
        for flow in ready
    ]


def newest_version(flow: Flow) -> FlowVersion | None:
    return FlowVersion.objects.filter(flow=flow).select_related("flow").order_by("-number").first()


def text_of(version: FlowVersion) -> str:
    """A version as the editor's text."""
    return flow_text(load(version))


def template_text(key: str) -> str:
    """A ready template as the text of a new flow. Raises NotFound."""
    return flow_text(library.template(key).flows[0])


def flow_text(flow: FlowDefinition) -> str:
    return exporting.written(exporting.flow_fields(flow))


def editor(space: Space, board: Board | None, text: str, at: str = "", said: tuple[str, ...] = ()) -> Editor:
    """The text with everything that the page says of it; `said`: problems that its saving met."""
    told = judged(text, surroundings_of(space, board))
    lines = text.split("\n")
    return Editor(
        text=text,
        problems=tuple(_problem(each, lines) for each in (*said, *told.problems)),
        warnings=tuple(_problem(each, lines) for each in told.warnings),
        diagram=diagram(told.flow) if told.flow else None,
        form=form_of(told.flow, plain_flow(text), at),
        is_valid=told.is_valid and not said,
        roster=_roster(board),
        flows=tuple(Flow.objects.filter(space=space).order_by("key").values_list("key", flat=True)),
    )


def _roster(board: Board | None) -> tuple[str, ...]:
    names = RosterEntry.objects.filter(board=board).order_by("name").values_list("name", flat=True)
    return tuple(names) if board else ()


def _problem(sentence: str, lines: list[str]) -> Problem:
    head = sentence.split(",")[0].split(":")[0].removeprefix("line ")
    line = int(head) if head.isascii() and head.isdecimal() else 0
    source = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return Problem(line, source[:200], sentence)


def versions(flow: Flow, old: int = 0, new: int = 0) -> Versions:
    """The versions, and what changed between two of them: by default the newest and the one before."""
    found = list(
        FlowVersion.objects.filter(flow=flow)
        .select_related("created_by", "flow")
        .annotate(
            n_steps=Count("steps", distinct=True),
            n_runs=Count("flowrun", distinct=True),
            n_active=Count("flowrun", filter=Q(flowrun__status=RunStatus.ACTIVE), distinct=True),
        )
        .order_by("-number")
    )
    by_number = {version.number: version for version in found}
    newest = found[0].number if found else 0
    right = new if new in by_number else newest
    left = old if old in by_number else max((n for n in by_number if n < right), default=right)
    changed = None
    if left != right:
        changed = difference(load(by_number[left]), load(by_number[right]))
    return Versions(tuple(_row(version) for version in found), left, right, changed)


def _row(version: Any) -> VersionRow:
    by = version.created_by.display if version.created_by else ""
    return VersionRow(version.number, version.created_at, by, version.n_steps, version.n_runs, version.n_active)
