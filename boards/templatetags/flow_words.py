"""What the fields of a flow are called in its form, and what is said below them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django import template
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

register = template.Library()

_WORDS: Final[Mapping[str, Promise]] = {
    "name": _("Name"),
    "description": _("Description"),
    "style": _("Style"),
    "agent": _("Agent"),
    "prompt": _("Prompt"),
    "inputs": _("Inputs"),
    "kind": _("Kind"),
    "color": _("Color"),
    "assignee": _("Assignee"),
    "draft": _("Draft to approve"),
    "checker": _("Checker"),
    "max_attempts": _("Attempts at most"),
    "timeout_ms": _("Due after, in milliseconds"),
    "schema": _("Schema of the form"),
    "duration_ms": _("Waits, in milliseconds"),
    "until": _("Waits until"),
    "event": _("Waits for an event"),
    "choices": _("Choices"),
    "branches": _("Branches"),
    "join": _("Goes on after"),
    "tasks": _("Tasks"),
    "judge": _("Judge"),
    "replanner": _("Replanner"),
    "finalize": _("Finalize"),
    "max_iterations": _("Rounds at most"),
    "flow": _("Flow that it calls"),
    "to": _("Told to"),
    "auto_advance_requires_signal": _("Moves on only after the agent said that the step is complete"),
    "cancel_triggers_turn_complete": _("A turn that a person cancels counts as complete"),
    "is_start_step": _("Runs start here"),
    "terminal": _("Runs end here"),
    "allow_manual_move": _("People may move a card here from any step"),
    "show_in_command_panel": _("Shown in the command palette"),
    "wip_limit": _("Runs at once"),
    "pull_from": _("Pulls from"),
    "auto_archive_after_hours": _("Archived after, in hours"),
    "events": _("Events"),
    "on_failure": _("When it fails"),
}
_HELP: Final[Mapping[str, Promise]] = {
    "inputs": _("A JSON schema: what starting a run asks for."),
    "assignee": _("A name on the board's roster. Empty: the flow's agent."),
    "checker": _("A name on the roster, person, or none. Empty: as the board says."),
    "timeout_ms": _("From entering the step on. Empty: no due time of its own."),
    "until": _("An ISO time with its offset, or a template that gives one."),
    "event": _("The key of an event that a webhook brings; a template. The event ends the wait, or its time does."),
    "choices": _("A list of ways: when and step; the last may have no when."),
    "branches": _("A list of steps that run side by side."),
    "join": _("all, any, or how many branches."),
    "tasks": _("A list: key, goal, and what else a task takes."),
    "to": _("A member, members, or operators. Empty: who started the run."),
    "wip_limit": _("0: no limit."),
    "auto_archive_after_hours": _("0: never."),
    "events": _("on_enter, on_turn_start, on_turn_complete and on_exit, each a list of actions."),
    "on_failure": _("steps that run then, and then: fail, continue, or goto and a step."),
}


@register.filter
def field_words(name: str) -> str:
    return str(_WORDS.get(name, name))


@register.filter
def field_help(name: str) -> str:
    return str(_HELP.get(name, ""))


@register.filter
def field_code(name: str) -> str:
    """The name that the text has for a field, where its label is another word."""
    return "" if field_words(name).lower() == name else name
