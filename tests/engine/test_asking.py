"""Questions of workers and steps: what may be asked, and what the due time does with it (spec: 04 sections 1-2)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from boards import errors, people, tasks
from boards.models import Event, Hold, TranscriptItem
from boards.people import decisions
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)

AB = [{"value": "a", "label": "A"}, {"value": "b", "label": "B"}]


@pytest.fixture
def ask(board, anna, worker):
    """Ask as the worker of a running task."""
    cast.filed(board, anna)
    ticket = cast.claimed(board).ticket
    return lambda **question: people.open_hold(worker, claim=ticket, **{"prompt": "Which?", **question})


def run_out(hold):
    Hold.objects.filter(pk=hold.pk).update(due_at=Now() - timedelta(milliseconds=1))


@pytest.mark.parametrize(("kind", "yes"), [("approval", "approve"), ("gate", "send"), ("review", "approve")])
def test_silence_is_never_a_yes_whatever_default_was_asked_for(ask, kind, yes):
    with pytest.raises(errors.InvalidInput, match="default"):
        ask(kind=kind, default=yes, due_in_ms=1)
    assert not Hold.objects.exists()
    stored = Hold(kind=kind, default=yes)
    assert (decisions.expiry_answer(stored) or {}).get("choice", "") not in decisions.YES


BAD = {
    "a default that is no option": {"kind": "question", "options": AB, "default": "c"},
    "a default of a confirm that is neither": {"kind": "confirm", "default": "perhaps"},
    "options that are words": {"kind": "question", "options": ["a", "b"]},
    "options of one value": {"kind": "question", "options": [AB[0], AB[0]]},
    "an option with an empty value": {"kind": "question", "options": [AB[0], {"value": ""}]},
    "a value too long": {"kind": "question", "options": [AB[0], {"value": "x" * 1_001}]},
    "a default too long": {"kind": "question", "default": "x" * 101},
    "a key too long": {"kind": "question", "dedup_key": "x" * 201},
    "a schema that is none": {"kind": "input", "schema": {"type": "banana"}},
    "a schema that is a list": {"kind": "input", "schema": ["a"]},
    "a schema that points away": {"kind": "input", "schema": {"$ref": "http://127.0.0.1:9/schema.json"}},
    "a schema that points nowhere": {"kind": "input", "schema": {"properties": {"a": {"$ref": "#/$defs/none"}}}},
    "a schema that is itself": {"kind": "input", "schema": {"$ref": "#"}},
    "a schema with a bad pattern": {"kind": "input", "schema": {"properties": {"a": {"pattern": "("}}}},
    "a due time that is words": {"kind": "question", "due_in_ms": "soon"},
    "a due time beyond all days": {"kind": "question", "due_in_ms": 10**18},
}


@pytest.mark.parametrize("question", BAD.values(), ids=BAD)
def test_a_question_that_could_never_be_answered_is_refused(ask, question):
    with pytest.raises(errors.InvalidInput):
        ask(**question)
    assert not Hold.objects.exists()


def test_any_text_can_be_asked(ask, anna):
    bad = "x\x00\ud800"
    options = [{"value": "a\x00", "label": bad}, {"value": "b", "label": "B"}]
    hold = ask(
        kind="question",
        prompt=bad,
        title=bad,
        context=bad,
        options=options,
        default="a\x00",
        draft={bad: [bad]},
        dedup_key="k\x00",
    )
    assert (hold.prompt, hold.default, hold.dedup_key) == ("x\ufffd\ufffd", "a\ufffd", "k\ufffd")
    again = ask(kind="question", prompt=bad, dedup_key="k\x00")
    assert again.pk == hold.pk
    form = ask(kind="input", schema={"properties": {"a": {"title": bad, "type": "string"}}})
    answered = people.answer_hold(anna, form.pk, values={"a": bad, "b\x00": 1}, text=bad, idempotency_key="once\x00")
    assert answered.answer == {"values": {"a": "x\ufffd\ufffd", "b\ufffd": 1}, "text": "x\ufffd\ufffd"}
    repeated = people.answer_hold(anna, form.pk, values={"a": bad, "b\x00": 1}, text=bad, idempotency_key="once\x00")
    assert repeated.pk == form.pk


def test_the_longest_answer_is_one_transcript_line(ask, anna):
    hold = ask(kind="question")
    people.answer_hold(anna, hold.pk, text="x" * 100_000)
    hold.refresh_from_db()
    assert len(hold.answer["text"]) == 100_000
    assert TranscriptItem.objects.get(kind="answered").text.endswith("[cut at 64 KiB]")


def test_a_key_too_long_is_refused_and_not_cut(ask, anna):
    with pytest.raises(errors.InvalidInput, match="idempotency_key"):
        people.answer_hold(anna, ask(kind="question").pk, text="x", idempotency_key="k" * 201)


def test_a_form_without_a_schema_takes_any_object(ask, anna):
    assert people.answer_hold(anna, ask(kind="input").pk, values={"a": 1}).answer["values"] == {"a": 1}


def test_a_dismissal_after_the_due_time_finds_the_expiry(ask, anna):
    hold = ask(kind="approval")
    run_out(hold)
    with pytest.raises(errors.AlreadyAnswered, match="in time"):
        people.dismiss_hold(anna, hold.pk)
    hold.refresh_from_db()
    assert (hold.state, hold.answer) == ("expired", {"choice": "reject", "text": ""})
    assert list(Event.objects.filter(kind__startswith="hold.").values_list("kind", flat=True)) == [
        "hold.opened",
        "hold.expired",
    ]


def test_an_overdue_question_without_a_default_can_be_dismissed(ask, anna):
    hold = ask(kind="question")
    run_out(hold)
    assert people.dismiss_hold(anna, hold.pk).state == "discarded"


def test_one_question_that_cannot_expire_keeps_no_other_from_it(ask, monkeypatch):
    first, second = ask(kind="approval"), ask(kind="approval", prompt="And this?")
    for hold in (first, second):
        run_out(hold)
    from boards.people import expiring

    real = expiring.expire

    def poison(hold, subject):
        if hold.pk == first.pk:
            raise RuntimeError("poison")
        return real(hold, subject)

    monkeypatch.setattr(expiring, "expire", poison)
    with pytest.raises(RuntimeError, match="poison"):
        people.expire_due()
    assert list(Hold.objects.order_by("pk").values_list("state", flat=True)) == ["open", "expired"]


def test_what_a_form_was_answered_with_is_said_in_words(ask, anna):
    hold = ask(kind="input")
    people.answer_hold(anna, hold.pk, values={"a": 1})
    with pytest.raises(errors.AlreadyAnswered, match="Anna filled in the form at"):
        people.answer_hold(anna, hold.pk, values={"a": 2})


def test_a_step_has_one_name_that_can_be_stored(board, anna, worker):
    cast.filed(board, anna)
    ticket = cast.claimed(board).ticket
    for name in ("a\x00", "\ud800", "x" * 201, ""):
        with pytest.raises(errors.InvalidInput, match="step"):
            tasks.record_step(ticket, name, 1)


def test_a_turn_that_asks_once_more_before_it_is_resumed_waits_for_that_answer_too(board, anna, worker):
    task = cast.filed(board, anna)
    ticket = cast.claimed(board).ticket
    first = people.open_hold(worker, claim=ticket, kind="question", prompt="Which?")
    people.suspend(ticket)
    people.answer_hold(anna, first.pk, text="This one")
    task.refresh_from_db()
    assert task.resume_ready_at is not None
    second = people.open_hold(worker, claim=ticket, kind="question", prompt="And then?", dedup_key="then")
    task.refresh_from_db()
    assert (task.open_holds, task.resume_ready_at) == (1, None)
    people.answer_hold(anna, second.pk, text="That one")
    task.refresh_from_db()
    assert (task.open_holds, task.resume_ready_at is not None) == (0, True)
