"""Judges what a step says of itself and of the others, once every step of the flow could be read.

Pure, as `boards.flows.validation` is, whose second half it is. What stands inside a step is for `judging_parts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from boards.flows import templating
from boards.flows.actions import ROLES
from boards.flows.decisions import target_of
from boards.flows.definition import ASKING_KINDS, MOMENTS, STEP_DEFAULTS, Action, FlowDefinition, StepDefinition
from boards.flows.document import Located, Problems
from boards.flows.judging_parts import PartsJudge
from boards.flows.kinds import FIELDS, NEEDED, OF_ONE_KIND, kinds_with
from boards.flows.templating import CONDITION_NAMES, PROMPT_NAMES, Known

# Kinds that hold a run until something ends; a column may let it stand for good.
_ENDING_KINDS: Final = frozenset(FIELDS) - {"column"}
_TEXTS_OF_ACTIONS: Final = ("message", "goal", "title")


def known_names(flow: FlowDefinition, names: frozenset[str]) -> Known:
    """What a template of this flow may name; a schema that does not list its inputs leaves their names open."""
    properties = flow.inputs.get("properties")
    is_open = not isinstance(properties, dict) or flow.inputs.get("additionalProperties") is True
    inputs = None if is_open else frozenset(properties or ())
    return Known(names, frozenset(step.key for step in flow.steps), inputs)


def _assignees(flow: FlowDefinition, step: StepDefinition) -> Iterator[tuple[str, str, str]]:
    """(path, name, kind of step) of everybody whom a step gives something to do."""
    own = step.assignee or (flow.agent if step.files_task else "")
    if own:
        yield "assignee", own, step.kind
    for name, steps in (
        ("branches", step.branches),
        ("on_failure.steps", step.on_failure.steps if step.on_failure else ()),
    ):
        for place, inner in enumerate(steps):
            if inner.assignee:
                yield f"{name}[{place}].assignee", inner.assignee, inner.kind
    for place, task in enumerate(step.tasks):
        if task.assignee:
            yield f"tasks[{place}].assignee", task.assignee, "task"
    for moment in MOMENTS:
        for place, action in enumerate(getattr(step, moment)):
            if action.options.get("assignee"):
                yield f"events.{moment}[{place}].assignee", str(action.options["assignee"]), "task"


@dataclass(slots=True)
class StepJudge:
    """What a step says of itself and of the others, once every step could be read."""

    flow: FlowDefinition
    step: StepDefinition
    at: Located
    problems: Problems
    warnings: list[str]
    roster: frozenset[str] | None = None

    def judge(self) -> None:
        self._judge_kind()
        self._judge_terminal()
        self._judge_task()
        self._judge_limits()
        self._judge_texts()
        PartsJudge(self.flow, self.step, self._known(PROMPT_NAMES), self.say).judge()
        for moment in MOMENTS:
            self._judge_actions(moment)
        self._judge_ways_out()
        self._judge_names()

    def _judge_kind(self) -> None:
        """Fields that would do nothing on this kind, and those that it cannot do without."""
        step = self.step
        for name in sorted(OF_ONE_KIND - set(FIELDS[step.kind])):
            value = getattr(step, name)
            if value and value != STEP_DEFAULTS.get(name, ()):
                words = f'"{name}" does nothing on a step of the kind "{step.kind}".'
                self.say(name, f"{words} It belongs to {', '.join(kinds_with(name))}.")
        for name, sentence in NEEDED.get(step.kind, {}).items():
            value = getattr(step, name)
            if not (value.strip() if isinstance(value, str) else value):
                self.say(name, sentence)
        if step.kind == "input" and step.schema is not None and not step.schema.get("properties"):
            self.say("schema", NEEDED["input"]["schema"])
        if step.kind == "wait":
            self._judge_wait()

    def _judge_wait(self) -> None:
        step = self.step
        times = (step.duration_ms is not None) + bool(step.until.strip())
        if times > 1:
            self.say("until", 'A wait needs "duration_ms" or "until", one of the two.')
        elif not times and not step.event.strip():
            self.say("kind", 'A wait needs "duration_ms" or "until", one of the two, or the "event" that it waits for.')

    def _judge_terminal(self) -> None:
        step = self.step
        if not self.flow.is_terminal(step):
            return
        if step.files_task or step.kind != "column":
            self.say("kind", "A run ends on entering this step, so nothing would run here. Make it a column.")
            return
        for name in ("on_enter", "on_turn_complete"):
            if getattr(step, name):
                self.warn(f"events.{name}", "A run ends on entering this step, so these never run.")
        if step.on_failure is not None:
            self.say("on_failure", "A run ends on entering this step, so it cannot fail here.")

    def _judge_task(self) -> None:
        """What goes only with a task that the step files."""
        step = self.step
        if step.files_task and not (step.prompt.strip() or self.flow.prompt.strip()):
            self.say("prompt", "This step files a task and needs a prompt that says what is to be done.")
        if step.kind != "column" or step.files_task:
            return
        if step.timeout_ms is not None:
            self.say("timeout_ms", "Nothing is due in a column that files no task. Start one with auto_start.")
        if step.auto_advance_requires_signal:
            self.say("auto_advance_requires_signal", "Only a step that files a task can be told that it is complete.")
        if step.on_failure is not None:
            self.say("on_failure", "Nothing can fail in a column that files no task.")

    def _judge_limits(self) -> None:
        step, flow = self.step, self.flow
        if not step.pull_from:
            return
        if step.pull_from == step.key:
            self.say("pull_from", "A step cannot pull from itself.")
        elif (source := flow.step(step.pull_from)) is None:
            self.say("pull_from", f'There is no step with the key "{step.pull_from}".')
        elif flow.is_terminal(source):
            self.say("pull_from", f'Runs end in "{step.pull_from}", so there is never one to pull from it.')
        elif not step.wip_limit:
            self.warn("pull_from", "Without a wip_limit this step is never full, and pulls a run as soon as it waits.")

    def _judge_texts(self) -> None:
        for name in ("prompt", "draft", "until", "event"):
            self._judge_template(name, getattr(self.step, name), PROMPT_NAMES)

    def _judge_template(self, path: str, text: object, names: frozenset[str]) -> None:
        for fault in templating.template_faults(text, self._known(names)) if isinstance(text, str) else ():
            self.say(path, fault)

    def _known(self, names: frozenset[str]) -> Known:
        return known_names(self.flow, names)

    def _judge_actions(self, moment: str) -> None:
        actions: tuple[Action, ...] = getattr(self.step, moment)
        names = CONDITION_NAMES if moment == "on_turn_complete" else PROMPT_NAMES
        for place, action in enumerate(actions):
            where = f"events.{moment}[{place}]"
            if action.type == "move_to_step" and self.flow.step(action.step) is None:
                self.say(where, f'There is no step with the key "{action.step}".')
            elif action.is_transition and target_of(self.flow, self.step, action) is None:
                self.warn(where, f'"{action.type}" leads nowhere from here and is passed over.')
            elif action.type == "auto_start" and not self.step.files_task:
                self.say(where, f'A step of the kind "{self.step.kind}" files no task that "auto_start" could start.')
            for fault in templating.condition_faults(action.when, self._known(CONDITION_NAMES)) if action.when else ():
                self.say(f"{where}.when", fault)
            for name in _TEXTS_OF_ACTIONS:
                self._judge_template(f"{where}.{name}", action.options.get(name), names)
            for name, value in dict(action.options.get("data") or {}).items():
                self._judge_template(f"{where}.data.{name}", value, names)

    def _judge_ways_out(self) -> None:
        """Warnings: what an author may not have meant, though it can be run."""
        step, flow = self.step, self.flow
        ways = [action for action in flow.completion(step) if target_of(flow, step, action)]
        if step.cancel_triggers_turn_complete and not ways:
            words = "No transition on completion leads on from here, so a cancelled turn would complete nothing."
            self.warn("cancel_triggers_turn_complete", words)
        if flow.is_terminal(step) or not (step.kind in _ENDING_KINDS or step.files_task):
            return
        if not ways and all(way.when for way in step.choices):
            self.warn("events", "Nothing leads on from here: a run waits in this step until a person moves it.")
        elif step.kind == "approval" and not any(action.when for action in ways):
            self._warn_of_rejection()

    def _warn_of_rejection(self) -> None:
        failed = self.step.on_failure
        if failed is None or (failed.then == "fail" and not failed.steps):
            self.warn("events", 'A rejection fails the run, because no transition has a "when" for it.')

    def _judge_names(self) -> None:
        """Warnings: who is to work here and is not on the roster; a run that gets here would fail."""
        if self.roster is None:
            return
        for path, name, kind in _assignees(self.flow, self.step):
            if name not in self.roster and not (kind in ASKING_KINDS and name in ROLES):
                self.warn(path, f'Nobody called "{name}" is on the roster of the board.')

    def say(self, path: str, sentence: str) -> None:
        """A problem with a field of this step, named by its path within the step."""
        self.problems.at(self._line(path), f"{self.at.path}.{path}" if self.at.path else path, sentence)

    def warn(self, path: str, sentence: str) -> None:
        self.warnings.append(f"line {self._line(path)}, {self.at.path}.{path}: {sentence}")

    def _line(self, path: str) -> int:
        """The line of a field of this step, or of the nearest thing above it that is written down."""
        node = self.at
        for part in path.replace("[", ".").replace("]", "").split("."):
            inner = node.value.get(part) if isinstance(node.value, dict) else None
            if isinstance(node.value, list) and part.isdecimal() and int(part) < len(node.value):
                inner = node.value[int(part)]
            if inner is None:
                break
            node = inner
        return node.line
