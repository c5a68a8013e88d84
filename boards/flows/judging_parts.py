"""Judges what stands inside a step: ways of a choice, branches, tasks, inputs of a call, failure steps. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from boards.flows import templating
from boards.flows.cycles import loops
from boards.flows.definition import STEP_DEFAULTS, FlowDefinition, StepDefinition
from boards.flows.kinds import FIELDS, NEEDED, OF_ONE_KIND, kinds_with
from boards.flows.templating import Known


@dataclass(slots=True)
class PartsJudge:
    """The inner parts of one step. `say(path, sentence)`: a problem, with its path within the step."""

    flow: FlowDefinition
    step: StepDefinition
    known: Known
    say: Callable[[str, str], None]

    def judge(self) -> None:
        self._judge_choices()
        self._judge_join()
        self._judge_tasks()
        for name, value in dict(self.step.inputs or {}).items():
            self._judge_template(f"inputs.{name}", value)
        for place, branch in enumerate(self.step.branches):
            self._judge_inner(f"branches[{place}]", branch)
        self._judge_failure()

    def _judge_choices(self) -> None:
        for place, way in enumerate(self.step.choices):
            where = f"choices[{place}]"
            if way.step == self.step.key:
                self.say(f"{where}.step", "A choice cannot lead to itself.")
            elif self.flow.step(way.step) is None:
                self.say(f"{where}.step", f'There is no step with the key "{way.step}".')
            if not way.when and place < len(self.step.choices) - 1:
                self.say(where, 'A way without "when" is always taken, so those after it never are. Put it last.')
            for fault in templating.condition_faults(way.when, self.known) if way.when else ():
                self.say(f"{where}.when", fault)

    def _judge_join(self) -> None:
        join, count = self.step.join, len(self.step.branches)
        if isinstance(join, int) and count and join > count:
            self.say("join", f"This waits for {join} branches, and there are {count}.")

    def _judge_tasks(self) -> None:
        tasks = self.step.tasks
        keys = {task.key for task in tasks}
        for place, task in enumerate(tasks):
            where = f"tasks[{place}]"
            for name in ("goal", "title"):
                self._judge_template(f"{where}.{name}", getattr(task, name))
            for at, key in enumerate(task.deps):
                if key not in keys:
                    self.say(f"{where}.deps[{at}]", f'There is no task with the key "{key}" in this step.')
            if not task.required and self.step.kind == "loop":
                self.say(f"{where}.required", "A loop is done when its judge says so; none of its tasks is optional.")
        for cycle in loops({task.key: list(task.deps) for task in tasks}):
            place = next(at for at, task in enumerate(tasks) if task.key == cycle[-1])
            self.say(f"tasks[{place}].deps", f"These tasks wait for one another: {' → '.join((*cycle, cycle[0]))}.")

    def _judge_failure(self) -> None:
        failed = self.step.on_failure
        if failed is None:
            return
        for place, inner in enumerate(failed.steps):
            self._judge_inner(f"on_failure.steps[{place}]", inner)
        if failed.then != "goto":
            return
        if failed.goto == self.step.key:
            self.say("on_failure.then", "A step cannot go to itself. Go to the one before it.")
        elif self.flow.step(failed.goto) is None:
            self.say("on_failure.then", f'There is no step with the key "{failed.goto}".')

    def _judge_inner(self, where: str, inner: StepDefinition) -> None:
        """A step inside this one: the same rules as for one of its kind that is a column."""
        for name in sorted(OF_ONE_KIND - set(FIELDS[inner.kind])):
            value = getattr(inner, name)
            if value and value != STEP_DEFAULTS.get(name, ()):
                words = f'"{name}" does nothing on a step of the kind "{inner.kind}".'
                self.say(f"{where}.{name}", f"{words} It belongs to {', '.join(kinds_with(name))}.")
        if inner.files_task and not (inner.prompt.strip() or self.flow.prompt.strip()):
            self.say(f"{where}.prompt", "This step files a task and needs a prompt that says what is to be done.")
        if inner.kind == "input" and not (inner.schema or {}).get("properties"):
            self.say(f"{where}.schema", NEEDED["input"]["schema"])
        for name in ("prompt", "draft"):
            self._judge_template(f"{where}.{name}", getattr(inner, name))

    def _judge_template(self, path: str, text: object) -> None:
        for fault in templating.template_faults(text, self.known) if isinstance(text, str) else ():
            self.say(path, fault)
