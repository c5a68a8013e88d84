"""Every kind of event is one sentence with its actor, and nothing that a reader cannot read gets in."""

from __future__ import annotations

import pytest
from django.utils import timezone

from boards.models import Event
from boards.queries.task import event_words
from boards.queries.task_words import check_words, event_line

ANNA = {"kind": "person", "name": "Anna Berg", "id": "7"}
WRITER = {"kind": "agent", "name": "writer", "id": "writer"}
SWEEPER = {"kind": "service", "name": "sweeper", "id": "sweeper"}

SENTENCES = [
    ("task.filed", [ANNA], {}, "Anna Berg filed it"),
    ("task.held", [ANNA], {}, "Anna Berg held it"),
    ("task.released", [ANNA], {"assignee": "shell"}, "Anna Berg released it to shell"),
    ("task.claimed", [WRITER], {}, "writer started attempt 2"),
    ("task.resumed", [WRITER], {}, "writer took attempt 2 up again"),
    ("task.completed", [WRITER], {}, "writer completed attempt 2"),
    ("task.handed_in", [WRITER], {}, "writer handed in attempt 2"),
    ("task.checked", [ANNA], {"verdict": "accepted"}, "Anna Berg accepted it"),
    ("task.checked", [ANNA], {"verdict": "sent back", "text": "Too long."}, "Anna Berg sent it back: “Too long.”"),
    ("task.errored", [WRITER], {"text": "No file."}, "writer failed for good in attempt 2: “No file.”"),
    (
        "task.errored",
        [SWEEPER],
        {"text": "It lost its worker."},
        "The sweeper settled it as Stuck: “It lost its worker.”",
    ),
    ("task.retried", [ANNA], {}, "Anna Berg retried it"),
    ("task.retry_requested", [ANNA], {"with": "“First”"}, "Anna Berg had it retried with “First”"),
    ("task.retry_requested", [ANNA], {}, "Anna Berg had it retried"),
    ("task.reclaimed", [ANNA], {}, "Anna Berg reclaimed it from a lost worker"),
    ("task.cancelled", [ANNA], {"text": "Not wanted."}, "Anna Berg cancelled it: “Not wanted.”"),
    ("task.withdrawn", [SWEEPER], {}, "The sweeper withdrew it, since its due time passed"),
    ("task.edited", [ANNA], {"fields": ["goal", "max_attempts"]}, "Anna Berg changed goal, max attempts"),
    ("task.edited", [ANNA], {"start_anyway_without": ["a", "b"]}, "Anna Berg let it start without a, b"),
    (
        "task.assignee_changed",
        [ANNA],
        {"from": "writer", "to": "shell"},
        "Anna Berg changed the assignee from writer to shell",
    ),
    ("task.priority_changed", [ANNA], {"from": 0, "to": 5}, "Anna Berg changed the priority from 0 to 5"),
    ("task.labels_changed", [ANNA], {}, "Anna Berg changed the labels"),
    ("task.metadata_changed", [ANNA], {}, "Anna Berg changed the metadata"),
    ("task.run_linked", [WRITER], {}, "writer linked attempt 2 to its run"),
    ("task.progressed", [WRITER], {"note": "Half."}, "writer reported progress: “Half.”"),
    ("task.steered", [ANNA], {"text": "Shorter."}, "Anna Berg sent a message: “Shorter.”"),
    ("task.handed_back", [ANNA], {}, "Anna Berg gave it back"),
    ("task.skipped", [ANNA], {"text": "No."}, "Anna Berg skipped it: “No.”"),
    ("hold.opened", [WRITER], {"prompt": "Which?"}, "writer asked “Which?”"),
    ("hold.answered", [ANNA], {"prompt": "Which?", "choice": "a"}, "Anna Berg answered “Which?”: “a”"),
    ("hold.undone", [ANNA], {}, "Anna Berg took back the answer to a question"),
    ("hold.expired", [SWEEPER], {}, "The sweeper closed, since its due time passed, a question"),
    ("hold.discarded", [ANNA], {"prompt": "Which?"}, "Anna Berg discarded “Which?”"),
    ("board.paused", [ANNA], {}, "Anna Berg recorded board paused"),
    ("step.entered", [SWEEPER], {}, "The sweeper recorded step entered"),
]


def event(kind: str, chain: list[dict[str, str]], data: dict[str, object], **fields: str) -> Event:
    return Event(kind=kind, chain=chain, data=data, attempt=2, at=timezone.now(), **fields)


@pytest.mark.parametrize(("kind", "chain", "data", "sentence"), SENTENCES, ids=lambda value: str(value)[:30])
def test_each_kind_is_a_sentence(kind, chain, data, sentence):
    assert event_words(event(kind, chain, data)) == sentence


def test_a_failure_with_a_try_left_says_so():
    words = event_words(event("task.errored", [WRITER], {"text": "No."}, to_status="pending"))
    assert words == "writer failed in attempt 2, which is tried again: “No.”"


def test_a_cascade_says_what_it_follows_from_and_quotes_once():
    words = event_words(event("task.cancelled", [SWEEPER], {"text": "“Build” failed."}, cause="cascade"))
    assert words == "The sweeper cancelled it, since a task it depends on ended: “Build” failed."


def test_a_claim_of_a_lapsed_row_says_that_a_worker_was_lost():
    words = event_words(event("task.claimed", [WRITER], {"lost_attempt": 1}, from_status="in_progress"))
    assert words == "writer took it over as attempt 2, since the worker before was lost"


def test_the_reader_is_you_and_an_agent_names_whom_it_acts_for():
    assert event_line(event("task.held", [ANNA], {}), 7).actor == "You"
    assert event_line(event("task.held", [ANNA, WRITER], {}), 7).actor == "writer for Anna Berg"
    assert check_words(event("task.checked", [ANNA], {"verdict": "sent back"}), 7) == "sent back by you"


def test_long_words_are_cut_and_an_empty_chain_has_an_actor():
    words = event_words(event("task.steered", [], {"text": "x" * 900}))
    assert words.startswith("Orchestra sent a message")
    assert len(words) < 360
    assert words.endswith("…”")
