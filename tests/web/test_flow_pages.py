"""Flows: the list, one flow's page, starting runs, the acts of a run through the verbs, and the files runs publish."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from boards.models import FlowRun, Task, Visit
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


def newest(who) -> FlowRun:
    return FlowRun.objects.filter(flow=who.flow).order_by("-number").first()


def started(who, anna, **form) -> FlowRun:
    response = anna.post("/f/release-notes/start", {"key": "k", "in.product": "Halyard"} | form)
    assert response.status_code == 302
    return newest(who)


def test_the_list_shows_each_flow_with_its_runs_and_what_waits(who, anna):
    people.approval(who)
    people.run(who, "Broken", status="failed", error="No.")
    html = anna.get("/f/").content.decode()
    for part in (
        "Release notes",
        "Writes and publishes them.",
        "1 on a person",
        "1 active",
        "1 failed",
        "2 runs in all",
        "Broken",
    ):
        assert part in html
    assert "<html" not in anna.get("/f/", headers=HTMX).content.decode()


def test_a_space_without_flows_says_so(who, anna):
    who.flow.delete()
    assert "There is no flow in this space yet." in anna.get("/f/").content.decode()


def test_the_list_costs_the_same_with_many_flows(who, anna):
    def cost() -> int:
        with CaptureQueriesContext(connection) as caught:
            assert anna.get("/f/").status_code == 200
        return len(caught)

    people.approval(who)
    one = cost()
    for _ in range(20):
        people.approval(who)
        people.run(who, status="failed")
    assert cost() == one


def test_a_flows_page_has_its_steps_runs_and_the_form_that_starts_one(who, anna):
    people.visit(people.run(who, "Halyard 2.3", status="failed", error="No such folder."), "collect", "failure")
    html = anna.get("/f/release-notes/").content.decode()
    for part in (
        "Writes and publishes them.",
        "Collect",
        "Approve",
        "Halyard 2.3",
        "No such folder.",
        'name="in.product"',
        "As readers know it.",
    ):
        assert part in html
    assert 'value="2.4"' in html  # the default
    assert html.index('name="in.product"') < html.index('name="in.version"')


def test_a_viewer_reads_the_flow_and_cannot_start_it(who):
    viewer = Client()
    viewer.force_login(who.vera.user)
    assert 'action="/f/release-notes/start"' not in viewer.get("/f/release-notes/").content.decode()
    assert viewer.post("/f/release-notes/start", {"in.product": "Halyard"}).status_code == 422
    assert newest(who) is None


def test_many_runs_come_by_the_page(who, anna):
    for number in range(55):
        people.run(who, f"Run {number}", status="completed")
    html = anna.get("/f/release-notes/runs").content.decode()
    assert html.count('<tr><th scope="row">') == 50
    before = html.split("?before=")[1].split('"')[0]
    more = anna.get(f"/f/release-notes/runs?before={before}", headers=HTMX).content.decode()
    assert more.count('<tr><th scope="row">') == 5
    assert "<html" not in more


def test_starting_a_run_goes_to_its_page(who, anna):
    run = started(who, anna, run_name="Autumn", **{"in.version": "2.5", "in.changes": "a\r\nb"})
    assert (run.name, run.inputs) == ("Autumn", {"product": "Halyard", "version": "2.5", "changes": "a\nb"})
    assert run.started_by == who.anna.user
    page = anna.get(f"/f/release-notes/r/{run.number}/").content.decode()
    assert "Autumn" in page


def test_with_htmx_the_browser_is_sent_there(who, anna):
    response = anna.post("/f/release-notes/start", {"key": "k", "in.product": "Halyard"}, headers=HTMX)
    assert response["HX-Redirect"] == f"/f/release-notes/r/{newest(who).number}/"


def test_the_same_press_twice_starts_one_run(who, anna):
    first = started(who, anna)
    assert started(who, anna) == first
    assert FlowRun.objects.filter(flow=who.flow).count() == 1


@pytest.mark.parametrize("htmx", [False, True])
def test_bad_input_is_said_at_its_field_and_what_was_typed_is_kept(who, anna, htmx):
    form = {"key": "k", "in.product": "", "in.version": "two", "in.changes": "my words", "run_name": "Autumn"}
    response = anna.post("/f/release-notes/start", form, headers=HTMX if htmx else {})
    html = response.content.decode()
    assert response.status_code == 422
    assert "This is needed." in html
    assert "This does not have the form that is asked for" in html
    for kept in ("my words", 'value="two"', 'value="Autumn"', 'aria-invalid="true"'):
        assert kept in html
    assert ("<html" in html) is not htmx
    assert newest(who) is None


def test_a_failed_run_is_started_again_with_its_input_changed(who, anna):
    failed = people.run(who, status="failed", error="No.", inputs={"product": "Halyard", "version": "two"})
    url = f"/f/release-notes/r/{failed.number}/start_again"
    wrong = anna.post(url, {"key": "a", "in.product": "Halyard", "in.version": "two"}, headers=HTMX)
    assert wrong.status_code == 422
    assert "This does not have the form" in wrong.content.decode()
    right = anna.post(url, {"key": "b", "in.product": "Halyard", "in.version": "2.4.1"})
    made = newest(who)
    assert right["Location"] == f"/f/release-notes/r/{made.number}/"
    assert made.inputs["version"] == "2.4.1"
    failed.refresh_from_db()
    assert failed.status == "failed"


def test_the_acts_of_a_run_go_through_the_engine_and_say_what_they_did(who, anna):
    people.RosterEntry.objects.create(board=who.board, name="collect", kind="pull")
    who.version.steps.filter(key="collect").update(settings={"assignee": "collect", "prompt": "Collect."})
    run = started(who, anna)
    url = f"/f/release-notes/r/{run.number}"
    refused = anna.post(f"{url}/mark_complete", headers=HTMX)
    assert refused.status_code == 409
    assert "toast" in refused["HX-Trigger"]
    assert anna.post(f"{url}/nonsense").status_code == 404
    turn = anna.post(f"{url}/cancel_turn", headers=HTMX)
    assert turn.status_code == 204
    assert "Turn cancelled." in turn["HX-Trigger"]
    assert Task.objects.get(visit__run=run).status == "cancelled"
    ended = anna.post(f"{url}/cancel_run", {"reason": "Not this month."})
    assert (ended.status_code, ended["Location"]) == (302, f"{url}/")
    run.refresh_from_db()
    assert run.status == "cancelled"
    assert "Not this month." in anna.get(f"{url}/").content.decode()


def test_a_get_changes_nothing(who, anna):
    run = people.run(who)
    assert anna.get("/f/release-notes/start").status_code == 405
    assert anna.get(f"/f/release-notes/r/{run.number}/cancel_run").status_code == 405


# Files that a run published


@pytest.fixture
def folder(tmp_path: Path, settings) -> Path:
    settings.DATA_DIR = tmp_path
    (tmp_path / "published" / "notes").mkdir(parents=True)
    (tmp_path / "published" / "notes" / "2.4.md").write_text("# Überblick\n<script>alert(1)</script>\n")
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path


def publish(who, file: object) -> FlowRun:
    run = people.run(who, status="completed")
    Visit.objects.filter(pk=people.visit(run, "publish", "left").pk).update(output={"file": file})
    return run


@pytest.mark.parametrize("file", ["published/notes/2.4.md", "notes/2.4.md"])
def test_a_published_file_is_served_as_text(who, anna, folder, file):
    run = publish(who, file)
    response = anna.get(f"/files/release-notes/{run.number}/{file}")
    assert response.status_code == 200
    assert response.content.decode().startswith("# Überblick")
    assert response["Content-Type"] == "text/markdown; charset=utf-8"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert response["Content-Disposition"].startswith("inline")


@pytest.mark.parametrize(
    "file",
    [
        "secret.txt",
        "../secret.txt",
        "published/../secret.txt",
        "/etc/passwd",
        "published/link",
        "published",
        "",
        7,
        "x" * 300,
    ],
)
def test_nothing_else_is_served_even_where_an_output_names_it(who, anna, folder, file):
    (folder / "published" / "link").symlink_to(folder / "secret.txt")
    run = publish(who, file)
    name = str(file).replace("..", "%2e%2e") or "x"
    assert anna.get(f"/files/release-notes/{run.number}/{name}").status_code == 404


def test_a_file_is_served_for_the_run_that_names_it_only(who, anna, folder):
    publish(who, "published/notes/2.4.md")
    other = people.run(who, status="completed")
    assert anna.get(f"/files/release-notes/{other.number}/published/notes/2.4.md").status_code == 404
    stranger = Client()
    stranger.force_login(people.cast().anna.user)
    named = publish(who, "published/notes/2.4.md")
    assert stranger.get(f"/files/release-notes/{named.number}/published/notes/2.4.md").status_code == 404
