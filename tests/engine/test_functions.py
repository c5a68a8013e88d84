"""The functions that `boards.tasks` offers: each is there, takes the caller chain, is typed and documents its errors
(spec: 01 section 5).
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

import pytest

from boards import errors, tasks
from boards.actors import Chain
from boards.models import Task
from boards.tasks import Claimed, Reason, TaskWriteOutcome, Ticket, progress

OUTCOME = TaskWriteOutcome
FUNCTIONS: dict[str, Any] = {
    "file_task": Task,
    "file_tasks": list[Task],
    "get_task": Task,
    "list_tasks": list[Task],
    "claim": list[Claimed],
    "begin_task_write": progress.WriteToken,
    "did_write_land": bool | None,
    "rows_in_session": list[Task],
    "find_task_partitions": list[str],
    "current_claim": Ticket | None,
} | dict.fromkeys(
    [
        *("update_task", "renew_lease", "complete", "fail", "cancel", "skip", "hold", "release", "accept"),
        *("send_back", "hand_back", "reclaim", "retry", "withdraw", "report_progress", "link_run", "record_spend"),
        *("set_assignee", "set_priority", "add_label", "remove_label", "patch_metadata"),
    ],
    OUTCOME,
)
# Why these take none: a claim asks `acts` for the chain of each assignee; a renewal has its ticket, and publishes
# nothing (02 section 3.2); the others look at a row or a session that the caller has, or at the caller itself.
WITHOUT_CHAIN = {"claim", "renew_lease", "begin_task_write", "did_write_land", "rows_in_session", "current_claim"}
NO_ERRORS = {"begin_task_write", "did_write_land", "rows_in_session", "find_task_partitions", "current_claim"}


def function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(tasks, name)
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_offered_with_the_chain_first_and_a_typed_result(name: str) -> None:
    assert name in tasks.__all__
    hints = typing.get_type_hints(inspect.unwrap(function(name)))
    assert hints["return"] == FUNCTIONS[name]
    parameters = list(inspect.signature(function(name)).parameters)
    assert set(parameters) <= hints.keys(), "everything is annotated"
    assert (hints.get("chain") is Chain and parameters[0] == "chain") is (name not in WITHOUT_CHAIN)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_says_what_it_does_and_which_errors_there_are(name: str) -> None:
    words = " ".join((function(name).__doc__ or "").split())
    assert words.endswith(".")
    assert (re.search(r"\b(Raises|raises|Declines|TaskNotFound)\b", words) is not None) is (name not in NO_ERRORS)
    named = set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", words)) - {"LostClaim"}
    unknown = {each for each in named if not hasattr(errors, each) and not hasattr(tasks, each)}
    assert unknown <= {"ValueError", "EndsForGood"}, "errors go by their own names"
    reasons = set(re.findall(r"`([a-z]+(?:-[a-z]+)+|terminal|disallowed|settling)`", words))
    assert reasons <= {reason.value for reason in Reason}
