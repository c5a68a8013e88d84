"""Reads what a program prints: bytes into transcript lines, and the JSON object among them into its result.

Pure: nothing here reads a pipe or writes a row. Hostile output (endless lines, no newlines, broken
encodings) costs a bounded amount of memory (spec: 01 section 1, faults 23).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

MAX_LINE: Final = 65_536  # of one transcript line, in bytes
MAX_RESULT: Final = 1_048_576  # of an output, in characters
MAX_RAW: Final = 8 * MAX_RESULT  # a JSON line is kept whole up to here
MAX_ATTEMPT_LINES: Final = 20_000
MAX_ATTEMPT_BYTES: Final = 16 * MAX_RESULT
CUT_NOTE: Final = " … [cut at 64 KiB]"


class NotAnObject(ValueError):
    """The text is no JSON object that can be stored."""


def parse(text: str | bytes) -> Any:
    """Strict JSON: no NaN, no Infinity. Raises NotAnObject with the reason."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise NotAnObject(str(error)) from None


def cut_result(text: str) -> dict[str, Any]:
    """A result over the limit, as it is stored: the beginning and a note, and with both within the limit."""
    kept = text[: MAX_RESULT - 1_000]
    while len(json.dumps(kept, ensure_ascii=False)) > MAX_RESULT - 500:  # quotes and the like take more as JSON
        kept = kept[: len(kept) * 3 // 4]
    return {"text": kept + "…", "note": "Cut at 1 MiB.", "cut": True}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


@dataclass
class Lines:
    """Splits one stream into lines. `emit` gets each line's text, and `whole` its bytes for the search of a
    result.
    """

    emit: Callable[[str], None]
    whole: Callable[[bytes, bool], None] = lambda raw, complete: None
    _buffer: bytearray = field(default_factory=bytearray)
    _overlong: bool = False

    def feed(self, chunk: bytes) -> None:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._keep(chunk[start:end])
            self._end_line()
            start = end + 1
        self._keep(chunk[start:])

    def close(self) -> None:
        """The stream ended: what is left is a line as well."""
        if self._buffer:
            self._end_line()

    def _keep(self, part: bytes) -> None:
        room = MAX_RAW - len(self._buffer)
        self._overlong = self._overlong or len(part) > room
        self._buffer += part[:room]

    def _end_line(self) -> None:
        raw, complete = bytes(self._buffer), not self._overlong
        self._buffer.clear()
        self._overlong = False
        self.whole(raw, complete)
        shown = raw.rstrip(b"\r").rpartition(b"\r")[2]  # a progress bar draws over itself: its last state
        text = shown[:MAX_LINE].decode("utf-8", "replace")
        self.emit(text + CUT_NOTE if len(shown) > MAX_LINE or not complete else text)


@dataclass
class ResultLine:
    """Remembers the last line that is a JSON object; that is the output of a program which prints its
    result.
    """

    found: bool = False
    output: Any = None

    def look(self, raw: bytes, complete: bool) -> None:
        line = raw.strip()
        if not line.startswith(b"{"):
            return
        if not complete:
            self.found, self.output = True, cut_result(line.decode("utf-8", "replace"))
        elif line.endswith(b"}"):
            try:
                self.output = parse(line.decode("utf-8", "replace"))
            except NotAnObject:
                return
            self.found = True


def step_signal(raw: bytes, complete: bool) -> dict[str, Any] | None:
    """What a line says that begins with {"complete_step": …}: {"summary", "handoff"?, "blockers"?}; else None."""
    line = raw.strip()
    if not complete or b'"complete_step"' not in line[:40] or not line.startswith(b"{"):
        return None
    try:
        told = parse(line.decode("utf-8", "replace"))
    except NotAnObject:
        return None
    said = told.get("complete_step") if isinstance(told, dict) and len(told) == 1 else None
    if isinstance(said, str):
        return {"summary": said}
    return said if isinstance(said, dict) and isinstance(said.get("summary"), str) else None


@dataclass
class Allowance:
    """How much of a program's output is kept: past it, one note and then nothing."""

    say: Callable[[str], None]
    lines: int = 0
    size: int = 0
    spent: bool = False

    def admits(self, text: str) -> bool:
        """Whether this line is kept. Says so once when the first one is not."""
        self.lines += 1
        self.size += len(text)
        if not self.spent and (self.lines > MAX_ATTEMPT_LINES or self.size > MAX_ATTEMPT_BYTES):
            self.spent = True
            self.say("… [the output is too long: the rest of this attempt's lines is not kept]")
        return not self.spent
