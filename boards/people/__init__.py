"""What waits on people: asking, answering, expiring (spec: 04). The only writer of holds, besides a task's ending."""

from boards.people.answering import answer_hold, dismiss_hold
from boards.people.asking import note_read, open_hold, open_step_hold, suspend
from boards.people.assigning import assign_hold
from boards.people.checking import pay_late_check
from boards.people.closing import may_answer
from boards.people.decisions import approved, choices_of
from boards.people.expiring import discard_visit_holds, expire_due
from boards.people.reading import with_settling
from boards.people.seen import mark_seen
from boards.people.settling import set_settle_time, undo_hold
from boards.people.words import closed_words

__all__ = [
    "answer_hold",
    "approved",
    "assign_hold",
    "choices_of",
    "closed_words",
    "discard_visit_holds",
    "dismiss_hold",
    "expire_due",
    "mark_seen",
    "may_answer",
    "note_read",
    "open_hold",
    "open_step_hold",
    "pay_late_check",
    "set_settle_time",
    "suspend",
    "undo_hold",
    "with_settling",
]
