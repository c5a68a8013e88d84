"""Every state by every verb by every option, against a table written out by hand (spec: 01 section 2, 02 section 5)."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from boards.errors import IllegalTaskTransition
from boards.models import Task
from boards.states import TERMINAL, Verb
from boards.tasks import decisions
from boards.tasks.decisions import HandIn, Options, StartFacts
from boards.tasks.types import Reason, Recorded, Ticket

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
STATES = ["pending", "held", "in_progress", "needs_check", "completed", "errored", "cancelled"]

# m: may move, =: is there already, x: refused, t: refused because it has ended. Columns as in STATES.
TABLE = {
    "hold": "m = x x t t t",
    "release": "= m x x t t t",
    "claim": "m x m x t t t",
    "resume": "x x m x t t t",
    "abandon": "x x m x t t t",
    "reclaim": "x x m x t t t",
    "hand_back": "x x m x t t t",
    "complete": "x x m x = t t",
    "accept": "x x x m = t t",
    "send_back": "x x x m t t t",
    "fail": "x x m x t = t",
    "cancel": "m m m m t t t",
    "skip": "m x x x t m =",
    "retry": "x x x x t m m",
    "flow_deadline": "m m m m t m =",
}
CELLS = [
    (Verb(verb), status, cell) for verb, row in TABLE.items() for status, cell in zip(STATES, row.split(), strict=True)
]


def task(status: str = "in_progress", **fields: object) -> Task:
    ended = NOW if status in TERMINAL else None
    values = {"status": status, "attempts": 2, "grant_no": 3, "lease_until": None, "completed_at": ended}
    row = Task(key=7, board_id=1, public_id="t7", goal="g", created_at=NOW, incarnation_id=uuid.UUID(int=1))
    for name, value in {**values, **fields}.items():
        setattr(row, name, value)
    return row


def ticket(**fields: object) -> Ticket:
    base = Ticket(1, "", 7, 70, "t7", 2, 3, NOW, uuid.UUID(int=1))
    return replace(base, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("verb", "status", "cell"), CELLS)
def test_without_options_an_illegal_move_raises(verb, status, cell):
    row = task(status)
    if cell in "xt":
        with pytest.raises(IllegalTaskTransition):
            decisions.decline(row, verb, Options(), NOW)
        return
    outcome = decisions.decline(row, verb, Options(), NOW)
    assert (outcome is None) if cell == "m" else (outcome and outcome.result is Recorded.UNCHANGED)


@pytest.mark.parametrize(("verb", "status", "cell"), CELLS)
@pytest.mark.parametrize("options", [Options(if_allowed=True), Options(advisory=True)], ids=["if_allowed", "advisory"])
def test_softened_it_declines_and_says_why(verb, status, cell, options):
    outcome = decisions.decline(task(status), verb, options, NOW)
    if cell == "m":
        assert outcome is None
    elif cell == "x":
        assert outcome is not None
        assert outcome.reason is Reason.DISALLOWED
    elif cell == "t" or (options.if_allowed and status in TERMINAL):
        assert outcome is not None
        assert outcome.reason is Reason.TERMINAL
    else:
        assert outcome is not None
        assert outcome.result is Recorded.UNCHANGED


@pytest.mark.parametrize(("verb", "status", "cell"), CELLS)
def test_a_good_ticket_passes_where_the_move_may_be_made_by_its_holder(verb, status, cell):
    outcome = decisions.decline(task(status), verb, Options(claim=ticket()), NOW)
    if status in TERMINAL and cell != "m":
        assert outcome is not None
        assert outcome.reason is Reason.TERMINAL
    elif cell == "m" and status == "in_progress":
        assert outcome is None
    else:
        assert outcome is not None


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"task_key": 8}, Reason.NOT_MY_TASK),
        ({"board_id": 2}, Reason.NOT_MY_TASK),
        ({"partition": "p"}, Reason.NOT_MY_TASK),
        ({"incarnation_id": uuid.UUID(int=2)}, Reason.NOT_MY_TASK),
        ({"created_at": NOW - timedelta(1)}, Reason.NOT_MY_TASK),
        ({"grant_no": 2}, Reason.LOST_CLAIM),
        ({"attempt": 1}, Reason.LOST_CLAIM),
    ],
)
@pytest.mark.parametrize("verb", [Verb.COMPLETE, Verb.FAIL, Verb.HAND_BACK])
def test_a_wrong_ticket_declines(verb, bad, reason):
    outcome = decisions.decline(task(), verb, Options(claim=ticket(**bad)), NOW)
    assert outcome is not None
    assert (outcome.result, outcome.reason) == (Recorded.DECLINED, reason)


def test_reasons_are_resolved_in_the_fixed_order():
    stranger = Options(claim=ticket(task_key=8, grant_no=1), if_allowed=True)
    assert decisions.decline(task("completed"), Verb.FAIL, stranger, NOW).reason is Reason.TERMINAL
    assert decisions.decline(task("pending"), Verb.FAIL, stranger, NOW).reason is Reason.NOT_MY_TASK
    mine = Options(claim=ticket(grant_no=1), if_allowed=True)
    assert decisions.decline(task("pending"), Verb.FAIL, mine, NOW).reason is Reason.DISALLOWED
    assert decisions.decline(task(), Verb.FAIL, mine, NOW).reason is Reason.LOST_CLAIM


def test_a_lease_that_ran_out_loses_the_claim_and_a_missing_one_does_not():
    out = task(lease_until=NOW)
    assert decisions.decline(out, Verb.COMPLETE, Options(claim=ticket()), NOW).reason is Reason.LOST_CLAIM
    assert decisions.decline(task(lease_until=None), Verb.COMPLETE, Options(claim=ticket()), NOW) is None


@pytest.mark.parametrize(
    ("fields", "claimable"),
    [
        ({"status": "pending"}, True),
        ({"status": "pending", "unmet_deps": 1}, False),
        ({"status": "pending", "open_holds": 1}, False),
        ({"status": "pending", "not_before": NOW + timedelta(1)}, False),
        ({"status": "pending", "not_before": NOW}, True),
        ({"status": "held"}, False),
        ({"status": "in_progress"}, False),
        ({"status": "in_progress", "lease_until": NOW}, True),
        ({"status": "in_progress", "lease_until": NOW + timedelta(1)}, False),
        ({"status": "in_progress", "kept_open_by": "suspended", "resume_ready_at": NOW}, True),
        ({"status": "in_progress", "kept_open_by": "suspended", "resume_ready_at": None}, False),
        ({"status": "in_progress", "kept_open_by": "suspended", "resume_ready_at": NOW, "open_holds": 1}, False),
        ({"status": "needs_check"}, False),
        ({"status": "completed"}, False),
    ],
)
def test_who_may_be_claimed(fields, claimable):
    assert decisions.is_claimable(task(**fields), NOW) is claimable


@pytest.mark.parametrize(
    ("max_attempts", "failures", "soft"),
    [(None, 0, False), (1, 0, False), (2, 0, True), (2, 1, False), (3, 1, True), (3, 2, False)],
)
def test_a_failure_is_soft_while_a_try_is_left(max_attempts, failures, soft):
    assert decisions.failure_is_soft(task(max_attempts=max_attempts, failures=failures)) is soft


@pytest.mark.parametrize(("max_attempts", "failures", "after"), [(None, 1, None), (3, 3, 4), (3, 1, 3), (1, 1, 2)])
def test_a_retry_gives_one_more_try_only_where_none_is_left(max_attempts, failures, after):
    assert decisions.tries_after_retry(task(max_attempts=max_attempts, failures=failures)) == after


@pytest.mark.parametrize(
    ("row", "facts", "words"),
    [
        (task("held"), StartFacts(), "Held until"),
        (task("pending"), StartFacts(waits_for=[("First", "in_progress")]), "Waits for “First”"),
        (task("pending"), StartFacts(waits_for=[("First", "errored")]), "ended without completing"),
        (task("pending", open_holds=1), StartFacts(asks=["Really?"]), "Really?"),
        (task("pending"), StartFacts(board_paused=True), "paused"),
        (task("pending", not_before=NOW + timedelta(minutes=2)), StartFacts(), "12:02:00"),
        (task("pending"), StartFacts(person="Anna"), "Waits for Anna"),
        (task("pending", assignee="writer"), StartFacts(served=False), "No running drain serves “writer”"),
        (task("pending", assignee="writer"), StartFacts(free=False, busy_with="“First”"), "writer is busy with"),
    ],
)
def test_a_pending_card_says_why_it_does_not_start(row, facts, words):
    assert words in decisions.why_not_starting(row, facts, NOW)[0]


def test_a_card_that_starts_next_has_no_reason():
    assert decisions.why_not_starting(task("pending"), StartFacts(), NOW) == []


# kept_open_by, whether it is only looked at again, whether a filed task holds it -> what comes of it.
HAND_INS = [
    ("", False, False, HandIn.END),
    ("", False, True, HandIn.KEEP),
    ("", True, False, HandIn.NOTHING),
    ("", True, True, HandIn.NOTHING),
    ("suspended", False, False, HandIn.END),
    ("suspended", False, True, HandIn.KEEP),
    ("suspended", True, False, HandIn.NOTHING),
    ("suspended", True, True, HandIn.NOTHING),
    ("filed", False, False, HandIn.NOTHING),
    ("filed", False, True, HandIn.NOTHING),
    ("filed", True, False, HandIn.END),
    ("filed", True, True, HandIn.NOTHING),
]


@pytest.mark.parametrize(("kept", "looked_again", "keeping", "expected"), HAND_INS)
def test_what_a_hand_in_does_to_a_task_with_filed_work(
    kept: str, looked_again: bool, keeping: bool, expected: HandIn
) -> None:
    assert decisions.hand_in(task(kept_open_by=kept), looked_again=looked_again, keeping=keeping) is expected
