"""Turns what agents and people wrote into safe HTML or plain text (spec: 08 section 4).

All of it is hostile: markdown is parsed with raw HTML off and the result is cleaned again, so no attribute that could
steer a page (`id`, `class`, `style`, `hx-*`, `aria-*`, `data-*`) survives. Nothing here reads a database.
"""

from __future__ import annotations

import re
from typing import Final

import nh3
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from markdown_it import MarkdownIt

LONGEST: Final = 60_000  # characters of one text on a page (a second of parsing at worst); more is cut with a note
LONGEST_LINE: Final = 20_000  # one endless line would hold the parser and the reader's browser up

_SCHEMES: Final = {"http", "https", "mailto"}
_TAGS: Final = {
    *("p", "br", "hr", "strong", "em", "s", "del", "code", "pre", "blockquote", "a"),
    *("h3", "h4", "h5", "h6", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}

# What a terminal would act on: CSI, OSC (closed by BEL or ST) and the two-sign escapes.
_ANSI: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]"
)
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")


def markdown(text: str, limit: int = LONGEST) -> SafeString:
    """Markdown as HTML that is safe inside `hx-disable`; headings start at h3, pictures become links."""
    html = _parser().render(plain(text, limit))
    return mark_safe(  # noqa: S308 (cleaned on this very line)
        nh3.clean(
            html,
            tags=_TAGS,
            attributes=_ATTRIBUTES,
            attribute_filter=_keep,
            url_schemes=_SCHEMES,
            link_rel="noopener noreferrer nofollow",
        )
    )


def plain(text: str, limit: int = LONGEST) -> str:
    """The text without terminal codes and control signs, cut at `limit` characters with a note."""
    cut = len(text) > limit
    cleaned = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", strip_ansi(text[:limit]))
    lines = [_cut_line(line) for line in cleaned.split("\n")] if len(cleaned) > LONGEST_LINE else [cleaned]
    note = "\n\n" + _("Cut here: %(left)s more characters.") % {"left": f"{len(text) - limit:,}"} if cut else ""
    return "\n".join(lines) + note


def strip_ansi(text: str) -> str:
    """The text without the colour and cursor codes of a terminal."""
    return _ANSI.sub("", text) if "\x1b" in text or "\x9b" in text else text


def _cut_line(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:LONGEST_LINE]}… " + _("(line cut: %(left)s more characters)") % {
        "left": f"{len(line) - LONGEST_LINE:,}"
    }


def _keep(tag: str, attribute: str, value: str) -> str | None:
    """A link stays only with a full address of an allowed kind: a path could name one of our own acts."""
    if attribute == "href" and value.partition(":")[0].lower() not in _SCHEMES:
        return None
    return value


def _parser() -> MarkdownIt:
    # A new parser each time costs 0.2 ms; one shared by threads is not promised to be safe.
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 20})
    parser.enable(["table", "strikethrough"]).disable(["image", "html_block", "html_inline"])
    parser.add_render_rule("heading_open", _heading)
    parser.add_render_rule("heading_close", _heading)
    return parser


def _heading(self, tokens, index, options, env):  # type: ignore[no-untyped-def]
    """The page owns h1 and h2; a text's own headings begin below them."""
    token = tokens[index]
    token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
    return self.renderToken(tokens, index, options, env)
