"""What a flow tells a person: a row of *Needs you* that only wants to be read, until it is marked as seen."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from boards import flows
from boards.models import Event, Member, Seen
from boards.queries import read_rows
from boards.queries.needs_you import needs_counts, waiting
from boards.queries.read_words import TITLE, titled
from tests import cast
from tests.flows.cast import Stage, fresh, settle
from tests.flows.kinds_cast import define, started, work

HTMX = {"HX-Request": "true"}
PAGE = "/needs-you/"
pytestmark = pytest.mark.django_db


@pytest.fixture
def stage() -> Stage:
    return Stage()


def client_of(member: Member) -> Client:
    client = Client()
    client.force_login(member.user)
    return client


def counts(member: Member) -> tuple[int, int]:
    found = needs_counts(member)
    assert waiting(member).counts == found  # the page shows what the count says
    return found.blocking, found.to_read


def rows(member: Member) -> list[str]:
    return [row.title for row in waiting(member).rows]


def notify(to: str, prompt: str = "Halyard 2.4 is out.") -> str:
    return f'- {{key: tell, name: Tell people, kind: notify, to: "{to}", prompt: "{prompt}"}}'


def test_it_is_a_row_of_whoever_is_named_and_of_nobody_else(stage: Stage) -> None:
    run = started(stage, notify("operators"), key="ship")
    assert counts(stage.operator) == (0, 1)
    assert counts(stage.member) == (0, 0)
    assert waiting(stage.member, whose="all").rows == ()
    page = client_of(stage.operator).get(PAGE).content.decode()
    assert "Halyard 2.4 is out." in page
    assert "Told by Ship" in page
    assert "in step Tell people" in page
    assert f'<a href="{reverse("web:run", args=["ship", run.number])}" dir="auto">Halyard 2.4 is out.</a>' in page
    assert 'id="needs-dot"><' in page, "a dot: nothing waits for it"


def test_marked_as_seen_it_goes_for_that_person_alone(stage: Stage) -> None:
    started(stage, notify("members"))
    other = cast.make_member(stage.space, "ben")
    started(stage, notify("members", "Once more."), key="again")
    assert (rows(stage.member), rows(other)) == (["Halyard 2.4 is out.", "Once more."], ["Once more."])
    key = waiting(stage.member).rows[0].key
    anna = client_of(stage.member)
    assert anna.post(f"{PAGE}seen", {"key": key}, headers=HTMX).status_code == 204
    assert rows(stage.member) == ["Once more."]
    assert anna.post(f"{PAGE}seen", {"key": key}, headers=HTMX).status_code == 404
    assert client_of(other).post(f"{PAGE}seen", {"key": key}, headers=HTMX).status_code == 404
    assert rows(other) == ["Once more."]


def test_who_may_only_read_is_told_as_well(stage: Stage) -> None:
    vera = cast.make_member(stage.space, "vera", "viewer")
    started(stage, notify("vera"))
    assert counts(vera) == (0, 1)
    key = waiting(vera).rows[0].key
    assert client_of(vera).post(f"{PAGE}seen", {"key": key}, headers=HTMX).status_code == 204
    assert counts(vera) == (0, 0)


def test_each_repeat_of_the_step_is_a_new_thing_to_read(stage: Stage) -> None:
    run = started(stage, f"{notify('anna')}\n- {{key: go, kind: agent, assignee: writer, prompt: Go.}}")
    first = waiting(stage.member).rows[0].key
    assert client_of(stage.member).post(f"{PAGE}seen", {"key": first}, headers=HTMX).status_code == 204
    flows.move(stage.anna, fresh(run), "tell", cancel_turn=True)
    settle()
    assert [row.title for row in waiting(stage.member).rows] == ["Halyard 2.4 is out."]
    assert waiting(stage.member).rows[0].key != first


def test_the_action_notify_tells_as_the_step_does(stage: Stage) -> None:
    steps = """
    - key: write
      kind: agent
      assignee: writer
      prompt: Go.
      events: {on_turn_complete: [{type: notify, message: "Got {{ output.text }}"}, move_to_next]}
    """
    started(stage, steps)
    work(stage, "Write", {"text": "words"})
    assert rows(stage.member) == ["Got words"]


def test_what_nobody_looked_at_for_a_week_is_in_the_log_alone(stage: Stage) -> None:
    run = started(stage, notify("anna"))
    Event.objects.filter(run=run, kind="run.notified").update(at=Now() - timedelta(days=8))
    assert counts(stage.member) == (0, 0)


HOSTILE = "<img src=x onerror=alert(1)>\n\n[x](javascript:alert(1)) **bold** <div hx-post=/x hx-trigger=load>\u202e"


def test_markdown_is_rendered_and_hostile_text_stays_words(stage: Stage) -> None:
    made = define(stage, "- {key: tell, kind: notify, to: anna, prompt: '{{ input.text }}'}")
    flows.start(stage.anna, made, {"text": HOSTILE})
    settle()
    page = client_of(stage.member).get(PAGE).content.decode()
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "<strong>bold</strong>" in page
    said = re.search(r'<div class="row-says">(.*?)</div>\n', page, re.S)
    assert said is not None
    assert "href" not in said[1]
    assert "<div hx-post" not in page


def test_many_are_marked_as_seen_at_once(stage: Stage) -> None:
    for number in range(3):
        started(stage, notify("anna", f"Number {number}"), key=f"f{number}")
    anna = client_of(stage.member)
    keys = [row.key for row in waiting(stage.member).rows]
    page = anna.post(f"{PAGE}bulk", {"row": keys}).content.decode()
    assert "Told by a flow</h2>" in page
    form = next(form for form in page.split("<form")[1:] if ">Told by a flow</h2>" in form)
    hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)
    fields: dict[str, list[str]] = {}
    for name, value in hidden:
        fields.setdefault(name, []).append(value)
    action = re.search(r'action="([^"]+)"', form)
    assert action is not None
    answer = anna.post(action[1], fields | {"act": ["seen"]})
    b"".join(answer.streaming_content) if answer.streaming else answer.content
    assert Seen.objects.filter(member=stage.member).count() == 3
    assert counts(stage.member) == (0, 0)


def test_the_count_is_one_query_and_reads_the_index_of_what_was_told(stage: Stage) -> None:
    started(stage, notify("anna"))
    with CaptureQueriesContext(connection) as caught:
        assert needs_counts(stage.member).to_read == 1
    assert len(caught) == 1
    with connection.cursor() as query:
        query.execute(
            "insert into boards_event (space_id, board_id, kind, chain, cause, from_status, to_status, attempt, data)"
            " select %s, %s, 'task.progressed', '[]', '', '', '', 0, '{}' from generate_series(1, 20000)",
            [stage.space.pk, stage.board.pk],
        )
        query.execute("analyze boards_event")
    assert "event_told" in read_rows.told(stage.member).explain()


@pytest.mark.parametrize(
    ("text", "title", "rest"),
    [
        ("Done.", "Done.", ""),
        ("# Halyard 2.4\n\nTwo **fixes**.", "Halyard 2.4", "Two **fixes**."),
        ("Halyard\n=======\n\nOut.", "Halyard", "Out."),
        ("- one\n- two", "one", "- two"),
        ("See [the notes](https://x.example/).", "See the notes.", "See [the notes](https://x.example/)."),
        ("[x](javascript:alert(1)) y", "x y", "[x](javascript:alert(1)) y"),
        ("[" * 5_000, "[" * (TITLE - 1) + "…", "[" * 5_000),
        ("It is at https://x.example/", "It is at https://x.example/", "It is at https://x.example/"),
        ("```\ncode\n```", "", "```\ncode\n```"),
        ("x" * (TITLE + 1), "x" * (TITLE - 1) + "…", "x" * (TITLE + 1)),
        ("\n\n", "", ""),
        ("**", "", ""),
    ],
)
def test_the_first_line_is_the_title_and_nothing_is_lost(text: str, title: str, rest: str) -> None:
    assert titled(text) == (title, rest)
