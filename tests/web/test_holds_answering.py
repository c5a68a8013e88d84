"""Answering over the page: one decision, refusals in their place with every word kept, and no GET that decides."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from boards import people as engine
from boards.actors import person
from boards.models import Board, Hold, Task
from tests.web import people_cast as people

HTMX = {"HX-Request": "true"}
pytestmark = pytest.mark.django_db


@pytest.fixture
def who() -> people.Cast:
    return people.cast()


@pytest.fixture
def anna(who) -> Client:
    client = Client()
    client.force_login(who.anna.user)
    return client


def post(client, hold, verb="answer", *, htmx=True, **form):
    form = {"key": "k1", "shown_hash": hold.draft_hash} | form
    return client.post(f"/holds/{hold.pk}/{verb}", form, headers=HTMX if htmx else {})


def state(hold) -> str:
    hold.refresh_from_db()
    return hold.state


def asked(who, kind="question", **fields) -> Hold:
    return people.hold(who, people.task(who, status="in_progress"), kind, **fields)


def test_an_answer_from_the_list_takes_the_row_away_and_repeats_the_verb(who, anna):
    hold = people.approval(who)
    response = post(anna, hold, choice="approve", text="fine", **{"from": "list"})
    assert response.status_code == 200
    assert (response["HX-Retarget"], response["HX-Reswap"]) == (f"#row-hold-{hold.pk}", "delete")
    assert "Approved: \\u201cAre the notes" in response["HX-Trigger"]
    assert state(hold) == "answered"
    assert hold.answer == {"choice": "approve", "text": "fine"}
    assert hold.answered_by == who.anna.user


def test_an_answer_on_a_run_or_task_page_is_shown_in_its_place(who, anna):
    hold = asked(who, title="Which name stays?")
    response = post(anna, hold, choice="safe", text="of course", **{"from": "page"})
    assert response["HX-Retarget"] == f"#ask-{hold.pk}"
    html = response.content.decode()
    assert "Anna Berg answered “safe mode”" in html
    assert "of course" in html
    assert "Which name stays?" in html


def test_without_htmx_it_goes_back_where_the_reader_was(who, anna):
    hold = asked(who)
    response = post(anna, hold, htmx=False, choice="safe", next="/needs-you/?kind=question")
    assert (response.status_code, response["Location"]) == (302, "/needs-you/?kind=question")
    elsewhere = post(anna, asked(who), htmx=False, choice="safe", next="https://example.com/")
    assert elsewhere["Location"] == "/needs-you/"


def test_a_question_of_another_partition_is_as_one_that_is_not_there(who, anna):
    task = people.task(who, status="in_progress")
    hold = people.hold(who, task, "approval", draft="Secret", draft_hash="h")
    Board.objects.filter(pk=task.board_id).update(partition_by="user")
    Task.objects.filter(pk=task.pk).update(partition=str(who.ben.user_id))
    assert anna.get(f"/holds/{hold.pk}/").status_code == 404
    for seer in (who.ben, who.olga):
        client = Client()
        client.force_login(seer.user)
        assert client.get(f"/holds/{hold.pk}/").status_code == 200


def test_the_first_answer_wins_and_the_second_is_told_who_what_and_when(who, anna):
    hold = people.approval(who)
    engine.answer_hold(person(who.ben), hold.pk, choice="approve", text="go", shown_hash=hold.draft_hash)
    response = post(anna, hold, choice="reject", text="my own words")
    html = response.content.decode()
    assert response.status_code == 409
    assert "Ben Okri approved this at" in html
    assert "data-closed" in html
    assert "go" in html
    assert "HX-Retarget" not in response  # the form, and what was typed into it, stays
    assert hold.answered_by is None
    assert (state(hold), hold.answer["choice"]) == ("answered", "approve")


def test_without_htmx_the_words_of_the_second_are_on_the_page(who, anna):
    hold = people.approval(who)
    engine.answer_hold(person(who.ben), hold.pk, choice="approve", shown_hash=hold.draft_hash)
    response = post(anna, hold, htmx=False, choice="reject", text="my own words")
    assert response.status_code == 409
    assert "my own words" in response.content.decode()
    assert "Ben Okri approved this at" in response.content.decode()


def test_the_same_press_twice_is_one_answer(who, anna):
    hold = asked(who)
    first, second = (post(anna, hold, choice="safe", key="one") for _ in range(2))
    assert first.status_code == second.status_code == 200
    assert post(anna, hold, choice="strict", key="one").status_code == 409


def test_a_draft_that_changed_meanwhile_is_shown_and_not_approved(who, anna):
    hold = people.approval(who)
    Hold.objects.filter(pk=hold.pk).update(draft="A new draft.", draft_hash="beef" * 16)
    response = post(anna, hold, choice="approve", text="my note")
    html = response.content.decode()
    assert response.status_code == 409
    assert response["HX-Retarget"] == f"#ask-form-{hold.pk}"
    for part in ("A new draft.", "my note", "changed while you were reading", "beef" * 16):
        assert part in html
    assert state(hold) == "open"


@pytest.mark.parametrize(
    ("kind", "form", "sentence"),
    [
        ("question", {}, "Choose an option, or write your own answer."),
        ("question", {"choice": "neither"}, "Choose one of"),
        ("approval", {"text": "hm"}, "Choose one of"),
        ("review", {"choice": "request_changes"}, "Say what should change."),
    ],
)
def test_what_is_missing_is_said_in_the_form(who, anna, kind, form, sentence):
    hold = asked(who, kind)
    response = post(anna, hold, **form)
    assert response.status_code == 422
    assert sentence in response.content.decode()
    assert "data-wrong" in response.content.decode()
    assert state(hold) == "open"


def test_past_its_due_time_the_answer_is_refused_and_the_expiry_done(who, anna):
    hold = people.approval(who, due_in=timedelta(seconds=-1))
    response = post(anna, hold, choice="approve")
    assert response.status_code == 409
    assert "The due time passed" in response.content.decode()
    assert state(hold) == "expired"


INPUT = {
    "type": "object",
    "required": ["from"],
    "properties": {
        "from": {"type": "string", "format": "date", "title": "First day"},
        "days": {"type": "integer", "minimum": 1},
        "quick": {"type": "boolean"},
        "parts": {"type": "array", "items": {"enum": ["a", "b"]}},
        "more": {"type": "object"},
    },
}


def test_a_form_made_from_a_schema_answers_typed_values(who, anna):
    hold = asked(who, "input", schema=INPUT)
    form = {"in.from": "2026-11-01", "in.days": "7", "in.parts": ["a", "b"], "in.more": '{"x": [1]}'}
    assert post(anna, hold, **form).status_code == 200
    hold.refresh_from_db()
    expected = {"from": "2026-11-01", "days": 7, "quick": False, "parts": ["a", "b"], "more": {"x": [1]}}
    assert hold.answer["values"] == expected


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({}, "First day: This is needed."),
        ({"in.from": "2026-11-01", "in.days": "many"}, "Days: Write a whole number."),
        ({"in.from": "2026-11-01", "in.days": "0"}, "Days: This must be at least 1."),
        ({"in.from": "2026-11-01", "in.more": "{"}, "More: This is not JSON."),
    ],
)
def test_a_form_says_which_field_is_wrong(who, anna, form, sentence):
    hold = asked(who, "input", schema=INPUT)
    response = post(anna, hold, **form)
    assert response.status_code == 422
    assert sentence in response.content.decode()
    assert state(hold) == "open"


def test_without_a_known_schema_there_is_a_json_editor(who, anna):
    hold = asked(who, "input", schema=None)
    assert 'name="values"' in anna.get(f"/holds/{hold.pk}/").content.decode()
    assert post(anna, hold, values="[1]").status_code == 422
    assert post(anna, hold, values='{"a": 1}').status_code == 200
    hold.refresh_from_db()
    assert hold.answer["values"] == {"a": 1}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "#"},
        {"properties": []},
        {"type": "object", "properties": {"a": {"type": "nothing"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "object", "properties": {"a": {"enum": 5}}},
        {"type": "object", "properties": {"a": {"title": {}, "maxLength": "9" * 5000}}},
    ],
)
def test_a_schema_that_cannot_be_used_is_said_and_nothing_is_fetched(who, anna, schema):
    hold = asked(who, "input", schema=schema)
    assert anna.get(f"/holds/{hold.pk}/").status_code == 200
    response = post(anna, hold, values="{}", **{"in.a": "x"})
    assert response.status_code == 422
    assert "The schema" in response.content.decode()
    assert state(hold) == "open"


def test_signs_that_cannot_be_stored_are_replaced(who, anna):
    hold = asked(who)
    assert post(anna, hold, text="a\0b", key="k\0").status_code == 200
    hold.refresh_from_db()
    assert hold.answer["text"] == "a\ufffdb"


def test_dismissing_ends_the_question_alone(who, anna):
    hold = asked(who)
    assert post(anna, hold, "dismiss").status_code == 200
    assert state(hold) == "discarded"
    assert post(anna, hold, "dismiss").status_code == 409


def test_a_get_never_decides(who, anna):
    hold = people.approval(who)
    for path in (f"/holds/{hold.pk}/answer?choice=approve", f"/holds/{hold.pk}/dismiss"):
        assert anna.get(path).status_code == 405
    assert anna.get(f"/holds/{hold.pk}/?choice=approve").status_code == 200
    assert state(hold) == "open"


def test_who_may_not_answer_finds_the_same_as_where_nothing_is(who, anna):
    other = people.cast()
    elsewhere = people.approval(other)
    assert post(anna, elsewhere, choice="approve").status_code == 404
    assert anna.get(f"/holds/{elsewhere.pk}/").status_code == 404
    bens = asked(who, assignee=who.ben.user)
    assert post(anna, bens, choice="safe").status_code == 404
    viewer = Client()
    viewer.force_login(who.vera.user)
    seen = asked(who)
    answers = [post(viewer, seen, choice="safe"), post(anna, bens, choice="safe"), post(anna, elsewhere, choice="yes")]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content.partition(b"<main")[2].partition(b"</main>")[0] for answer in answers}) == 1
    assert viewer.post(f"/holds/{seen.pk}/dismiss").status_code == 404
    assert state(seen) == "open"
    assert state(elsewhere) == state(bens) == "open"


def test_without_its_token_nothing_is_answered(who):
    client = Client(enforce_csrf_checks=True)
    client.force_login(who.anna.user)
    hold = asked(who)
    assert post(client, hold, choice="safe").status_code == 403
    assert state(hold) == "open"


def test_a_page_that_still_shows_it_is_told_what_became_of_it(who, anna):
    hold = people.approval(who)
    assert anna.get(f"/holds/{hold.pk}/", headers=HTMX).status_code == 204
    engine.answer_hold(person(who.ben), hold.pk, choice="reject", text="not yet", shown_hash=hold.draft_hash)
    html = anna.get(f"/holds/{hold.pk}/", headers=HTMX).content.decode()
    assert "Ben Okri rejected" in html
    assert "not yet" in html
