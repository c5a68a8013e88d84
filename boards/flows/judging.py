"""Judges what a step says of itself and of the others, once every step of the flow could be read.

Pure, as `boards.flows.validation` is, whose second half it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from boards.flows import templating
from boards.flows.decisions import target_of
from boards.flows.definition import MOMENTS, Action, FlowDefinition, StepDefinition
from boards.flows.document import Located, Problems
from boards.flows.templating import CONDITION_NAMES, PROMPT_NAMES, Known


def known_names(flow: FlowDefinition, names: frozenset[str]) -> Known:
    """What a template of this flow may name; a schema that does not list its inputs leaves their names open."""
    properties = flow.inputs.get("properties")
    is_open = not isinstance(properties, dict) or flow.inputs.get("additionalProperties") is True
    inputs = None if is_open else frozenset(properties or ())
    return Known(names, frozenset(step.key for step in flow.steps), inputs)


@dataclass(slots=True)
class StepJudge:
    """What a step says of itself and of the others, once every step could be read."""

    flow: FlowDefinition
    step: StepDefinition
    at: Located
    problems: Problems
    warnings: list[str]

    def judge(self) -> None:
        self._judge_kind()
        self._judge_texts()
        for moment in MOMENTS:
            self._judge_actions(moment)
        self._judge_ways_out()

    def _judge_kind(self) -> None:
        step = self.step
        if self.flow.is_terminal(step) and (step.files_task or step.kind == "approval"):
            self._say("kind", "A run ends on entering this step, so nothing would run here. Make it a column.")
        if step.files_task and not (step.prompt.strip() or self.flow.prompt.strip()):
            self._say("prompt", "This step files a task and needs a prompt that says what is to be done.")
        if step.timeout_ms is not None and step.kind != "approval":
            self._say("timeout_ms", "A due time is available on approval steps only, so far.")
        if step.draft and step.kind != "approval":
            self._say("draft", "A draft is what an approval shows; this step asks for none.")
        if step.auto_advance_requires_signal and not step.files_task:
            self._say("auto_advance_requires_signal", "Only a step that files a task can be told that it is complete.")
        if step.kind == "approval" and (step.max_attempts is not None or step.checker):
            name = "checker" if step.checker else "max_attempts"
            self._say(name, "An approval step files no task, so this would do nothing.")

    def _judge_texts(self) -> None:
        for name in ("prompt", "draft"):
            for fault in templating.template_faults(getattr(self.step, name), self._known(PROMPT_NAMES)):
                self._say(name, fault)

    def _known(self, names: frozenset[str]) -> Known:
        return known_names(self.flow, names)

    def _judge_actions(self, moment: str) -> None:
        actions: tuple[Action, ...] = getattr(self.step, moment)
        for place, action in enumerate(actions):
            where = f"events.{moment}[{place}]"
            if action.type == "move_to_step" and self.flow.step(action.step) is None:
                self._say(where, f'There is no step with the key "{action.step}".')
            elif action.is_transition and target_of(self.flow, self.step, action) is None:
                self._warn(where, f'"{action.type}" leads nowhere from here and is passed over.')
            for fault in templating.condition_faults(action.when, self._known(CONDITION_NAMES)) if action.when else ():
                self._say(f"{where}.when", fault)
            for name, value in dict(action.options.get("data") or {}).items():
                names = CONDITION_NAMES if moment == "on_turn_complete" else PROMPT_NAMES
                for fault in templating.template_faults(value, self._known(names)) if isinstance(value, str) else ():
                    self._say(f"{where}.data.{name}", fault)

    def _judge_ways_out(self) -> None:
        """Warnings: what an author may not have meant, though it can be run."""
        step, flow = self.step, self.flow
        if flow.is_terminal(step) or not (step.files_task or step.kind == "approval"):
            return
        ways = [action for action in flow.completion(step) if target_of(flow, step, action)]
        if not ways:
            self._warn("events", "Nothing leads on from here: a run waits in this step until a person moves it.")
        elif step.kind == "approval" and not any(action.when for action in ways):
            self._warn("events", 'A rejection fails the run, because no transition has a "when" for it.')

    def _say(self, path: str, sentence: str) -> None:
        self.problems.at(self._line(path), f"{self.at.path}.{path}" if self.at.path else path, sentence)

    def _warn(self, path: str, sentence: str) -> None:
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
