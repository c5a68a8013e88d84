"""The state of one field of a task's form: locked, or wrong with its sentence. Presentation only."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag(takes_context=True)
def field_state(context: dict[str, Any], name: str) -> SafeString | str:
    """The attributes of the control `name`: disabled where it is locked, tied to its sentence where it is wrong."""
    if name in (context.get("locked") or ()):
        return SafeString(" disabled")
    if name in (context.get("errors") or {}):
        return format_html(' aria-invalid="true" aria-describedby="wrong-{}"', name)
    return ""
