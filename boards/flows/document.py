"""Reads a YAML (or JSON) text into plain values that still know their line and path.

Pure: no rule of a flow stands here, only what makes a text readable at all: its size, its nesting, keys given twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

MAX_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 50


class _Loader(yaml.SafeLoader):
    """Scalars as YAML means them, but dates stay text: a JSON column could not keep them."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


# JSON writes 1e-05, which is a number in YAML 1.2 and text in 1.1. Whoever writes our documents needs to know it too.
JSON_FLOAT: Final = (
    "tag:yaml.org,2002:float",
    re.compile(r"^-?[0-9]+(?:\.[0-9]+)?[eE][-+]?[0-9]+$"),
    list("-0123456789"),
)
_Loader.add_implicit_resolver(*JSON_FLOAT)


@dataclass(frozen=True, slots=True)
class Located:
    """A value with where it stands. `value`: dict[str, Located], list[Located] or a scalar."""

    value: Any
    line: int
    path: str

    def plain(self) -> Any:
        """The value without its places, as it goes into a JSON column."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def items(self) -> Iterator[tuple[str, Located]]:
        yield from self.value.items()

    def child_path(self, key: str | int) -> str:
        if isinstance(key, int):
            return f"{self.path}[{key}]"
        return f"{self.path}.{key}" if self.path else key


@dataclass(slots=True)
class Problems:
    """What is wrong with a document, each as "line N, path: sentence"."""

    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, at: Located, sentence: str, key: str | int | None = None) -> None:
        path = at.path if key is None else at.child_path(key)
        self.at(at.line, path, sentence)

    def at(self, line: int, path: str, sentence: str) -> None:
        self.found.append((line, f"line {line}, {path}: {sentence}" if path else f"line {line}: {sentence}"))

    def sentences(self) -> list[str]:
        return [sentence for _, sentence in sorted(self.found, key=lambda each: each[0])]


def read(text: str, problems: Problems) -> Located | None:
    """The document's root, or None when it cannot be read at all; what is wrong goes into `problems`."""
    if len(text.encode(errors="replace")) > MAX_BYTES:
        problems.at(1, "", "The document is larger than 1 MB.")
        return None
    try:
        root = _compose(_without_tabs(text), problems)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = int(getattr(mark, "line", 0)) + 1
        problems.at(line, "", f"This is not valid YAML: {error.problem or error.context}.")
        return None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        problems.at(1, "", f"This is not valid YAML: {_first_line(error)}.")
        return None
    if root is None and not problems.found:
        problems.at(1, "", "The document is empty.")
    return root


def _without_tabs(text: str) -> str:
    """JSON may be indented with tabs, which YAML refuses; inside its texts there is never one as it is."""
    if "\t" not in text or not text.lstrip().startswith(("{", "[")):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text.replace("\t", " ")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _compose(text: str, problems: Problems) -> Located | None:
    if not _is_tame(text, problems):
        return None
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else _Builder(loader, problems).build(node, "")
    finally:
        loader.dispose()


def _is_tame(text: str, problems: Problems) -> bool:
    """Whether the text may be read whole: a few nested aliases stand for gigabytes, deep nesting for hours."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = int(getattr(event.start_mark, "line", 0)) + 1
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            problems.at(line, "", "Aliases (*name) are not supported: write the value out.")
            return False
        if depth > MAX_DEPTH:
            problems.at(line, "", f"This is nested deeper than {MAX_DEPTH} levels.")
            return False
    return True


@dataclass(slots=True)
class _Builder:
    loader: _Loader
    problems: Problems

    def build(self, node: yaml.Node, path: str) -> Located:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            return Located(self._mapping(node, path), line, path)
        if isinstance(node, yaml.SequenceNode):
            items = [self.build(child, f"{path}[{at}]") for at, child in enumerate(node.value)]
            return Located(items, line, path)
        return Located(self._scalar(node, path), line, path)

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Located]:
        built: dict[str, Located] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._scalar(key_node, path) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                self.problems.at(line, path, "A key must be text; put it in quotes.")
                continue
            if key in built:
                words = f'The key "{key}" is given twice; it stands on line {built[key].line} too.'
                self.problems.at(line, path, words)
                continue
            child = self.build(value_node, f"{path}.{key}" if path else key)
            # The key's line is where a reader looks, also for a block that begins on the next one.
            built[key] = Located(child.value, line, child.path)
        return built

    def _scalar(self, node: yaml.Node, path: str) -> Any:
        try:
            value = self.loader.construct_object(node)
        except Exception:  # whatever the reader of a tag stumbles over
            self.problems.at(node.start_mark.line + 1, path, "This value does not fit the tag that stands before it.")
            return None
        if isinstance(value, str):
            return self._text(value, node, path)
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float) and value == value and abs(value) != float("inf"):
            # As the database would hand it back: without an exponent, and with one zero only.
            return int(value) if abs(value) >= 1e16 else value + 0.0
        words = "This kind of value is not supported: use text, a number, true or false."
        self.problems.at(node.start_mark.line + 1, path, words)
        return None

    def _text(self, value: str, node: yaml.Node, path: str) -> str:
        """Text as a column can hold it; JSON may write one character as two escapes."""
        if "\0" in value:
            self.problems.at(node.start_mark.line + 1, path, "This holds a NUL character.")
        try:
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self.problems.at(node.start_mark.line + 1, path, "This holds half of a character (a lone surrogate).")
            return ""
