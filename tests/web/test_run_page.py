"""The run page: what it shows of a run at every stage, its live parts and transcript, and its acts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from boards import flows
from boards.models import Attempt, FlowRun, Hold, StepChange, Task, TranscriptItem, Visit
from tests.cast import chain_of
from tests.web import people_cast as people

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def who() -> people.Cast:
    return people.cast()


@pytest.fixture
def anna(who) -> Client:
    return signed_in(who.anna)


def signed_in(member) -> Client:
    client = Client()
    client.force_login(member.user)
    return client


def path(run: FlowRun, more: str = "") -> str:
    return f"/f/release-notes/r/{run.number}/{more}"


def html(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200
    return response.content.decode()


def working(who, run=None, step="draft", **fields) -> Task:
    """A task that works in a step of a run."""
    run = run or people.run(who)
    stay = people.visit(run, step)
    made = people.task(who, f"{step}: {run.name}", status="in_progress", visit=stay, attempts=1, **fields)
    Attempt.objects.create(task=made, number=1, assignee=made.assignee)
    Visit.objects.filter(pk=stay.pk).update(task=made)
    return made


def say(task: Task, *texts: str, kind: str = "message", who: str = "writer", ago: int = 60) -> list[int]:
    items = [
        TranscriptItem.objects.create(task=task, attempt=1, kind=kind, who=who, text=text, data=None) for text in texts
    ]
    TranscriptItem.objects.filter(pk__in=[i.pk for i in items]).update(at=timezone.now() - timedelta(seconds=ago))
    return [item.pk for item in items]


def test_a_working_run_shows_its_steps_its_time_and_what_was_said(who, anna):
    task = working(who, status_note="31 of 54 checked")
    say(task, "I read the changes.")
    page = html(anna, path(task.visit.run))
    assert 'aria-current="step"' in page
    assert "Working, 31 of 54 checked" in page
    assert "I read the changes." in page
    assert 'class="b-work"' in page
    assert "Cancel turn…" in page
    assert "Its turn is still open." in page  # why it cannot be marked complete
    assert f'data-live-run="{task.visit.run_id}"' in page


def test_the_question_of_a_step_stands_at_the_head_and_is_answered_there(who, anna):
    hold = people.approval(who)
    page = html(anna, path(hold.visit.run))
    assert f'action="/holds/{hold.pk}/answer"' in page
    assert "Waits on a person" in page
    assert "mark--person mark--you" in page
    assert "Only an answer completes an approval." in page


def test_a_question_of_the_steps_task_stands_there_too_and_says_what_silence_does(who, anna):
    task = working(who)
    Visit.objects.filter(pk=task.visit_id).update(due_at=timezone.now() + timedelta(hours=1))
    people.hold(who, task, title="Which name stays?")
    page = html(anna, path(task.visit.run))
    assert "the due time of the step withdraws the task." in page
    assert 'class="countdown"' in page
    assert "also while it waits on a person" in page


def test_a_failed_run_says_why_and_offers_to_start_again_with_its_input(who, anna):
    run = people.run(
        who, status="failed", error="“two” is not a version.", inputs={"product": "Halyard", "version": "two"}
    )
    people.visit(run, "collect", "failure")
    page = html(anna, path(run))
    assert "“two” is not a version." in page
    assert "Start again with the input changed" in page
    assert 'value="two"' in page
    assert "mark--stuck" in page


def test_a_finished_run_links_its_file_and_shows_what_each_step_handed_in(who, anna):
    run = people.run(who, status="completed")
    for step, output in (("draft", {"markdown": "# Notes"}), ("publish", {"file": "published/notes.md", "words": 3})):
        Visit.objects.filter(pk=people.visit(run, step, "left").pk).update(output=output)
    page = html(anna, path(run))
    assert f'href="/files/release-notes/{run.number}/published/notes.md"' in page
    assert "written by Publish" in page
    assert "<h3>Notes</h3>" in page


def test_the_history_names_moves_answers_and_the_end(who, anna):
    run = people.run(who, status="cancelled", error="Ben Okri cancelled the run.")
    stay = people.visit(run, "approve", "left")
    people.hold(who, stay, "approval", state="answered", answer={"choice": "reject", "text": "Shorter."},
                answered_at=timezone.now(), answered_by_name="Ben Okri")  # fmt: skip
    StepChange.objects.create(run=run, from_step="draft", to_step="approve", trigger="on_turn_complete", actor="flows")
    page = html(anna, path(run))
    for part in ("Draft → Approve", "the turn was complete", "Ben Okri rejected", "Shorter.", "The run was cancelled"):
        assert part in page


def test_a_step_that_was_moved_past_is_not_shown_as_approved(who, anna):
    run = people.run(who)
    stay = people.visit(run, "approve", "waiting")
    people.hold(who, stay, "approval", prompt="Right?")
    assert 'hx-confirm="Approve is still open; moving closes the question unanswered."' in html(anna, path(run))
    flows.move(chain_of(who.olga), run, "publish")
    page = html(anna, path(run))
    assert "moved past" in page
    assert "mark--done" not in page
    assert "Olga Maas moved it from Approve to Publish</b>; the question was closed unanswered" in page
    assert "the run went on to" not in page.partition('id="run-history"')[2].partition("</section>")[0]


def test_what_the_member_may_not_see_is_not_there(who):
    other = people.cast()
    run = people.run(other)
    client = signed_in(who.anna)
    for more in ("", "parts", "log"):
        assert client.get(path(run, more)).status_code == 404
    assert client.post(path(run, "cancel_run")).status_code == 404
    assert client.get("/f/release-notes/r/99999999999/").status_code == 404


def test_a_viewer_reads_and_finds_no_act(who):
    hold = people.approval(who)
    page = html(signed_in(who.vera), path(hold.visit.run))
    assert "Are the notes for Halyard 2.4 right?" in page
    assert "<form" not in page.split('id="main"')[1].split('class="panel" id="log"')[0]


def test_a_viewers_act_is_refused(who):
    run = working(who).visit.run
    assert signed_in(who.vera).post(path(run, "cancel_run"), headers=HTMX).status_code == 403


def test_the_page_costs_the_same_however_long_the_run_was(who, anna):
    run = people.run(who)

    def cost() -> int:
        with CaptureQueriesContext(connection) as caught:
            assert anna.get(path(run)).status_code == 200
        return len(caught)

    def go_round() -> None:
        say(working(who, run, "draft"), "one", "two")
        people.hold(who, people.visit(run, "approve"), "approval", state="answered", answer={"choice": "reject"},
                    answered_at=timezone.now(), answered_by_name="Ben")  # fmt: skip
        StepChange.objects.create(run=run, from_step="approve", to_step="draft", trigger="approval")

    go_round()
    people.visit(run, "approve")
    one = cost()
    for _ in range(20):
        go_round()
    people.visit(run, "approve")
    assert cost() == one <= 24


def test_the_transcript_goes_on_from_what_the_page_has(who, anna):
    task = working(who)
    first = say(task, "first", "second")
    page = html(anna, path(task.visit.run))
    tail = f"after={first[-1]}&amp;have=0"
    assert tail in page
    url = path(task.visit.run, f"log?after={first[-1]}&have=0")
    assert anna.get(url).status_code == 204
    say(task, "third")
    fresh = say(task, "just now", ago=0)
    more = html(anna, url)
    assert "third" in more
    assert "just now" in more
    assert "second" not in more
    assert f"after={fresh[-1] - 1}&amp;have=1" in more  # the youngest line is read again: an older one may still commit


def test_a_line_that_commits_late_under_a_lower_id_is_still_shown(who, anna):
    task = working(who)
    taken = say(task, "holds the place of an id", ago=0)[0]
    say(task, "seen", ago=0)
    TranscriptItem.objects.filter(pk=taken).delete()
    page = html(anna, path(task.visit.run))
    assert "after=0&amp;have=1" in page
    TranscriptItem.objects.create(pk=taken, task=task, attempt=1, kind="message", who="writer", text="came late")
    assert "came late" in html(anna, path(task.visit.run, "log?after=0&have=1"))


def test_the_transcript_of_one_step_and_the_pages_above(who, anna):
    run = people.run(who)
    collected = working(who, run, "collect", assignee="shell")
    drafted = working(who, run, "draft")
    say(collected, "41 changes", who="shell")
    say(drafted, *(f"line {number:03}" for number in range(150)))
    page = html(anna, path(run))
    assert "line 149" in page
    assert "line 049" not in page
    assert "Load earlier" in page
    before = page.split("&amp;before=")[1].split("#")[0].split('"')[0]
    above = html(anna, path(run, f"log?before={before}"))
    assert "line 049" in above
    assert "41 changes" in above
    only = html(anna, path(run, "log?step=collect"))
    assert "41 changes" in only
    assert "line 149" not in only
    assert "41 changes" in html(anna, path(run, "?step=collect"))


def test_hostile_words_are_shown_as_they_are(who, anna):
    evil = "<img src=x onerror=alert(1)><div hx-get=/x hx-trigger=load>"
    run = people.run(who, evil, inputs={evil: evil}, error=evil, status="failed", started_by_name=evil)
    task = working(who, run, assignee="writer", status_note=evil)
    say(task, evil, f"\x1b[31m{evil}\x1b[0m", who=evil)
    Visit.objects.filter(pk=task.visit_id).update(output={"markdown": evil, "file": evil})
    for more in ("", "parts", "log"):
        page = html(anna, path(run, more))
        assert "<img" not in page
        assert "<div hx-get=/x" not in page
        assert "\x1b" not in page


def test_odd_addresses_answer(who, anna):
    run = working(who).visit.run
    for odd in ("?step=%00", "log?after=-1", "log?after=" + "9" * 30, "log?step=%00&have=x", "log?before=abc"):
        assert anna.get(path(run, odd)).status_code in {200, 204}


def test_parts_come_by_their_ids(who, anna):
    run = people.run(who, status="failed", error="No.")
    parts = html(anna, path(run, "parts"))
    for part in ("head", "steps", "state", "again", "files", "time", "history", "data"):
        assert f'id="run-{part}" hx-swap-oob="true"' in parts
    assert 'id="log"' not in parts


def test_a_stopping_turn_says_so(who, anna):
    from boards.models import Debt

    task = working(who)
    Task.objects.filter(pk=task.pk).update(status="cancelled", lease_until=None, completed_at=timezone.now())
    Debt.objects.create(kind="session_stop", unique_key="s1", task=task, payer="drain:x")
    page = html(anna, path(task.visit.run))
    assert "Stopping… The turn was cancelled" in page
    assert "stopping…" in page


def test_holds_of_older_visits_stay_readable_as_history(who, anna):
    hold = people.approval(who)
    Hold.objects.filter(pk=hold.pk).update(state="expired", answered_at=timezone.now(), answered_by_name="the due time",
                                           answer={"choice": "reject", "text": ""})  # fmt: skip
    assert "By deadline: it reads as a no" in html(anna, path(hold.visit.run))
