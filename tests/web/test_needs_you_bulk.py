"""Many rows at once: what is hit is counted and shown first, and each row says what came of it (04 section 3.4)."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from boards.models import Hold, Seen, Task
from boards.web import needs_bulk
from tests.web import people_cast as people

pytestmark = pytest.mark.django_db

BULK = "/needs-you/bulk"


@pytest.fixture
def who() -> people.Cast:
    return people.cast()


@pytest.fixture
def olga(who) -> Client:
    client = Client()
    client.force_login(who.olga.user)
    return client


def said(response) -> str:
    content = b"".join(response.streaming_content) if response.streaming else response.content
    return re.sub(r"\s+", " ", content.decode())


def pile_of(page: str, label: str) -> dict[str, object]:
    """The hidden fields of one pile's form, as a browser would send them."""
    form = next(form for form in page.split("<form")[1:] if f">{label}</h2>" in form)
    fields: dict[str, object] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form):
        if name != "csrfmiddlewaretoken":
            fields.setdefault(name, [])
            fields[name].append(value)
    return fields


def stuck(who, count: int) -> list[Task]:
    return [people.task(who, f"Build {n}", status="errored", failures=1, attempts=1) for n in range(count)]


def test_all_that_match_are_counted_before_and_told_row_by_row_and_the_filter_is_kept(who, olga):
    stuck(who, 30)
    people.hold(who, people.task(who, status="in_progress"))
    page = said(olga.post(BULK, {"all": "1", "kind": "stuck", "q": "Build"}))
    assert "30 rows" in page
    assert "Retry</span> (30)" in page
    assert "and 10 more" in page
    assert not Task.objects.filter(status="pending").exists()
    done = said(olga.post(BULK, pile_of(page, "Stuck") | {"act": "retry"}))
    assert done.count("Build ") >= 30
    assert "30 done." in done
    assert "kind=stuck&amp;q=Build" in done
    assert Task.objects.filter(status="pending").count() == 30


def test_one_that_is_refused_keeps_no_other_from_it(who, olga):
    first, second = stuck(who, 2)
    page = said(olga.post(BULK, {"row": [f"row-{key}" for key in keys_of(olga)]}))
    Task.objects.filter(pk=first.pk).update(status="completed")
    form = pile_of(page, "Stuck")
    answer = said(olga.post(BULK, form | {"act": "skip", "words": "Not this week"}))
    second.refresh_from_db()
    assert (second.status, second.error) == ("cancelled", "Not this week")
    assert "1 done, 1 waited no more." in answer


def test_one_that_is_deleted_meanwhile_keeps_no_other_from_it(who, olga, monkeypatch):
    stuck(who, 3)
    form = pile_of(said(olga.post(BULK, {"all": "1", "kind": "stuck"})), "Stuck")
    skip = needs_bulk.tasks.skip

    def and_deletes_another(chain, task, words):
        monkeypatch.setattr(needs_bulk.tasks, "skip", skip)
        outcome = skip(chain, task, words)
        Task.objects.filter(status="errored").order_by("pk").first().delete()
        return outcome

    monkeypatch.setattr(needs_bulk.tasks, "skip", and_deletes_another)
    answer = said(olga.post(BULK, form | {"act": "skip", "words": "Not this week"}))
    assert "2 done, 1 not." in answer
    assert not Task.objects.filter(status="errored").exists()


def keys_of(client) -> list[str]:
    page = said(client.get("/needs-you/?whose=all"))
    return [key.removeprefix("row-") for key in re.findall(r'class="row-pick"[^>]*value="([^"]+)"', page)]


def picked(client) -> list[str]:
    page = said(client.get("/needs-you/"))
    return re.findall(r'class="row-pick"[^>]*value="([^"]+)"', page)


def test_words_that_are_needed_are_asked_for_and_nothing_is_done(who, olga):
    [task] = stuck(who, 1)
    form = pile_of(said(olga.post(BULK, {"row": picked(olga)})), "Stuck")
    response = olga.post(BULK, form | {"act": "skip", "words": " "})
    assert response.status_code == 422
    assert "Say it in words first" in said(response)
    task.refresh_from_db()
    assert task.status == "errored"


def test_one_answer_goes_to_many_of_the_same_kind_each_bound_to_what_was_shown(who, olga):
    holds = [
        people.hold(who, people.task(who, status="in_progress"), "approval", draft=f"Draft {n}", draft_hash=f"h{n}")
        for n in range(3)
    ]
    page = said(olga.post(BULK, {"all": "1"}))
    assert all(f"Draft {n}" in page for n in range(3))
    form = pile_of(page, "Approvals")
    Hold.objects.filter(pk=holds[1].pk).update(draft="Draft of somebody", draft_hash="other")
    answer = said(olga.post(BULK, form | {"act": "answer:approve", "words": "Fine"}))
    assert "2 done, 1 not." in answer
    assert "changed while you were reading" in answer
    states = list(Hold.objects.order_by("pk").values_list("state", flat=True))
    assert states == ["answered", "open", "answered"]
    assert Hold.objects.get(pk=holds[0].pk).answer == {"choice": "approve", "text": "Fine"}


def test_questions_with_other_options_are_another_pile_and_forms_are_filled_in_one_by_one(who, olga):
    of = people.task(who, status="in_progress")
    people.hold(who, of)
    people.hold(who, of, options=[{"value": "a", "label": "A"}, {"value": "b", "label": "B"}])
    people.hold(who, of, "input", schema={"properties": {"n": {"type": "integer"}}})
    page = said(olga.post(BULK, {"all": "1"}))
    assert page.count(">Questions</h2>") == 2
    assert "These are answered one by one." in page


def test_too_many_drafts_to_be_read_are_not_answered_at_once(who, olga):
    for _ in range(101):
        people.hold(who, people.task(who, status="in_progress"), "approval", draft="Text", draft_hash="h")
    page = said(olga.post(BULK, {"all": "1"}))
    assert "too many to be shown at once" in page
    answer = said(olga.post(BULK, pile_of(page, "Approvals") | {"act": "answer:approve"}))
    assert "too many to be shown at once" in answer
    assert not Hold.objects.exclude(state="open").exists()


def test_what_is_not_the_members_own_is_left_alone(who):
    client = Client()
    client.force_login(who.ben.user)
    [task] = stuck(who, 1)  # Anna filed it
    assert "Nothing of what was selected" in said(client.post(BULK, {"all": "1", "whose": "all"}))
    task.refresh_from_db()
    assert task.status == "errored"


def test_rows_that_only_want_to_be_read_are_marked_as_seen(who, olga):
    from django.utils import timezone

    withdrawn = people.task(
        who, "Late", status="cancelled", withdrawn={"reason": "timeout"}, completed_at=timezone.now()
    )
    page = said(olga.post(BULK, {"all": "1"}))
    said(olga.post(BULK, pile_of(page, "Due time passed") | {"act": "seen"}))
    assert Seen.objects.get().key == f"withdrawn-{withdrawn.pk}"
    assert "Nothing needs you" in said(olga.get("/needs-you/"))


def test_a_viewer_is_offered_nothing(who):
    client = Client()
    client.force_login(who.vera.user)
    stuck(who, 2)
    assert "Nothing of what was selected" in said(client.post(BULK, {"all": "1", "whose": "all"}))
