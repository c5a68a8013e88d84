"""The page of *Needs you*: what it shows to whom, its filters, and that it stays calm with hostile text."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from tests.web import people_cast as people

pytestmark = pytest.mark.django_db
PAGE = "/needs-you/"


@pytest.fixture
def who() -> people.Cast:
    return people.cast()


def signed_in(member) -> Client:
    client = Client()
    client.force_login(member.user)
    return client


def get(member, path: str = PAGE, **headers) -> str:
    response = signed_in(member).get(path, headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def test_a_stranger_is_sent_to_sign_in(who):
    for name, args in (("needs_you", []), ("needs_rows", []), ("hold", [1]), ("flows", []), ("run", ["f", 1])):
        response = Client().get(reverse(f"web:{name}", args=args))
        assert response.status_code == 302
        assert response["Location"].startswith("/sign-in/")


def test_the_first_question_is_open_with_the_whole_ask(who):
    asked = people.approval(who, due_in=timedelta(minutes=17))
    people.hold(who, people.task(who, status="in_progress"), title="Which name stays?")
    html = get(who.anna)
    assert f'id="row-hold-{asked.pk}"' in html
    assert html.count("data-open ") == 1
    assert '<h4 dir="auto">Halyard 2.4' in html or "<h3>Halyard 2.4</h3>" in html
    assert "it reads as a no" in html
    assert f'value="{asked.draft_hash}"' in html
    assert "strict mode" in html


def test_another_row_can_be_the_open_one(who):
    people.approval(who, due_in=timedelta(minutes=17))
    asked = people.hold(who, people.task(who, status="in_progress"), title="Which name stays?")
    html = get(who.anna, f"{PAGE}?open=hold-{asked.pk}")
    assert f'id="ask-form-{asked.pk}"' in html
    assert html.count('id="ask-form-') == 1
    row = get(who.anna, f"/needs-you/row/hold-{asked.pk}/?open=1", **{"HX-Request": "true"})
    assert row.lstrip().startswith("{#") is False
    assert f'id="row-hold-{asked.pk}"' in row
    assert "<html" not in row
    assert "data-open-row" in get(who.anna, f"/needs-you/row/hold-{asked.pk}/", **{"HX-Request": "true"})


@pytest.mark.parametrize(
    "key", ["hold-999999", "hold-x", "run-1", "nothing", "hold-99999999999999999999999", "hold-\u00b2"]
)
def test_a_row_that_waits_no_more_is_not_there(who, key):
    client = signed_in(who.anna)
    assert client.get(f"/needs-you/row/{key}/").status_code == 404
    assert client.get(f"/needs-you/row/{key}/?open=1").status_code == 404


def test_filters_stand_in_the_address_and_odd_ones_are_none(who):
    people.hold(who, people.task(who, status="in_progress"), title="Which name stays?")
    people.task(who, "Build the preview", status="errored", error="No such file.")
    only = get(who.anna, f"{PAGE}?kind=stuck&board=release-desk")
    assert "Build the preview" in only
    assert "Which name stays?" not in only
    assert "Nothing that matches waits." in get(who.anna, f"{PAGE}?q=elsewhere")
    for odd in (
        "?kind=%00&whose=x&limit=-1&open=%F0",
        "?q=%00",
        "?limit=99999999999&board=%27",
        "?open=hold-" + "9" * 40,
    ):
        assert "Build the preview" in get(who.anna, PAGE + odd.replace("&board=%27", ""))


def test_an_empty_list_says_when_the_last_was_answered_and_what_is_being_worked(who):
    of = people.task(who, "Collect", status="in_progress")
    people.hold(who, of, state="answered", answer={"choice": "safe", "text": ""}, answered_at=timezone.now(),
                answered_by=who.anna.user, answered_by_name="Anna Berg")  # fmt: skip
    html = get(who.anna)
    assert "Nothing needs you." in html
    assert "You answered the last one" in html
    assert "1 task is being worked." in html
    assert "You answered “safe mode”" in html
    assert "Anna Berg answered “safe mode”" in get(who.ben)


def test_a_viewer_reads_and_is_offered_no_answer(who):
    asked = people.approval(who)
    html = get(who.vera, f"{PAGE}?whose=all&open=hold-{asked.pk}")
    assert "Are the notes for Halyard 2.4 right?" in html
    assert '<form class="ask-body"' not in html
    assert '/answer"' not in html


def test_a_question_for_somebody_else_shows_whom_it_waits_on(who):
    asked = people.hold(who, people.task(who, status="in_progress"), assignee=who.anna.user)
    html = get(who.ben, f"{PAGE}?whose=all&open=hold-{asked.pk}")
    assert "of Anna Berg" in html
    assert '/answer"' not in html


def test_hostile_words_are_shown_as_they_are(who):
    evil = "<img src=x onerror=alert(1)><div hx-get=/x hx-trigger=load>[x](javascript:alert(1))"
    of = people.task(who, evil, status="in_progress", assignee="writer")
    options = [{"value": evil, "label": evil, "description": evil}, {"value": "b", "label": "b"}]
    asked = people.hold(who, of, title=evil, prompt=evil, context=evil, asker=evil, options=options)
    people.approval(who, {"title": evil, "body": evil, "more": evil})
    for path in (PAGE, f"{PAGE}?open=hold-{asked.pk}", f"{PAGE}rows/", f"/holds/{asked.pk}/"):
        html = get(who.anna, path)
        assert "<img" not in html
        assert "<div hx-get=/x" not in html
        assert 'href="javascript' not in html


def test_the_rows_alone_come_folded_with_the_counts_around_them(who):
    people.approval(who)
    html = get(who.anna, f"{PAGE}rows/")
    assert "<html" not in html
    assert "data-open " not in html
    for part in ("needs-sum", "needs-rail", "needs-whose", "needs-aside"):
        assert f'id="{part}" hx-swap-oob="true"' in html


def test_the_page_costs_the_same_whatever_waits(who):
    client = signed_in(who.olga)

    def cost() -> int:
        with CaptureQueriesContext(connection) as caught:
            assert client.get(f"{PAGE}?whose=all").status_code == 200
        return len(caught)

    people.approval(who)
    people.task(who, status="errored")
    one = cost()
    for _ in range(20):
        people.approval(who)
        people.task(who, status="errored")
        people.hold(who, people.task(who, status="in_progress"))
    assert cost() == one <= 18


def test_a_long_list_comes_by_the_page(who):
    for _ in range(55):
        people.task(who, status="errored")
    html = get(who.anna)
    assert html.count('<li class="row"') == 30
    assert "Show 25 more" in html
    assert get(who.anna, f"{PAGE}?limit=100").count('<li class="row"') == 55
