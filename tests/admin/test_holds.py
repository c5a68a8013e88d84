"""Who answered what, what waits long, and what nobody answered in time: found, filtered and exported by operators."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from django.db.models import F
from django.db.models.functions import Now
from django.urls import reverse

from boards import people
from boards.models import Hold, Task
from tests import cast as rows
from tests.admin.conftest import Cast

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "admin:boards_hold_changelist"


def asked(cast: Cast, prompt: str, kind: str = "question", **question: object) -> Hold:
    rows.filed(cast.board, rows.chain_of(cast.member))
    ticket = rows.claimed(cast.board).ticket
    hold = people.open_hold(rows.agent_chain(cast.board), claim=ticket, kind=kind, prompt=prompt, **question)
    people.suspend(ticket)
    return hold


@pytest.fixture
def holds(cast: Cast) -> dict[str, Hold]:
    made = {name: asked(cast, f"{name}?") for name in ("Quick", "Slow", "Long")}
    made["Late"] = asked(cast, "Late?", "approval", due_in_ms=0)
    people.answer_hold(rows.chain_of(cast.member), made["Quick"].pk, text="=HYPERLINK(1)")
    Hold.objects.filter(pk=made["Long"].pk).update(asked_at=F("asked_at") - timedelta(days=2))
    people.expire_due()
    return made


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("waited=1d", {"Long"}),
        ("past_due=expired", {"Late"}),
        ("past_due=overdue", set()),
        ("state__exact=answered", {"Quick"}),
        ("q=mia", {"Quick"}),
        ("waited=never", {"Quick", "Slow", "Long", "Late"}),
    ],
)
def test_filters(cast: Cast, holds: dict[str, Hold], query: str, shown: set[str]) -> None:
    text = cast.client(cast.operator).get(f"{reverse(LIST)}?{query}").content.decode()
    assert {name for name in holds if f">{name}?</a>" in text} == shown


def test_who_answered_is_a_filter_of_the_readers_own_spaces(cast: Cast, holds: dict[str, Hold]) -> None:
    client = cast.client(cast.operator)
    text = client.get(f"{reverse(LIST)}?answered_by={cast.member.user_id}").content.decode()
    assert ">Quick?</a>" in text
    assert ">Slow?</a>" not in text
    assert "Mia" in text
    assert "Mia" not in cast.client(cast.stranger).get(reverse(LIST)).content.decode()


def test_an_overdue_question_without_a_default_is_found(cast: Cast) -> None:
    hold = asked(cast, "Overdue?")
    Hold.objects.filter(pk=hold.pk).update(due_at=Now() - timedelta(minutes=1))
    assert ">Overdue?</a>" in cast.client(cast.operator).get(f"{reverse(LIST)}?past_due=overdue").content.decode()


def test_the_list_is_exported_and_no_cell_is_a_formula(cast: Cast, holds: dict[str, Hold]) -> None:
    asked(cast, "=cmd|'/c calc'!A0")
    form = {"action": "export", "select_across": "1", "_selected_action": [holds["Quick"].pk]}
    response = cast.client(cast.operator).post(reverse(LIST), form)
    assert response["Content-Type"].startswith("text/csv")
    lines = list(csv.DictReader(io.StringIO(b"".join(response.streaming_content).decode())))
    assert len(lines) == 5
    quick = lines[0]
    assert (quick["answered_by"], quick["state"], quick["note"]) == ("Mia", "answered", "'=HYPERLINK(1)")
    assert lines[-1]["prompt"].startswith("'=cmd")
    assert int(next(line for line in lines if line["prompt"] == "Long?")["waited_s"]) > 86_400


def test_another_spaces_questions_are_not_in_the_export(cast: Cast, holds: dict[str, Hold]) -> None:
    form = {"action": "export", "select_across": "1", "_selected_action": [holds["Quick"].pk]}
    response = cast.client(cast.stranger).post(reverse(LIST), form)
    content = b"".join(response.streaming_content) if response.streaming else response.content
    assert b"Quick?" not in content


def test_an_operator_dismisses_one_from_the_list(cast: Cast, holds: dict[str, Hold]) -> None:
    form = {"action": "dismiss", "_selected_action": [holds["Slow"].pk], "confirmed": "yes"}
    b"".join(cast.client(cast.operator).post(reverse(LIST), form).streaming_content)
    hold = Hold.objects.get(pk=holds["Slow"].pk)
    assert (hold.state, hold.answered_by_name) == ("discarded", "Olga")
    assert Task.objects.get(pk=hold.task_id).resume_ready_at is not None
