"""Prompts and conditions of a flow: sandboxed templates in which every unknown name is an error.

Pure: works on the values it is given. `boards.flows.data` says what those are; nothing here reads a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

PROMPT_NAMES: Final = frozenset({"input", "steps", "run", "data"})
CONDITION_NAMES: Final = PROMPT_NAMES | {"output"}
RUN_FIELDS: Final = ("name", "number", "flow", "started_by")
MAX_RENDERED: Final = 200_000
_MAX_REPEAT: Final = 10_000
_DICT_METHODS: Final = frozenset({"items", "keys", "values", "get"})


class TemplatingError(ValueError):
    """A template or condition that cannot be read or worked out; the message is the sentence for the reader."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a template of one flow may name: the names themselves, the steps' keys, the inputs (None = any)."""

    names: frozenset[str]
    steps: frozenset[str]
    inputs: frozenset[str] | None = None


# Filters and methods that make as long a text as somebody writes a number.
_WIDENING: Final = ("format", "center", "indent")
_WIDENING_METHODS: Final = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs", "format", "format_map"})


class _Sandbox(ImmutableSandboxedEnvironment):
    """No globals, and no arithmetic that makes gigabytes out of a line."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr in _WIDENING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        for one, other in ((left, right), (right, left)):
            repeats = isinstance(one, str | list | tuple) and isinstance(other, int)
            if repeats and (other > _MAX_REPEAT or len(one) * other > MAX_RENDERED):
                raise SecurityError("this repeats a text too often")
        if operator == "**":
            raise SecurityError("powers are not allowed")
        if operator == "%" and isinstance(left, str):
            raise SecurityError("texts are not formatted by %; join them with ~")
        return super().call_binop(context, operator, left, right)


def _environment() -> _Sandbox:
    # Not optimized: constants are not worked out while somebody types.
    sandbox = _Sandbox(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=False, optimized=False)
    sandbox.globals.clear()
    for name in _WIDENING:
        sandbox.filters.pop(name, None)
    return sandbox


_ENV: Final = _environment()


def render(template: str, values: Mapping[str, Any]) -> str:
    """The text that `template` makes of `values`. Raises `TemplatingError` with a sentence."""
    parts: list[str] = []
    size = 0
    with _as_sentence(template):
        for part in _ENV.from_string(template).generate(values):
            size += len(part)
            if size > MAX_RENDERED:
                raise TemplatingError(f"The template makes more than {MAX_RENDERED:,} characters.")
            parts.append(part)
    return "".join(parts)


def holds(condition: str, values: Mapping[str, Any]) -> bool:
    """Whether a `when:` holds for `values`. Raises `TemplatingError` with a sentence."""
    with _as_sentence(condition):
        return bool(_ENV.compile_expression(condition, undefined_to_none=False)(**values))


def template_faults(template: str, known: Known) -> list[str]:
    """What is wrong with a prompt, as sentences; an empty list when it may be saved."""
    return _faults(lambda: _ENV.parse(template), known)


def condition_faults(condition: str, known: Known) -> list[str]:
    """What is wrong with a `when:`, as sentences; an empty list when it may be saved."""
    return _faults(lambda: _parse_expression(condition), known)


class _as_sentence:
    """Turns whatever a template raises into one sentence; a template can raise anything its values can."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, TemplatingError) or not isinstance(error, Exception):
            return
        line = next((line.strip() for line in self.source.splitlines() if line.strip()), "")
        raise TemplatingError(f'"{line[:120]}" could not be worked out: {error}.') from error


def _parse_expression(source: str) -> nodes.Template:
    parser = Parser(_ENV, source, state="variable")
    expression = parser.parse_expression()
    if not parser.stream.eos:
        raise TemplatingError(f'"{source.strip()[:120]}" is more than one expression.')
    tree = nodes.Template([nodes.Output([expression], lineno=1)], lineno=1)
    tree.set_environment(_ENV)
    return tree


def _faults(parse: Callable[[], nodes.Template], known: Known) -> list[str]:
    try:
        tree = parse()
        unknown = meta.find_undeclared_variables(tree) - known.names
        compiled_faults = _filters_and_tests(tree)
    except (TemplateError, TemplatingError, RecursionError, ValueError) as error:
        return [f"This cannot be read: {' '.join(str(error).split()).rstrip('.')}."]
    faults = [f'Unknown name "{name}". Known here: {_listed(known.names)}.' for name in sorted(unknown)]
    return faults + compiled_faults + list(_unknown_parts(tree, known))


def _filters_and_tests(tree: nodes.Template) -> list[str]:
    filters = {node.name for node in tree.find_all(nodes.Filter)} - set(_ENV.filters)
    tests = {node.name for node in tree.find_all(nodes.Test)} - set(_ENV.tests)
    unknown = [("filter", name) for name in sorted(filters)] + [("test", name) for name in sorted(tests)]
    return [f'Unknown {what} "{name}".' for what, name in unknown]


def _unknown_parts(tree: nodes.Template, known: Known) -> Iterator[str]:
    allowed: dict[str, tuple[frozenset[str] | None, str]] = {
        "steps": (known.steps, "There is no step with the key"),
        "input": (known.inputs, "There is no input"),
        "run": (frozenset(RUN_FIELDS), "A run has no field"),
    }
    looks: Iterator[Any] = tree.find_all((nodes.Getattr, nodes.Getitem))
    for node in looks:
        if not isinstance(node.node, nodes.Name) or node.node.name not in allowed:
            continue
        names, words = allowed[node.node.name]
        part = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", None)
        if names is not None and isinstance(part, str) and part not in names | _DICT_METHODS:
            yield f'{words} "{part}". Known: {_listed(names)}.'


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"
