"""Small words of the templates: icons, who, statuses, times, safe text, and the one way to render a card.

Presentation only: nothing here reads the database. Times carry the exact moment; `static/js/times.js` puts them into
the reader's zone and lets ages tick.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from django import template
from django.template.loader import get_template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _

from boards import markup
from boards.models import Task
from boards.queries import clock
from boards.queries.cards import CardView, task_dom_id
from boards.queries.flow_cards import RunCard
from boards.states import Status
from boards.tasks.decisions import StartFacts, why_not_starting

register = template.Library()

STATUS_ICONS: Final = {
    Status.PENDING: "ready",
    Status.HELD: "held",
    Status.IN_PROGRESS: "working",
    Status.NEEDS_CHECK: "check",
    Status.ERRORED: "stuck",
    Status.COMPLETED: "done",
    Status.CANCELLED: "skipped",
}
_LABELS: Final = {status.value: status.label for status in Status}


@register.simple_tag
def icon(name: str, classes: str = "") -> SafeString:
    """An icon of the sprite; its meaning always stands beside it in words."""
    return format_html('<svg class="i{}" aria-hidden="true"><use href="#i-{}"/></svg>', classes and f" {classes}", name)


@register.simple_tag
def status_icon(status: str, classes: str = "") -> SafeString:
    """The glyph of a status in its colour."""
    name = STATUS_ICONS[Status(status)]
    return icon(name, f"st--{name} {classes}".strip())


@register.simple_tag
def status_pill(status: str) -> SafeString:
    """Glyph and word of a status."""
    name = STATUS_ICONS[Status(status)]
    return format_html('<span class="pill st--{}">{}{}</span>', name, icon(name), _(_LABELS[status]))


@register.filter
def status_label(status: str) -> str:
    return _(_LABELS[status]) if status in _LABELS else status


@register.filter
def status_class(status: str) -> str:
    """The end of the `st--` class of a status."""
    return STATUS_ICONS[Status(status)]


@register.simple_tag
def dom_id(task: Task | CardView) -> str:
    """The id of a task's element on any page; holds no key and nothing that its filer chose."""
    return task.dom_id if isinstance(task, CardView) else task_dom_id(task.board_id, task.public_id, task.partition)


@register.simple_tag
def bot(name: str, state: str = "", size: str = "") -> SafeString:
    """The square of an agent. `state`: working or you."""
    classes = "bot" + (f" bot--{state}" if state else "") + (f" bot--{size}" if size else "")
    return format_html('<span class="{}" aria-hidden="true">{}</span>', classes, first_sign(name).lower())


@register.simple_tag
def face(name: str, size: str = "") -> SafeString:
    """The circle of a person, with initials."""
    classes = "face" + (f" face--{size}" if size else "")
    return format_html('<span class="{}" aria-hidden="true">{}</span>', classes, initials(name))


@register.simple_tag
def who(name: str, person: str | bool = False) -> SafeString:
    """An agent by its roster name, or a person by theirs (`person` may be that name)."""
    shown = person if isinstance(person, str) and person else name
    mark = face(shown) if person else bot(name)
    return format_html('<span class="who">{}<span dir="auto">{}</span></span>', mark, shown)


@register.filter
def initials(name: str) -> str:
    words = [word for word in name.split() if word[0].isalnum()]
    return "".join(word[0] for word in words[:2]).upper() or "?"


@register.filter
def first_sign(name: str) -> str:
    """The first letter or digit of a name: what stands in an agent's square."""
    return next((sign for sign in name if sign.isalnum()), "?")


@register.simple_tag
def when(moment: datetime | None, shape: str = "age", classes: str = "", prefix: str = "") -> SafeString | str:
    """A moment. `shape`: age (26 min), ago (26 min ago), clock (10:12), second (10:12:08), due (due 12:00), moment;
    till: how long from now (in 19 h), or how late (12 min late); left: a countdown (1 h 17 min left).
    """
    if moment is None:
        return ""
    return format_html(
        '<time datetime="{}" data-t="{}"{}{}>{}</time>',
        _exact(moment),
        shape,
        format_html(' class="{}"', classes) if classes else "",
        format_html(' data-prefix="{}"', prefix) if prefix else "",
        prefix + _in_words(moment, shape),
    )


@register.simple_tag
def card_time(moment: datetime | None, shape: str = "age") -> SafeString | str:
    """A moment in HTML that is kept: its words are filled in by `with_times`, since ages pass."""
    if moment is None:
        return ""
    stands = f"{_MARK}{shape} {int(moment.timestamp())}{_MARK}"
    return format_html('<time datetime="{}" data-t="{}">{}</time>', _exact(moment), shape, stands)


@register.filter
def span(seconds: float) -> str:
    """A length of time as an age reads: 40 s, 26 min, 3 h, 2 d."""
    return age_words(seconds)


@register.filter(name="markdown")
def as_markdown(text: Any) -> SafeString:
    """Markdown as clean HTML; put it inside an element with `hx-disable` and `dir="auto"`."""
    return markup.markdown(str(text or ""))


@register.filter
def plain(text: Any) -> str:
    """What a program printed, without terminal codes, cut at the limit with a note."""
    return markup.plain(str(text or ""), 200_000)


@register.filter
def pretty_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.simple_tag
def cards(views: Iterable[CardView], reader: Any = "") -> SafeString:
    """Cards of the board. `reader`: a user id on the page's first paint; live fragments never name one."""
    language, mine = get_language(), str(reader or "")
    asked = ((view, bool(mine and view.ask and view.ask.you == mine)) for view in views)
    return with_times("".join(_rendered(view, _why(view), is_mine, False, language) for view, is_mine in asked))


def render_card(view: CardView, *, is_mine: bool = False, oob: bool = False) -> SafeString:
    """The card's HTML, made once per process for equal values and language. `oob`: for a socket."""
    return with_times(_rendered(view, _why(view), is_mine, oob, get_language()))


@register.simple_tag
def run_card(view: RunCard, reader: Any = "") -> SafeString:
    """A run on its flow's board, made once per process for equal values and language."""
    is_mine = bool(view.ask and reader and view.ask.you == str(reader))
    return with_times(_rendered_run(view, is_mine, get_language()))


@lru_cache(maxsize=8_192)
def _rendered_run(view: RunCard, is_mine: bool, language: str | None) -> str:
    # The page knows by its print whether a card that it has says the same.
    told = hashlib.blake2b(repr(view).encode(errors="replace"), digest_size=8).hexdigest()
    lines = get_template("flow/_run_card.html").render({"card": view, "is_mine": is_mine, "print": told}).split("\n")
    return "".join(line.strip() for line in lines)


# Drawn anew by each process: no text of a card can hold it, and stand where a moment is put in.
_MARK: Final = f"\x01{secrets.token_hex(8)}\x01"
_TIMES: Final = re.compile(f"{_MARK}(age|due|clock|second|left) ([0-9]{{1,12}}){_MARK}")


def with_times(html: str) -> SafeString:
    """What a template made, with the words of its `card_time`s as they read now."""
    return mark_safe(_TIMES.sub(_told, html))  # noqa: S308


def _told(found: re.Match[str]) -> str:
    return _in_words(datetime.fromtimestamp(int(found[2]), UTC), found[1])


def _exact(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@lru_cache(maxsize=8_192)
def _rendered(view: CardView, why: str, is_mine: bool, oob: bool, language: str | None) -> str:
    context = {"card": view, "why": why, "is_mine": is_mine, "oob": oob, "next_try": view.next_try}
    # The template is written to be read; between tags its white space means nothing.
    lines = get_template("board/_card.html").render(context).split("\n")
    return "".join(line.strip() for line in lines)


def _why(view: CardView) -> str:
    """The strongest reason why a Ready card does not start, unless a badge or the strip says it already."""
    if view.status != Status.PENDING or view.ask:
        return ""
    ended = tuple(pair for pair in view.blocked_by if pair[1] in {Status.ERRORED, Status.CANCELLED})
    if view.served and not ended and not view.chain_busy and not view.outside:
        return ""
    if view.waits_for and not ended:
        return ""
    return _why_words(view.assignee, ended, view.served, view.chain_busy, view.outside)


@lru_cache(maxsize=1_024)
def _why_words(assignee: str, ended: tuple[tuple[str, str], ...], served: bool, chain_busy: bool, outside: bool) -> str:
    row = Task(status=Status.PENDING, assignee=assignee)
    busy = "another task of its chain" if chain_busy else ""
    facts = StartFacts(waits_for=ended, served=served, chain_busy_with=busy, outside=outside)
    reasons = why_not_starting(row, facts, clock.now())
    return reasons[0] if reasons else ""


def _in_words(moment: datetime, shape: str) -> str:
    """What stands there before the module runs, and for readers without it: UTC."""
    now = clock.now()
    passed = (now - moment).total_seconds()
    if shape == "age":
        return age_words(passed)
    if shape == "ago":
        return _("%(age)s ago") % {"age": age_words(passed)}
    if shape == "till":
        words = _("%(age)s late") if passed > 0 else _("in %(age)s")
        return words % {"age": age_words(abs(passed))}
    if shape == "left":
        return _("%(span)s left") % {"span": span_words(-passed)} if passed < 0 else _("its time is up")
    if shape == "due" and passed > 0:
        return _("overdue %(age)s") % {"age": age_words(passed)}
    utc = moment.astimezone(UTC)
    short = f"{utc:%H:%M}" if utc.date() == now.date() else f"{utc.day} {utc:%b %H:%M}"
    if shape == "due":
        return _("due %(time)s") % {"time": short}
    if shape == "second":
        return f"{utc:%H:%M:%S}"
    return short if shape == "clock" else f"{utc:%Y-%m-%d %H:%M:%S} UTC"


def age_words(seconds: float) -> str:
    """40 s, 26 min, 3 h, 2 d: the largest unit alone, as a card has room for."""
    seconds = max(0, int(seconds))
    if seconds < 60:
        return _("%(n)s s") % {"n": seconds}
    if seconds < 3600:
        return _("%(n)s min") % {"n": seconds // 60}
    if seconds < 86400:
        return _("%(n)s h") % {"n": seconds // 3600}
    return _("%(n)s d") % {"n": seconds // 86400}


def span_words(seconds: float) -> str:
    """40 s, 26 min, 1 h 17 min, 2 d 3 h: what a countdown shows, by the two largest units."""
    seconds = max(0, int(seconds))
    if seconds < 3600:
        return age_words(seconds)
    small = seconds % 86400 // 3600 * 3600 if seconds >= 86400 else seconds % 3600 // 60 * 60
    return f"{age_words(seconds)} {age_words(small)}" if small else age_words(seconds)


@register.filter
def tasks_word(count: int) -> str:
    """`1 task`, `3 tasks`."""
    return ngettext("%(n)s task", "%(n)s tasks", count) % {"n": f"{count:,}"}
