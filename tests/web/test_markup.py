"""Markdown of agents and people: what survives, and what must not."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from boards.markup import LONGEST, LONGEST_LINE, markdown, plain, strip_ansi


def test_ordinary_markdown_reads_as_it_should() -> None:
    html = markdown("# Title\n\nSome **bold** and `code`.\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    for part in ("<h3>Title</h3>", "<strong>bold</strong>", "<code>code</code>", "<li>one</li>", "<td>1</td>"):
        assert part in html


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=alert(1)>",
        "<script>alert(1)</script>",
        '<div hx-post="/x" hx-trigger="load" id="needs-count" class="ask">x</div>',
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "[x](vbscript:msgbox)",
        "![x](https://example.org/track.png)",
        "<svg onload=alert(1)>",
        "<style>body{display:none}</style>",
        "<form action=/x><input name=y></form>",
        '<a href="https://e.org" target=_blank style="x" aria-label=y data-z=1 name=n for=f form=g>x</a>',
        "[x](/b/desk/t/t1/cancel)",
        "[x](//evil.example/)",
        '[x](https://e.org "t\\" onmouseover=\\"x")',
    ],
)
def test_nothing_that_could_act_survives(text: str) -> None:
    for tag, attributes in elements(markdown(text)):
        assert tag not in {"img", "script", "svg", "style", "form", "input", "div", "iframe", "object"}
        assert attributes.keys() <= {"href", "title", "rel"}
        assert re.match(r"(https?:|mailto:)", attributes.get("href") or "https:")


def elements(html: str) -> list[tuple[str, dict[str, str | None]]]:
    """What a browser would make of it: tags with their attributes."""
    found: list[tuple[str, dict[str, str | None]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.append((tag, dict(attributes)))  # type: ignore[method-assign]
    parser.feed(html)
    return found


def test_links_say_that_they_are_not_ours() -> None:
    assert markdown("[x](https://e.org)") == (
        '<p><a href="https://e.org" rel="noopener noreferrer nofollow">x</a></p>\n'
    )


def test_terminal_colours_and_control_signs_are_taken_out() -> None:
    assert strip_ansi("\x1b[31mred\x1b[0m \x1b]8;;http://e.org\x07link\x1b]8;;\x07 \x1b(Bx") == "red link x"
    assert (
        plain("a\x00b\x08c\ud800") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}"
    )
    assert plain("two\nlines\tand a tab") == "two\nlines\tand a tab"


def test_what_is_too_long_is_cut_with_a_note() -> None:
    assert "Cut here: 5 more characters." in plain("ab\n" * (LONGEST // 3) + "x" * (LONGEST % 3) + "12345")
    assert "line cut: 1 more characters" in plain("x" * (LONGEST_LINE + 1))
    assert len(markdown("x" * 5_000_000)) < LONGEST_LINE * 2


@pytest.mark.parametrize("text", ["[" * 50_000, "> " * 10_000, "*a " * 20_000, "![[" * 15_000, "`" * 9_999 + "a"])
def test_text_made_to_hold_the_parser_up_does_not(text: str) -> None:
    assert markdown(text)
