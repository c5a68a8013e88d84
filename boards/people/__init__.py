"""What waits on people: asking, answering, expiring (spec: 04). The only writer of holds, besides a task's ending."""

from boards.people.answering import (
    answer_hold,
    closed_words,
    discard_visit_holds,
    dismiss_hold,
    expire_due,
    may_answer,
)
from boards.people.asking import answers_for, note_read, open_hold, open_step_hold, suspend
from boards.people.decisions import approved, choices_of

__all__ = [
    "answer_hold",
    "answers_for",
    "approved",
    "choices_of",
    "closed_words",
    "discard_visit_holds",
    "dismiss_hold",
    "expire_due",
    "may_answer",
    "note_read",
    "open_hold",
    "open_step_hold",
    "suspend",
]
