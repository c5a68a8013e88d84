"""Lines of several processes on one screen, each with the name of who said it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

COLOURS = ("cyan", "green", "magenta", "bold")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


class Screen(Console):
    """Our output. When whoever read it has gone (`up | head`), the work goes on in silence."""

    def on_broken_pipe(self) -> None:
        with contextlib.suppress(SystemExit):  # rich would leave here
            super().on_broken_pipe()


class Prefixed:
    """Prints `name │ line`. What a line holds is text: its escapes could repaint or rename the reader's terminal."""

    def __init__(self, screen: Console, names: Sequence[str]) -> None:
        self._screen = screen
        self._width = max(map(len, names))
        self._colours = dict(zip(names, COLOURS, strict=False))

    def __call__(self, name: str, line: str) -> None:
        clean = _CONTROLS.sub("", _ESCAPES.sub("", line))
        prefix = (f"{name.ljust(self._width)} │ ", self._colours.get(name, ""))
        with contextlib.suppress(OSError):  # the terminal was closed; the signal that tells of it is on its way
            self._screen.print(Text.assemble(prefix, clean), soft_wrap=True)
