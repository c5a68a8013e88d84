"""Making and changing flows on pages: templates, files, the editor, versions; nothing typed is ever lost."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from boards import flows
from boards.flows import library
from boards.flows.validation import validate
from boards.models import Flow, FlowRun, FlowVersion
from tests.flows.cast import REVIEWED, Stage, fresh, settle

HTMX = {"HX-Request": "true"}
pytestmark = pytest.mark.django_db


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def olga(stage: Stage) -> Client:
    client = Client()
    client.force_login(stage.operator.user)
    return client


@pytest.fixture
def anna(stage: Stage) -> Client:
    client = Client()
    client.force_login(stage.member.user)
    return client


def shown(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def text_in(html: str, name: str = "text") -> str:
    found = re.search(rf'<textarea[^>]*name="{name}"[^>]*>\n(.*?)</textarea>', html, re.DOTALL)
    assert found, name
    return unescape(found[1])


def fields_in(html: str) -> dict[str, str]:
    """What a browser without scripts would send: every field of the form beside the text, and its marks."""
    sent = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', html))
    sent |= dict(re.findall(r'<input class="input"[^>]*name="([^"]+)" value="([^"]*)"', html))
    sent |= dict.fromkeys(re.findall(r'<input type="checkbox"[^>]*name="([^"]+)" value="on" checked', html), "on")
    for name, inner in re.findall(r'<select class="input"[^>]*name="([^"]+)"[^>]*>(.*?)</select>', html, re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', inner)
        sent[name] = chosen[1] if chosen else ""
    for name, value in re.findall(r'<textarea[^>]*name="([^"]+)"[^>]*>\n(.*?)</textarea>', html, re.DOTALL):
        sent[name] = value
    return {name: unescape(value) for name, value in sent.items()}


def sent(client: Client, path: str, html: str, act: str, **changes: str) -> Any:
    data = fields_in(html) | {"act": act} | {name.replace("__", "."): value for name, value in changes.items()}
    return client.post(path, data)


def test_the_new_page_offers_templates_a_file_and_nothing(stage: Stage, olga: Client) -> None:
    html = shown(olga, "/new-flow/")
    for part in ("Kanban", "Plan and build", "Pull request review", "Backlog", "Start from nothing", 'type="file"'):
        assert part in html
    assert "New flow" in shown(olga, "/f/")


def test_a_template_is_added_on_demand(stage: Stage, olga: Client) -> None:
    response = olga.post("/new-flow/template/kanban")
    assert (response.status_code, response["Location"]) == (302, "/f/kanban/")
    assert "It is here: open it" in shown(olga, "/new-flow/")
    assert olga.post("/new-flow/template/nosuch").status_code == 404


@pytest.mark.parametrize("path", ["/new-flow/", "/new-flow/edit/", "/f/reviewed/edit/"])
def test_only_operators_make_and_change_flows(stage: Stage, anna: Client, path: str) -> None:
    stage.flow()
    assert anna.get(path).status_code == 403
    assert anna.post("/new-flow/template/kanban").status_code == 403
    assert anna.post("/new-flow/import", {"text": REVIEWED}).status_code == 403
    assert (
        anna.post("/f/reviewed/edit/", {"act": "save", "text": REVIEWED.replace("Approve", "Mine")}).status_code == 403
    )
    assert FlowVersion.objects.count() == 1
    assert "/edit/" not in shown(anna, "/f/reviewed/")
    assert anna.get("/f/reviewed/versions/").status_code == 200, "what changed may be read by all"


def test_a_file_is_imported_and_what_was_left_out_is_said(stage: Stage, olga: Client) -> None:
    stage.flow()
    text = f"flows:\n  - {validate(REVIEWED).wire()}\n  - {{key: new, name: New, steps: [{{key: d, name: Done}}]}}\n"
    response = olga.post("/new-flow/import", {"file": SimpleUploadedFile("flows.yaml", text.encode())})
    html = response.content.decode()
    assert response.status_code == 200
    assert "1 flow was imported" in html
    assert "Reviewed: a flow with the key &quot;reviewed&quot; is here already." in html


def test_an_import_says_who_is_missing_and_goes_on_the_board_that_was_chosen(stage: Stage, olga: Client) -> None:
    steps = "[{key: w, name: W, kind: agent, prompt: Go.}, {key: d, name: Done}]"
    text = f"key: NAME\nname: NAME\nagent: nobody-yet\nsteps: {steps}"
    said = olga.post("/new-flow/import", {"text": text.replace("NAME", "own")}).content.decode()
    assert "nobody called &quot;nobody-yet&quot; is on the roster of the board own yet" in said
    here = text.replace("NAME", "here").replace("nobody-yet", "writer")
    said = olga.post("/new-flow/import", {"text": here, "board": stage.board.slug}).content.decode()
    assert "is on the roster of the board" not in said
    assert Flow.objects.get(key="here").board == stage.board


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"text": "key: a\nname: A\nsteps: [{key: x, name: X, kind: robot}]"}, "Unknown kind"),
        ({"text": " "}, "Choose a file, or paste its text."),
        ({"file": SimpleUploadedFile("a.yaml", b"\xff\xfe\x00")}, "The file is no text in UTF-8."),
        ({"file": SimpleUploadedFile("a.yaml", b"x" * 1_000_001)}, "The file is larger than 1 MB."),
    ],
)
def test_an_import_that_cannot_be_says_why_and_keeps_the_text(
    stage: Stage, olga: Client, data: dict[str, Any], words: str
) -> None:
    response = olga.post("/new-flow/import", data)
    assert response.status_code == 422
    assert words in response.content.decode()
    if "kind" in str(data):
        assert text_in(response.content.decode()) == data["text"]
    assert not Flow.objects.exists()


def test_a_flow_is_made_from_nothing(stage: Stage, olga: Client) -> None:
    html = shown(olga, "/new-flow/edit/")
    assert "Valid: 2 steps." in html
    response = sent(olga, "/new-flow/edit/", html, "save", text=REVIEWED, board=stage.board.slug)
    assert response["Location"] == "/f/reviewed/versions/?saved=1"
    assert Flow.objects.get().board == stage.board
    assert "Saved: version 1 is the newest." in shown(olga, response["Location"])


def test_a_template_can_be_changed_before_it_is_saved(stage: Stage, olga: Client) -> None:
    html = shown(olga, "/new-flow/edit/?template=kanban")
    text = text_in(html).replace("key: kanban", "key: ours").replace("name: Kanban", "name: Ours")
    sent(olga, "/new-flow/edit/", html, "save", text=text)
    assert library.newest(stage.space, "ours").steps[0].cancel_triggers_turn_complete
    assert olga.get("/new-flow/edit/?template=nosuch").status_code == 404


def test_saving_makes_a_new_version_and_the_same_again_none(stage: Stage, olga: Client) -> None:
    flow = stage.flow()
    html = shown(olga, "/f/reviewed/edit/")
    assert "Saving makes version 2." in html
    text = text_in(html).replace("name: Approve", "name: Look at it")
    assert sent(olga, "/f/reviewed/edit/", html, "save", text=text).status_code == 302
    assert [v.created_by.username if v.created_by else "" for v in flow.versions.all()] == ["olga", "olga"]
    html = shown(olga, "/f/reviewed/edit/")
    sent(olga, "/f/reviewed/edit/", html, "save")
    assert flow.versions.count() == 2


def test_a_text_with_problems_is_not_saved_and_comes_back_whole(stage: Stage, olga: Client) -> None:
    flow = stage.flow()
    html = shown(olga, "/f/reviewed/edit/")
    text = text_in(html).replace("kind: approval", "kind: robot") + "# mine\n"
    response = sent(olga, "/f/reviewed/edit/", html, "save", text=text)
    assert response.status_code == 422
    told = response.content.decode()
    assert text_in(told) == text
    line = text.split("\n").index("    kind: robot") + 1
    assert f'data-line="{line}"' in told
    assert f"line {line}, steps[1].kind: Unknown kind &quot;robot&quot;." in told
    assert '<code dir="ltr">kind: robot</code>' in told
    assert flow.versions.count() == 1


@pytest.mark.parametrize(
    "text", ["", "{", "- a", "steps: 5", "a: &x [1]\nb: *x", "steps: [a, 1, null]", "\t", "x" * 50_000]
)
def test_any_text_is_answered_with_a_page(stage: Stage, olga: Client, text: str) -> None:
    stage.flow()
    html = shown(olga, "/f/reviewed/edit/")
    for act in ("check", "save", "apply", "add:approve", "up:approve", "drop:write", "open:read"):
        response = sent(olga, "/f/reviewed/edit/", html, act, text=text)
        assert response.status_code in {200, 422}
        assert text_in(response.content.decode()).rstrip("\n") == text.rstrip("\n")


def test_the_key_stays(stage: Stage, olga: Client) -> None:
    stage.flow()
    html = shown(olga, "/f/reviewed/edit/")
    response = sent(olga, "/f/reviewed/edit/", html, "save", text=text_in(html).replace("key: reviewed", "key: other"))
    assert response.status_code == 422
    assert "a flow keeps its key" in response.content.decode()
    again = sent(olga, "/new-flow/edit/", shown(olga, "/new-flow/edit/"), "save", text=REVIEWED)
    assert "is here already. Choose another key." in again.content.decode()
    assert FlowVersion.objects.count() == 1


def test_who_was_overtaken_keeps_the_text_and_saves_after_it(stage: Stage, olga: Client) -> None:
    flow = stage.flow()
    html = shown(olga, "/f/reviewed/edit/")
    stage.flow(REVIEWED.replace("name: Approve", "name: Theirs"))
    mine = text_in(html).replace("name: Approve", "name: Mine")
    response = sent(olga, "/f/reviewed/edit/", html, "save", text=mine)
    assert response.status_code == 409
    told = response.content.decode()
    assert "Version 2 of Reviewed has been saved meanwhile." in told
    assert text_in(told) == mine
    assert sent(olga, "/f/reviewed/edit/", told, "save").status_code == 302
    assert [version.steps.get(key="approve").name for version in flow.versions.all()] == ["Approve", "Theirs", "Mine"]


def test_the_form_puts_what_was_changed_in_it_into_the_text(stage: Stage, olga: Client) -> None:
    stage.flow()
    path = "/f/reviewed/edit/?step=approve"
    html = shown(olga, path)
    told = sent(
        olga, path, html, "apply", flow__name="Looked at", step__prompt="Is it\ngood?", step__wip_limit="3",
        step__pull_from="write", step__events="on_turn_complete: [move_to_next]", step__allow_manual_move="",
    ).content.decode()  # fmt: skip
    flow = validate(text_in(told))
    step = flow.steps[1]
    assert (flow.name, step.prompt, step.wip_limit, step.pull_from) == ("Looked at", "Is it\ngood?", 3, "write")
    assert [action.wire() for action in step.on_turn_complete] == ["move_to_next"]
    assert step.draft == "{{ steps.write.output.text }}", "what was not touched stays"


def test_text_and_form_changed_at_once_lose_neither(stage: Stage, olga: Client) -> None:
    stage.flow()
    path = "/f/reviewed/edit/?step=approve"
    html = shown(olga, path)
    text = text_in(html).replace("name: Read", "name: Read it").replace("name: Approve", "name: By hand")
    told = sent(olga, path, html, "save", text=text, step__prompt="From the form?")
    assert told.status_code == 302
    steps = library.newest(stage.space, "reviewed").steps
    assert [step.name for step in steps] == ["Write", "By hand", "Read it", "Done"]
    assert steps[1].prompt == "From the form?"


def test_an_unchanged_form_leaves_the_text_as_it_is(stage: Stage, olga: Client) -> None:
    stage.flow()
    html = shown(olga, "/f/reviewed/edit/")
    text = "# a comment that stays\n" + text_in(html)
    for act in ("apply", "check", "open:approve"):
        assert text_in(sent(olga, "/f/reviewed/edit/", html, act, text=text).content.decode()) == text


def test_steps_are_added_moved_and_removed(stage: Stage, olga: Client) -> None:
    stage.flow()
    path = "/f/reviewed/edit/"

    def keys(html: str) -> list[str]:
        return re.findall(r'value="open:([^"]+)"', html)

    added = sent(olga, path, shown(olga, path), "add:write").content.decode()
    assert keys(added) == ["write", "step-5", "approve", "read", "done"]
    assert '<input type="hidden" name="at" value="step-5">' in added, "the new step's form is open"
    moved = sent(olga, path, added, "down:step-5").content.decode()
    assert keys(moved) == ["write", "approve", "step-5", "read", "done"]
    dropped = sent(olga, path, moved, "drop:step-5").content.decode()
    assert keys(dropped) == ["write", "approve", "read", "done"]
    assert text_in(dropped) == text_in(shown(olga, path)), "as it was"


def test_the_choice_of_a_cancel_is_shown_only_where_completing_means_something(stage: Stage, olga: Client) -> None:
    library.install(stage.space, "kanban")
    path = "/f/kanban/edit/"
    assert "step.cancel_triggers_turn_complete" in shown(olga, f"{path}?step=backlog")
    assert "step.cancel_triggers_turn_complete" not in shown(olga, f"{path}?step=review")
    stage.flow()
    html = shown(olga, "/f/reviewed/edit/?step=approve")
    assert "step.cancel_triggers_turn_complete" in html
    assert "entering Write, Read may start an agent at once" in html
    assert "may start an agent at once" not in shown(olga, "/f/reviewed/edit/?step=read"), "Done starts nothing"


def test_a_live_check_answers_with_the_drawing_and_the_form_and_leaves_the_text(stage: Stage, olga: Client) -> None:
    stage.flow()
    html = shown(olga, "/f/reviewed/edit/")
    data = fields_in(html) | {"act": "check", "text": text_in(html).replace("name: Approve", "name: Look")}
    answer = olga.post("/f/reviewed/edit/", data, headers=HTMX).content.decode()
    assert "<html" not in answer
    assert 'id="sketch"' in answer
    assert ">Look</text>" in answer
    assert 'id="flow-form"' in answer
    assert 'id="text-pane"' not in answer
    data |= {"act": "apply", "step.name": "From the form", "base": data["text"]}
    answer = olga.post("/f/reviewed/edit/", data, headers=HTMX).content.decode()
    assert "From the form" in text_in(answer)
    assert 'id="flow-form"' not in answer, "nobody is interrupted in it"
    assert 'id="flow-form"' in olga.post("/f/reviewed/edit/", data | {"redraw": "1"}, headers=HTMX).content.decode()


def test_a_form_of_an_older_text_is_drawn_anew_with_the_answer(stage: Stage, olga: Client) -> None:
    stage.flow()
    html = shown(olga, "/f/reviewed/edit/")
    data = fields_in(html) | {"act": "apply", "step.name": "From the form"}
    data["text"] = text_in(html).replace("name: Reviewed", "name: From the text")
    answer = olga.post("/f/reviewed/edit/", data, headers=HTMX).content.decode()
    assert validate(text_in(answer)).name == "From the text"
    assert 'id="flow-form"' in answer, "else its next change would bring the older name back"
    assert 'name="flow.name" value="From the text"' in answer


def test_each_button_of_the_form_sends_its_own_act(stage: Stage, olga: Client) -> None:
    stage.flow()
    html = shown(olga, "/f/reviewed/edit/")
    buttons = re.findall(r'<button[^>]*name="act" value="([^"]+)"[^>]*hx-vals=\'{"act": "([^"]+)"}\'', html)
    assert {act for act, _ in buttons} == {"add:write", "up:write", "down:write", "drop:write"} | {
        f"open:{key}" for key in ("write", "approve", "read", "done")
    }
    assert all(act == told for act, told in buttons)


def test_what_an_author_writes_is_shown_as_text(stage: Stage, olga: Client) -> None:
    evil = "</textarea><script>alert(1)</script>"
    html = shown(olga, "/new-flow/edit/")
    text = REVIEWED.replace("name: Approve", f"name: '{evil}'").replace("topic: {", f"'{evil}': {{")
    told = sent(olga, "/new-flow/edit/", html, "check", text=text).content.decode()
    assert "<script>alert" not in told
    assert text_in(told).strip() == text.strip()


def test_a_drawing_shows_ways_back_failures_and_what_stands_inside(stage: Stage, olga: Client) -> None:
    html = shown(olga, "/new-flow/edit/?template=pr-review")
    for part in (
        "∥ Correctness",
        "✕ Post it by hand",
        "Approve the answer → Sum up, when not output.approved",
        "d-edge--back",
        "d-edge--jump",
    ):
        assert part in html


def test_the_versions_and_what_changed_between_any_two(stage: Stage, olga: Client) -> None:
    stage.flow()
    stage.started()
    stage.flow(REVIEWED.replace("name: Approve", "name: Look"))
    stage.flow(REVIEWED.replace("name: Approve", "name: Look").replace("Is it right?", "Is it good?"))
    html = unescape(shown(olga, "/f/reviewed/versions/"))
    assert "From version 2 to 3" in html
    assert 'Look: "prompt" was “Is it right?” and is “Is it good?” now.' in html
    assert "(1 live)" in html
    html = unescape(shown(olga, "/f/reviewed/versions/?old=1&new=3"))
    assert 'Look: "name" was “Approve” and is “Look” now.' in html
    assert "+</b>" in html
    assert "-" not in re.findall(r"From version \d to \d", html)[0]
    for odd in ("old=9&new=x", "old=3&new=3", "old=3&new=1"):
        assert olga.get(f"/f/reviewed/versions/?{odd}").status_code == 200


def test_a_flow_is_given_out_as_a_file(stage: Stage, olga: Client) -> None:
    stage.flow()
    response = olga.get("/f/reviewed/export")
    assert response["Content-Disposition"] == 'attachment; filename="reviewed.yaml"'
    assert validate(response.content.decode()).wire() == validate(REVIEWED).wire()
    assert olga.get("/f/reviewed/export?format=json").json()["type"] == "orchestra_flow"


def test_editing_while_runs_are_live_changes_none_of_them(stage: Stage, olga: Client) -> None:
    run: FlowRun = stage.started()
    html = shown(olga, "/f/reviewed/edit/")
    assert "1 live run keeps its version." in html
    text = text_in(html).replace("name: Approve", "name: Look").replace("assignee: reader", "assignee: writer")
    assert sent(olga, "/f/reviewed/edit/", html, "save", text=text).status_code == 302
    stage.complete()
    stage.answer(run, "approve")
    now = fresh(run)
    assert (now.version.number, now.current_visit.step_key if now.current_visit else "") == (1, "read")
    assert stage.claimable("reader"), "its next step is worked by whom its own version names"
    later = flows.start(stage.anna, run.flow, {})
    settle()
    assert later.version.number == 2
    assert "Approve" in shown(olga, f"/f/reviewed/r/{run.number}/")
    assert "Look" not in shown(olga, f"/f/reviewed/r/{run.number}/")
