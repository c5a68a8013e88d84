"""The full form of a new task and the edit form: what they write, what they refuse, and that no text is lost."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from django.urls import reverse

from boards import tasks
from boards.models import Hold, Member, Task
from tests import cast
from tests.web.desk import Desk, fields_of

pytestmark = pytest.mark.django_db


class Forms(Desk):
    def files(self, member: Member | None = None, *, htmx: bool = False, **form: object):
        return self.client(member, htmx=htmx).post(reverse("web:new_task", args=["desk"]), {"goal": "Write", **form})

    def edits(self, task: Task, member: Member | None = None, **form: object):
        """Open the form, change the fields, send all of it back as a browser does."""
        address = reverse("web:task_edit", args=["desk", task.public_id])
        client = self.client(member)
        page = client.get(address).content.decode()
        return client.post(address, {**fields_of(page), **form})


@pytest.fixture
def desk() -> Forms:
    return Forms()


def test_a_task_is_filed_with_all_its_fields(desk):
    first = cast.filed(desk.board, desk.chain, "Collect")
    answer = desk.files(
        goal=" Write the notes ",
        title="Notes",
        context="Be short.",
        input='{"file": "notes.md"}',
        labels="docs, 2.4, docs",
        priority="5",
        due_at="2027-03-01T12:30",
        tz_offset="-60",
        deps=[f"{first.public_id} — Collect", "", first.public_id],
        assignee="writer",
        max_attempts="3",
        checker="person",
        question="Is the budget approved?",
        question_kind="confirm",
        id="notes-1",
    )
    task = Task.objects.get(public_id="notes-1")
    assert answer["Location"] == reverse("web:task", args=["desk", "notes-1"])
    assert (task.goal, task.title, task.context, task.input) == (
        "Write the notes",
        "Notes",
        "Be short.",
        {"file": "notes.md"},
    )
    assert (task.labels, task.priority, task.assignee, task.max_attempts) == (["docs", "2.4"], 5, "writer", 3)
    assert (task.checker, task.status, task.unmet_deps) == ("person", "pending", 1)
    assert task.due_at == datetime(2027, 3, 1, 11, 30, tzinfo=UTC)
    hold = Hold.objects.get(task=task)
    assert (hold.kind, hold.prompt, task.open_holds) == ("confirm", "Is the budget approved?", 1)


def test_a_held_task_with_a_question_of_two_options(desk):
    desk.files(held="1", question="Which one?", question_options="Red\nBlue\n")
    task = Task.objects.get()
    assert task.status == "held"
    assert [option["label"] for option in Hold.objects.get(task=task).options] == ["Red", "Blue"]


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("goal", "\u200b ", "blank"),
        ("title", "x" * 201, "200"),
        ("input", "[1]", "JSON object"),
        ("input", "{nope", "not JSON"),
        ("priority", "high", "whole number"),
        ("max_attempts", "0", "1"),
        ("due_at", "tomorrow", "date and a time"),
        ("assignee", "nobody-here", "not on the roster"),
        ("checker", "nobody-here", "not on the roster"),
        ("deps", "nothing-there", "not on this board"),
        ("deps", "../x y", "not the id of a task"),
        ("id", "a b", "letters, digits"),
        ("due_at", "9999-12-31T23:59-12:00", "1970"),
        ("due_at", "0001-01-01T00:00+14:00", "1970"),
        ("labels", "x" * 101, "100"),
    ],
)
def test_a_refusal_stands_at_its_field_and_every_text_is_kept(desk, field, text, says):
    typed = {"goal": "Write the notes", "context": "Kept <as> it is.", "labels": "docs", field: text}
    answer = desk.files(**typed)
    html = answer.content.decode()
    assert answer.status_code == 422
    assert not Task.objects.exists()
    assert re.search(rf'id="wrong-{field}".*?{re.escape(says)}', html, re.DOTALL), html
    assert "Kept &lt;as&gt; it is." in html
    assert 'aria-invalid="true"' in html


def test_an_offset_that_no_zone_has_is_none(desk):
    for offset in ("999", "-999", "9" * 5000):
        assert (
            desk.files(goal=f"Write {len(offset)}{offset[:4]}", due_at="2030-01-01T00:00", tz_offset=offset).status_code
            == 302
        )
    assert {task.due_at for task in Task.objects.all()} == {datetime(2030, 1, 1, tzinfo=UTC)}


def test_one_option_is_no_choice(desk):
    answer = desk.files(question="Which one?", question_options="Red")
    assert answer.status_code == 422
    assert "two to six options" in answer.content.decode()


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"question_options": "Red\nBlue"}, "Write the question that these options answer"),
        ({"question_kind": "confirm"}, "Write the question that is answered with yes or no"),
        (
            {"question": "Now?", "question_kind": "confirm", "question_options": "Red\nBlue"},
            "Yes or no are its answers",
        ),
        ({"question": "Which?", "question_options": "Red\n" + "B" * 201}, "Option 2 is longer than 200 characters"),
    ],
)
def test_a_question_that_is_filled_in_by_half_starts_no_task(desk, question, says):
    answer = desk.files(**question)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert says in page
    assert '<details class="behind" open>' in page
    assert not Task.objects.exists()


def test_long_options_are_kept_whole(desk):
    long = [f"{'Very ' * 30}{color}" for color in ("red", "blue")]  # the first hundred characters are the same
    assert desk.files(question="Which one?", question_options="\n".join(long)).status_code == 302
    options = Hold.objects.get().options
    assert [(option["value"], option["label"]) for option in options] == [(each, each) for each in long]


def test_only_a_form_that_was_taken_lets_the_drafts_go(desk):
    client = desk.client()
    address = reverse("web:new_task", args=["desk"])
    refused = client.post(address, {"goal": "Write", "priority": "x"})
    assert "data-taken" not in refused.content.decode()
    taken = client.post(address, {"goal": "Write"}, follow=True)
    assert 'data-taken="draft:new/desk/"' in taken.content.decode()
    batch = client.post(reverse("web:file_batch", args=["desk"]), {"text": "One\nTwo"}, follow=True)
    assert 'data-taken="draft:batch/desk/"' in batch.content.decode()
    assert "toast--error" not in batch.content.decode()


def test_a_refusal_names_the_field_as_the_form_does(desk):
    page = desk.files(max_attempts="0").content.decode()
    assert "Tries must be a whole number from 1 to 1000000." in page
    assert "max_attempts must" not in page


def test_the_shape_that_the_board_asks_for_stands_at_the_input(desk):
    desk.board.input_schema = {"required": ["file"]}
    desk.board.save(update_fields=["input_schema"])
    page = desk.files(input='{"page": 1}')
    assert page.status_code == 422
    assert "The input does not match the board&#x27;s schema at input/: &#x27;file&#x27; is a required property" in (
        page.content.decode()
    )
    assert "The shape this board asks for" in page.content.decode()


def test_the_same_goal_shows_the_open_one_and_may_be_filed_anyway(desk):
    first = cast.filed(desk.board, desk.chain, "Write the notes")
    form = {"goal": "write  the NOTES", "assignee": "writer", "form_key": "k1"}
    answer = desk.files(**form)
    html = answer.content.decode()
    assert answer.status_code == 422
    assert "is open already" in html
    assert reverse("web:task", args=["desk", first.public_id]) in html
    assert 'name="allow_same"' in html
    assert desk.files(**form, allow_same="1").status_code == 302
    assert Task.objects.count() == 2


def test_a_form_sent_twice_files_once(desk):
    form = {"goal": "Write the notes", "form_key": "k2"}
    first, second = desk.files(**form), desk.files(**form)
    assert first["Location"] == second["Location"]
    assert Task.objects.count() == 1


def test_in_the_drawer_a_refusal_is_the_form_and_success_closes_it(desk):
    refused = desk.files(htmx=True, priority="x")
    assert refused.status_code == 200
    assert "wrong-priority" in refused.content.decode()
    assert "<!doctype" not in refused.content.decode()
    done = desk.files(htmx=True)
    assert done.status_code == 204
    assert "drawer:close" in done["HX-Trigger"]


def test_a_viewer_may_not_file_and_is_told_so(desk):
    answer = desk.files(desk.vera)
    assert answer.status_code == 422
    assert "may not do this" in answer.content.decode()
    assert not Task.objects.exists()


def test_the_options_of_dependencies_are_found_by_text_and_only_open_ones(desk):
    cast.filed(desk.board, desk.chain, "Collect the changes", id="c-1")
    ended = cast.filed(desk.board, desk.chain, "Collect nothing", id="c-2")
    tasks.cancel(desk.chain, ended)
    other = cast.make_board(desk.space, "other")
    cast.filed(other, desk.chain, "Collect elsewhere", id="c-3")
    address = reverse("web:dependency_options", args=["desk"])
    for typed, found in (("COLLECT", ["c-1"]), ("c-1", ["c-1"]), ("%", []), ("\x00", ["c-1"])):
        html = desk.client().get(address, {"deps": typed}).content.decode()
        assert re.findall(r'value="([^"]+)"', html) == found


def test_an_untouched_form_changes_nothing(desk):
    first = cast.filed(desk.board, desk.chain, "Collect")
    task = cast.filed(
        desk.board,
        desk.chain,
        input={"a": [1]},
        labels=["docs"],
        due_at=datetime(2027, 3, 1, 11, 30, 12, tzinfo=UTC),
        deps=[first.public_id],
    )
    revision = cast.fresh(task).revision
    assert desk.edits(task, tz_offset="0").status_code == 302
    assert cast.fresh(task).revision == revision


def test_only_what_was_changed_is_written(desk):
    task = cast.filed(desk.board, desk.chain, context="Old.")
    assert desk.edits(task, title="Notes", priority="7", labels="a, b").status_code == 302
    row = cast.fresh(task)
    assert (row.title, row.priority, row.labels, row.context) == ("Notes", 7, ["a", "b"], "Old.")


def test_dependencies_are_added_and_taken_out(desk):
    first, second = (cast.filed(desk.board, desk.chain, goal) for goal in ("Collect", "Count"))
    task = cast.filed(desk.board, desk.chain, deps=[first.public_id])
    assert desk.edits(task, deps=[second.public_id, ""]).status_code == 302
    assert [edge.dependency_id for edge in task.dep_edges.all()] == [second.pk]
    assert desk.edits(task, deps=[""], start_it="on").status_code == 302
    assert cast.fresh(task).unmet_deps == 0


def test_a_loop_is_refused_with_its_path(desk):
    first = cast.filed(desk.board, desk.chain, "Collect")
    task = cast.filed(desk.board, desk.chain, deps=[first.public_id])
    answer = desk.edits(first, deps=[task.public_id])
    assert answer.status_code == 422
    assert "form a loop" in answer.content.decode()
    assert 'id="wrong-deps"' in answer.content.decode()


def test_after_the_start_only_the_due_time_is_open(desk):
    task = cast.filed(desk.board, desk.chain)
    cast.claimed(desk.board)
    page = desk.client().get(reverse("web:task_edit", args=["desk", task.public_id])).content.decode()
    assert "only its due time can be changed" in page
    assert len(re.findall(r"disabled>", page)) >= 9
    assert desk.edits(task, due_at="2027-03-01T12:30").status_code == 302
    assert cast.fresh(task).due_at == datetime(2027, 3, 1, 12, 30, tzinfo=UTC)


def test_a_task_that_starts_while_the_form_is_open_is_refused_not_edited_and_no_text_is_lost(desk):
    task = cast.filed(desk.board, desk.chain)
    address = reverse("web:task_edit", args=["desk", task.public_id])
    client = desk.client()
    sent = fields_of(client.get(address).content.decode())
    cast.claimed(desk.board)
    answer = client.post(address, {**sent, "title": "Too late", "due_at": "2027-03-01T12:30"})
    html = answer.content.decode()
    assert answer.status_code == 422
    assert "title cannot be changed: the task was started and is Working. Send it a message instead." in html
    assert 'value="Too late"' in html
    row = cast.fresh(task)
    assert (row.title, row.due_at) == ("", None), "nothing of it was written"
    assert client.post(address, {**fields_of(html), "due_at": "2027-03-01T12:30"}).status_code == 302
    assert (cast.fresh(task).title, cast.fresh(task).due_at) == ("", datetime(2027, 3, 1, 12, 30, tzinfo=UTC))


def test_a_task_that_ends_while_the_form_is_open_says_so(desk):
    task = cast.filed(desk.board, desk.chain)
    address = reverse("web:task_edit", args=["desk", task.public_id])
    client = desk.client()
    sent = fields_of(client.get(address).content.decode())
    tasks.cancel(desk.chain, task)
    answer = client.post(address, {**sent, "goal": "Too late"})
    assert answer.status_code == 422
    assert "The task has ended. File a follow-up." in answer.content.decode()
    assert "Too late" in answer.content.decode()
    assert cast.fresh(task).goal == "Write the notes"


def test_somebody_elses_change_of_the_same_field_is_not_written_over(desk):
    task = cast.filed(desk.board, desk.chain, title="First")
    address = reverse("web:task_edit", args=["desk", task.public_id])
    client = desk.client()
    sent = fields_of(client.get(address).content.decode())
    tasks.update_task(desk.chain, task, title="Theirs", priority=3)
    answer = client.post(address, {**sent, "title": "Mine", "context": "Also mine."})
    html = answer.content.decode()
    assert answer.status_code == 422
    assert "It is now: Theirs" in html
    assert "Also mine." in html
    assert cast.fresh(task).title == "Theirs"
    assert client.post(address, {**sent, "context": "Also mine."}).status_code == 302
    assert (cast.fresh(task).context, cast.fresh(task).priority) == ("Also mine.", 3)


def test_an_ended_task_has_nothing_to_save(desk):
    task = cast.filed(desk.board, desk.chain)
    tasks.cancel(desk.chain, task)
    page = desk.client().get(reverse("web:task_edit", args=["desk", task.public_id])).content.decode()
    assert "nothing of it can be edited" in page
    assert ">Save<" not in page


def test_taking_out_the_last_dependency_asks_once_more_since_it_would_start(desk):
    cast.filed(desk.board, desk.chain, id="first")
    task = cast.filed(desk.board, desk.chain, deps=["first"])
    address = reverse("web:task_edit", args=["desk", task.public_id])
    client = desk.client()
    sent = {**fields_of(client.get(address).content.decode()), "deps": ""}
    answer = client.post(address, {**sent, "title": "Kept"})
    html = answer.content.decode()
    assert answer.status_code == 422
    assert "this will start it" in html
    assert 'name="start_it"' in html
    assert 'value="Kept"' in html
    assert cast.fresh(task).unmet_deps == 1
    assert client.post(address, {**sent, "start_it": "on"}).status_code == 302
    assert cast.fresh(task).unmet_deps == 0


def test_a_loop_is_told_at_its_field_with_its_path(desk):
    first = cast.filed(desk.board, desk.chain, id="first")
    cast.filed(desk.board, desk.chain, id="second", deps=["first"])
    answer = desk.edits(first, deps="second")
    assert answer.status_code == 422
    assert "first → second → first" in answer.content.decode()


def test_an_ended_task_is_filed_again_with_changes(desk):
    done = desk.worked(desk.filed(goal="Before"))
    gone = desk.filed(goal="Gone")
    task = desk.filed(
        goal="Write <b>it</b>",
        title="Notes",
        context="Short.",
        input={"file": "wrong.md"},
        labels=["docs", "2.4"],
        priority=4,
        max_attempts=2,
        checker="person",
        deps=[done.public_id, gone.public_id],
        due_at=datetime(2020, 1, 1, tzinfo=UTC),
    )
    tasks.cancel(desk.chain, gone)
    tasks.cancel(desk.chain, task, "Wrong file")
    page = desk.client().get(reverse("web:task", args=["desk", task.public_id])).content.decode()
    link = re.search(r'href="([^"]*\?like=[^"]*)"', page)
    assert link
    form = fields_of(desk.client().get(link[1]).content.decode())
    assert (form["goal"].replace("&lt;", "<").replace("&gt;", ">"), form["title"]) == ("Write <b>it</b>", "Notes")
    assert (form["context"], form["labels"], form["priority"], form["max_attempts"]) == (
        "Short.",
        "docs, 2.4",
        "4",
        "2",
    )
    assert (form["checker"], form["assignee"], form["deps"]) == ("person", "writer", [done.public_id])
    assert (form["id"], form["due_at"]) == ("", ""), "a new task, and not one that is overdue from the start"
    assert json.loads(form["input"]) == {"file": "wrong.md"}
    assert desk.files(**{**form, "input": '{"file": "right.md"}'}).status_code == 302
    again = Task.objects.latest("pk")
    assert (again.input, again.status, cast.fresh(task).status) == ({"file": "right.md"}, "pending", "cancelled")


def test_a_task_that_goes_on_is_not_offered_to_be_filed_again_and_viewers_are_offered_nothing(desk):
    task = desk.filed()
    address = reverse("web:task", args=["desk", task.public_id])
    assert "?like=" not in desk.client().get(address).content.decode()
    tasks.cancel(desk.chain, task)
    assert "?like=" in desk.client().get(address).content.decode()
    assert "?like=" not in desk.client(desk.vera).get(address).content.decode()


@pytest.mark.parametrize("name", ["nowhere", "a/b", "\0", "t1@7"])
def test_a_form_like_a_task_that_is_not_there_is_not_there(desk, name):
    assert desk.client().get(reverse("web:new_task", args=["desk"]), {"like": name}).status_code == (
        200 if name == "\0" else 404
    )
