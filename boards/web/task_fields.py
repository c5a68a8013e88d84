"""The texts of a task's form and the values they stand for: parsing only, no rule of filing (spec: 01 section 1)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

from django.http import QueryDict
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive
from django.utils.translation import gettext as _

from boards.errors import InvalidInput
from boards.models import Task
from boards.queries import clock
from boards.states import HoldKind, Status
from boards.tasks.types import HoldFiling

# The fields of the form that are also fields of a task and of `update_task`.
TEXTS: Final = (
    *("goal", "title", "context", "input", "labels", "deps"),
    *("assignee", "checker", "priority", "max_attempts", "due_at"),
)
MAX_DEPS: Final = 100
MAX_OPTIONS: Final = 6
MAX_OPTION: Final = 200  # characters: a choice of the form, which no button cuts
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,199}")


_FARTHEST: Final = 14 * 60  # minutes between UTC and any zone there is


def _minutes(offset: str) -> int:
    """The browser's offset from UTC; 0 where it says none that a zone can have."""
    told = int(offset) if re.fullmatch(r"-?[0-9]{1,3}", offset) else 0
    return told if abs(told) <= _FARTHEST else 0


@dataclass(frozen=True, slots=True)
class Texts:
    """What stands in the fields. `deps`: one text each; `due_at` is read with `offset` (minutes behind UTC)."""

    fields: dict[str, str]
    deps: tuple[str, ...] = ()
    offset: int = 0

    @classmethod
    def of(cls, form: QueryDict, *, otherwise: Texts | None = None, only: Collection[str] = TEXTS) -> Texts:
        """The texts of a form that was sent; a field that it does not hold, or not in `only`, is as in `otherwise`."""
        base = otherwise or cls({"priority": "0"})
        sent = {name: str(form[name]) for name in only if name in form and name != "deps"}
        fields = dict(base.fields) | sent
        deps = tuple(text for text in form.getlist("deps") if text.strip()) if "deps" in only else base.deps
        offset = form.get("tz_offset", "")
        return cls(fields, deps, _minutes(offset))

    def get(self, name: str) -> str:
        return self.fields.get(name, "").strip()

    def shown(self, name: str) -> str:
        """One field as a sentence can quote it."""
        return ", ".join(self.deps) if name == "deps" else self.get(name) or _("empty")

    def normal(self, name: str) -> str:
        """A form of the field's text that is equal where the field was not changed."""
        if name == "deps":
            return ",".join(_dep_ids(self.deps))
        if name == "due_at":
            moment = _lenient_moment(self)
            return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M}" if moment else self.get(name)
        return self.get(name).replace("\r\n", "\n")


def texts_of(task: Task) -> Texts:
    """The form as it stands when a stored task is opened; its due time is in UTC."""
    deps = task.dep_edges.order_by("pk").values_list("dependency__public_id", flat=True)
    fields = {
        "goal": task.goal,
        "title": task.title,
        "context": task.context,
        "input": json.dumps(task.input, indent=2, ensure_ascii=False) if task.input else "",
        "labels": ", ".join(task.labels),
        "assignee": task.assignee,
        "checker": task.checker,
        "priority": str(task.priority),
        "max_attempts": str(task.max_attempts or ""),
        "due_at": f"{task.due_at.astimezone(UTC):%Y-%m-%dT%H:%M}" if task.due_at else "",
    }
    return Texts(fields, tuple(deps))


def texts_again(task: Task) -> Texts:
    """The form of a new task like one that ended: without a due time that passed, or what could never complete."""
    texts = texts_of(task)
    able = task.dep_edges.exclude(dependency__status__in=[Status.ERRORED, Status.CANCELLED]).order_by("pk")
    due_at = texts.fields["due_at"] if task.due_at and task.due_at > clock.now() else ""
    deps = tuple(able.values_list("dependency__public_id", flat=True))
    return Texts(texts.fields | {"due_at": due_at}, deps)


def read_fields(texts: Texts, only: Iterable[str] = TEXTS) -> tuple[dict[str, Any], dict[str, str]]:
    """Values by field name, and a sentence for each field whose text says no value."""
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name in only:
        try:
            values[name] = _READERS[name](texts)
        except InvalidInput as wrong:
            errors[name] = wrong.sentence
    return values, errors


def said_of_field(name: str, sentence: str) -> str:
    """The engine's sentence about a field, under the name that the field has in the form."""
    first, _space, rest = sentence.partition(" ")
    if first != name or name not in _NAMES:
        return sentence
    return f"{_NAMES[name]()} {rest}"


def read_question(form: QueryDict, errors: dict[str, str]) -> list[HoldFiling]:
    """The question or confirm to be answered before the task can start, where one is asked.

    Whoever filled in a part of it wanted to be asked: what is missing is refused in `errors`, so that the task does not
    start without the answer.
    """
    prompt = form.get("question", "").strip()
    lines = [line.strip() for line in form.get("question_options", "").splitlines() if line.strip()]
    kind = HoldKind.CONFIRM if form.get("question_kind") == "confirm" else HoldKind.QUESTION
    if wrong := _wrong_question(prompt, kind, lines):
        errors["holds"] = wrong
    if not prompt:
        return []
    options = [{"value": line, "label": line, "description": ""} for line in lines]
    return [HoldFiling(kind, prompt, options=options if kind == HoldKind.QUESTION else ())]


def _wrong_question(prompt: str, kind: HoldKind, options: Sequence[str]) -> str:
    """What stands in the way of asking this, as a sentence; "" where nothing does."""
    if not prompt and options:
        return _("Write the question that these options answer, or empty them.")
    if not prompt and kind == HoldKind.CONFIRM:
        return _("Write the question that is answered with yes or no.")
    if kind == HoldKind.CONFIRM and options:
        return _("Yes or no are its answers: empty the options, or let one of them be the answer.")
    if len(options) == 1 or len(options) > MAX_OPTIONS:
        return _("Give two to six options, one a line, or none.")
    if long := next((n for n, option in enumerate(options, 1) if len(option) > MAX_OPTION), 0):
        return _("Option %(number)d is longer than %(most)d characters. Shorten it, or tell it in the question.") % {
            "number": long,
            "most": MAX_OPTION,
        }
    return ""


def _whole(texts: Texts, name: str, sentence: str) -> int:
    text = texts.get(name)
    if not re.fullmatch(r"[-+]?[0-9]{1,7}", text):
        raise InvalidInput(sentence, field=name)
    return int(text)


def _priority(texts: Texts) -> int:
    return (
        _whole(texts, "priority", _("Priority is a whole number; higher goes first.")) if texts.get("priority") else 0
    )


def _max_attempts(texts: Texts) -> int | None:
    if not texts.get("max_attempts"):
        return None
    return _whole(texts, "max_attempts", _("Tries is a whole number from 1, or empty for one try."))


def _input(texts: Texts) -> Any:
    text = texts.get("input")
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError as wrong:
        where = f" (line {wrong.lineno}, column {wrong.colno})" if isinstance(wrong, json.JSONDecodeError) else ""
        raise InvalidInput(_("This is not JSON%(where)s. Give an object, such as {}.") % {"where": where}) from None
    except RecursionError:
        raise InvalidInput(_("This JSON is nested too deep.")) from None
    if not isinstance(value, dict):
        raise InvalidInput(_('Give a JSON object, such as {"file": "notes.md"}; not a list, text or number.'))
    return value


def _labels(texts: Texts) -> list[str]:
    return [part.strip() for part in texts.get("labels").split(",") if part.strip()]


def _deps(texts: Texts) -> list[str]:
    ids = _dep_ids(texts.deps)
    if len(ids) > MAX_DEPS:
        raise InvalidInput(_("A task waits for at most %(most)d others.") % {"most": MAX_DEPS})
    if wrong := next((name for name in ids if not _ID.fullmatch(name)), ""):
        raise InvalidInput(_("“%(name)s” is not the id of a task. Choose one from the list.") % {"name": wrong[:80]})
    return ids


def _dep_ids(texts: Iterable[str]) -> list[str]:
    """The ids: the first word of each field, so that a chosen option may carry its title behind it."""
    words = [word for text in texts for word in re.split(r"[,\n]", text)]
    return list(dict.fromkeys(word.split()[0] for word in words if word.split()))


def _due_at(texts: Texts) -> datetime | None:
    if not texts.get("due_at"):
        return None
    moment = _lenient_moment(texts)
    if moment is None:
        raise InvalidInput(_("Give the due time as a date and a time."))
    return moment


def _lenient_moment(texts: Texts) -> datetime | None:
    try:
        moment = parse_datetime(texts.get("due_at"))
    except ValueError:
        return None
    if moment is not None and is_naive(moment):
        return moment.replace(tzinfo=timezone(timedelta(minutes=-texts.offset)))
    return moment


# What the form calls a field whose name in the engine is another one.
_NAMES: Final = {
    "goal": lambda: _("The goal"),
    "title": lambda: _("The title"),
    "context": lambda: _("The context"),
    "input": lambda: _("The input"),
    "labels": lambda: _("Labels"),
    "assignee": lambda: _("The assignee"),
    "checker": lambda: _("The checker"),
    "priority": lambda: _("Priority"),
    "max_attempts": lambda: _("Tries"),
    "due_at": lambda: _("The due time"),
    "id": lambda: _("The id"),
}
_READERS: Final = {
    "goal": lambda texts: texts.fields.get("goal", "").replace("\r\n", "\n").strip(),
    "title": lambda texts: texts.get("title"),
    "context": lambda texts: texts.get("context").replace("\r\n", "\n"),
    "input": _input,
    "labels": _labels,
    "deps": _deps,
    "assignee": lambda texts: texts.get("assignee"),
    "checker": lambda texts: texts.get("checker"),
    "priority": _priority,
    "max_attempts": _max_attempts,
    "due_at": _due_at,
}
