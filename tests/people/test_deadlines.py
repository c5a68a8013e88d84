"""The due time against an answer: one clock, one outcome, and it is the one that the row had announced (fault 16)."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from boards import errors, people
from boards.models import Event, Hold
from boards.queries.silence import if_nobody
from tests.people.conftest import Desk
from tests.racing import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

ROUNDS = 100
NAMES = [{"value": "safe", "label": "Safe"}, {"value": "fast", "label": "Fast"}]
# kind -> how it is asked, how it is answered, what silence reads as, what the row says of silence
ASKS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None, str]] = {
    "approval": ({}, {"choice": "approve"}, {"choice": "reject", "text": ""}, "then a no"),
    "gate": ({}, {"choice": "send"}, {"choice": "discard", "text": ""}, "then discarded"),
    "question": (
        {"options": NAMES, "default": "safe"},
        {"choice": "fast"},
        {"choice": "safe", "text": ""},
        "then “Safe”",
    ),
    "confirm": ({"default": "no"}, {"choice": "yes"}, {"choice": "no", "text": ""}, "then “No”"),
    "review": ({"draft": "Text"}, {"choice": "approve"}, None, "then the attempt fails"),
    "input": ({"schema": {"properties": {"n": {"type": "integer"}}}}, {"values": {"n": 1}}, None, "then the attempt"),
}


def test_of_an_answer_and_two_sweepers_at_the_due_time_one_counts(desk: Desk) -> None:
    chance, outcomes = random.Random(16), []
    for number in range(ROUNDS):
        kind = list(ASKS)[number % len(ASKS)]
        asks, answer, silent, announced = ASKS[kind]
        hold = desk.asked(kind, due_in_ms=3_600_000, **asks)
        assert if_nobody(hold).short.startswith(announced), kind

        def answers(hold: Hold = hold, answer: dict[str, Any] = answer) -> Any:
            return people.answer_hold(desk.anna, hold.pk, shown_hash=hold.draft_hash, **answer)

        soon = timedelta(milliseconds=chance.randint(10, 150))
        Hold.objects.filter(pk=hold.pk).update(due_at=Now() + soon)
        said, *swept = at_once(answers, people.expire_due, people.expire_due)
        late = isinstance(said, errors.AlreadyAnswered)
        kinds = list(
            Event.objects.filter(data__hold=hold.pk).exclude(kind="hold.opened").values_list("kind", flat=True)
        )
        hold.refresh_from_db()
        if late:
            assert (kinds, hold.state, hold.answer) == (["hold.expired"], "expired", silent)
            assert "time" in said.sentence
            assert hold.answered_at >= hold.due_at
        else:
            assert (kinds, hold.state) == (["hold.answered"], "answered")
            assert (hold.answered_at < hold.due_at, swept) == (True, [0, 0]) or kind in {"question", "confirm"}
        outcomes.append(hold.state)
    assert {"answered", "expired"} == set(outcomes)  # else the rounds did not race


def test_a_late_answer_performs_the_expiry_itself_and_says_so(desk: Desk) -> None:
    hold = desk.asked(due_in_ms=0)
    with pytest.raises(errors.AlreadyAnswered, match="The due time passed at"):
        desk.answered(hold)
    hold.refresh_from_db()
    assert (hold.state, hold.answer["choice"], hold.answered_by_name) == ("expired", "reject", "the due time")
    assert people.expire_due() == 0


@pytest.mark.parametrize("kind", ["question", "confirm"])
def test_without_a_default_nothing_happens_at_the_due_time_and_the_answer_still_counts(desk: Desk, kind: str) -> None:
    hold = desk.asked(kind, due_in_ms=0)
    assert people.expire_due() == 0
    given = {"choice": "yes"} if kind == "confirm" else {"choice": "", "text": "This"}
    assert people.answer_hold(desk.anna, hold.pk, **given).state == "answered"
