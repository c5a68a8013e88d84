"""Many tasks in one form: all are filed or none, each that is wrong is named, and the text is kept."""

from __future__ import annotations

import pytest
from django.urls import reverse

from boards.models import Board, Task
from boards.web.batch_lines import filings_of, read_lines
from tests import cast
from tests.web.desk import Desk

pytestmark = pytest.mark.django_db


class Batch(Desk):
    def files(self, text: str, member=None, **form: object):
        return self.client(member).post(reverse("web:file_batch", args=["desk"]), {"text": text, **form})


@pytest.fixture
def desk() -> Batch:
    return Batch()


def test_each_line_is_a_task_with_what_all_of_them_share(desk):
    answer = desk.files(
        "Collect the figures\n\n  @READER Write the report [after 1]\r\nSend it [after 1, 2]",
        assignee="writer",
        labels="spring, report",
        priority="3",
        max_attempts="2",
    )
    assert answer["Location"] == reverse("web:board", args=["desk"])
    first, second, third = Task.objects.order_by("pk")
    assert [task.goal for task in (first, second, third)] == ["Collect the figures", "Write the report", "Send it"]
    assert [task.assignee for task in (first, second, third)] == ["writer", "reader", "writer"]
    assert {(tuple(t.labels), t.priority, t.max_attempts) for t in (first, second, third)} == {
        (("spring", "report"), 3, 2)
    }
    assert [edge.dependency for edge in third.dep_edges.order_by("pk")] == [first, second]
    assert (second.unmet_deps, third.unmet_deps) == (1, 2)


def test_a_block_is_a_title_with_its_goal(desk):
    desk.files("Collect\nAll figures.\nOf spring.\n \n@reader Send it [after 1]", split="block", held="1")
    first, second = Task.objects.order_by("pk")
    assert (first.title, first.goal, first.status) == ("Collect", "All figures.\nOf spring.", "held")
    assert (second.title, second.goal, second.assignee, second.status) == ("", "Send it", "reader", "held")


def test_a_task_of_the_board_may_be_waited_for(desk):
    there = desk.filed()
    desk.files(f"Send it [after {there.public_id}]")
    assert Task.objects.latest("pk").dep_edges.get().dependency == there


def test_every_task_that_is_wrong_is_named_nothing_is_filed_and_the_text_is_kept(desk):
    text = "Collect\n@nobody Write\nSend [after 3]\n[after 1]\nPaint [after a/b]"
    answer = desk.files(text, labels="spring", split="line")
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "“nobody” is not on the roster. There is writer, reader, ben." in page
    assert "It can wait only for tasks above it: 3 is not the number of one." in page
    assert "“a/b” is neither the number of a task above nor the id of one." in page
    assert [f"<b>Task {n}</b>" in page for n in range(1, 6)] == [False, True, True, True, True]
    assert "Send [after 3]\n" in page
    assert 'value="spring"' in page
    assert not Task.objects.exists()


@pytest.mark.parametrize("text", ["", " \n \n"])
def test_an_empty_batch_is_told_what_to_write(desk, text):
    assert "Write at least one task." in desk.files(text).content.decode()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Collect\nSend it [after nowhere]", "The dependency nowhere is not on this board."),
        ("Collect\n\N{ZERO WIDTH SPACE}\N{ZERO WIDTH SPACE}", "goal must not be blank."),
    ],
)
def test_what_the_engine_refuses_is_said_at_the_task_it_is_about(desk, text, sentence):
    page = desk.files(text).content.decode()
    assert sentence in page
    assert "<b>Task 2</b>" in page
    assert not Task.objects.exists()


def test_an_open_twin_is_shown_and_filed_only_when_said_so(desk):
    twin = desk.filed(goal="Collect", assignee="")
    page = desk.files("Paint\nCollect", form_key="a1").content.decode()
    assert "<b>Task 2</b>" in page
    assert reverse("web:task", args=["desk", twin.public_id]) in page
    assert Task.objects.count() == 1
    desk.files("Paint\nCollect", form_key="a1", allow_same="1")
    assert Task.objects.count() == 3


def test_a_goal_that_stands_twice_is_shown_and_filed_only_when_said_so(desk):
    page = desk.files("Paint\nCollect\npaint", form_key="a1").content.decode()
    assert "<b>Task 3</b>" in page
    assert "“Paint” stands in this batch already with the same goal, as task 1." in page
    assert ("File anyway" in page, "Open that one" in page) == (True, False)
    assert not Task.objects.exists()
    desk.files("Paint\nCollect\npaint", form_key="a1", allow_same="1")
    assert Task.objects.count() == 3


def test_a_wrong_shared_field_is_said_at_the_field(desk):
    page = desk.files("Collect", priority="high").content.decode()
    assert 'id="wrong-priority"' in page
    page = desk.files("Collect", assignee="nobody").content.decode()
    assert 'id="wrong-assignee"' in page
    assert not Task.objects.exists()


def test_the_same_form_sent_twice_files_once(desk):
    for _ in range(2):
        assert desk.files("Collect\nSend [after 1]", form_key="0123456789abcdef").status_code == 302
    assert Task.objects.count() == 2


def test_the_limit_of_the_board_refuses_the_whole_batch(desk):
    desk.board.max_enqueued_tasks = 2
    desk.board.save(update_fields=["max_enqueued_tasks"])
    answer = desk.files("One\nTwo\nThree")
    assert "As many tasks are Ready as this board allows" in answer.content.decode()
    assert not Task.objects.exists()


def test_a_viewer_files_nothing_and_a_stranger_finds_no_such_page(desk):
    assert desk.files("Collect", desk.vera).status_code == 422
    assert not Task.objects.exists()
    stranger = cast.make_member(cast.make_space("elsewhere"), "zoe")
    assert desk.files("Collect", stranger).status_code == 404


def test_the_form_is_reached_from_the_board(desk):
    board = desk.client().get(reverse("web:board", args=["desk"])).content.decode()
    assert reverse("web:file_batch", args=["desk"]) in board
    form = desk.client().get(reverse("web:file_batch", args=["desk"]))
    assert form.status_code == 200
    assert "All of them are filed, or none." in form.content.decode()


def test_the_assignee_of_the_board_stands_in_the_list_once(desk):
    Board.objects.filter(slug="desk").update(default_worker=cast.WRITER)
    form = desk.client().get(reverse("web:file_batch", args=["desk"])).content.decode()
    assert f'<option value="">As the board says: {cast.WRITER}</option>' in form
    shown = form[form.index('id="f-assignee"') : form.index('id="f-checker"')]
    assert f'value="{cast.WRITER}"' not in shown
    assert f'value="{cast.READER}"' in shown


def test_numbers_are_those_of_the_tasks_not_of_the_lines_of_the_text():
    lines = read_lines("One\n\n\nTwo [after 1]\n\nThree [after 2,1]", blocks=False, names=[])
    assert [(line.number, line.above, line.problem) for line in lines] == [(1, [], ""), (2, [1], ""), (3, [2, 1], "")]
    assert [filing.deps for filing in filings_of(lines, {}, "b1")] == [[], ["b1-1"], ["b1-2", "b1-1"]]


def test_without_a_number_named_the_board_gives_the_ids():
    lines = read_lines("One\nTwo [after t7]", blocks=False, names=[])
    assert [filing.id for filing in filings_of(lines, {}, "b1")] == ["", ""]
