"""The quick line of the board: one line is the goal, and what is refused is kept."""

from __future__ import annotations

import pytest
from django.test import Client

from boards.models import Board, Member, Task
from tests.cast import READER, WRITER, chain_of, filed, make_board, make_member, make_space

pytestmark = pytest.mark.django_db

HTMX = {"HTTP_HX_REQUEST": "true"}


@pytest.fixture
def anna() -> Member:
    return make_member(make_space())


@pytest.fixture
def board(anna: Member) -> Board:
    return make_board(anna.space)


@pytest.fixture
def page(client: Client, anna: Member, board: Board) -> Client:
    client.force_login(anna.user)
    return client


def send(page: Client, line: str, **fields: str) -> str:
    return page.post("/b/desk/file", {"line": line, **fields}, **HTMX).content.decode()


def test_a_line_files_a_task_and_brings_its_card(page: Client, anna: Member) -> None:
    answer = send(page, "  Water the plants  ", assignee=WRITER)
    task = Task.objects.get()
    assert (task.goal, task.assignee, task.created_by) == ("Water the plants", WRITER, anna.user)
    assert "<template data-place><article" in answer
    assert "></textarea>" in answer  # the line is empty again
    assert f'<option value="{WRITER}" selected>' in answer  # and goes to the same one


@pytest.mark.parametrize("line", ["@reader Count the pages", "@READER   Count the pages"])
def test_a_name_at_its_head_says_whom_it_is_for(page: Client, line: str) -> None:
    send(page, line, assignee=WRITER)
    assert (Task.objects.get().assignee, Task.objects.get().goal) == (READER, "Count the pages")


def test_an_unknown_name_is_refused_and_the_line_kept(page: Client) -> None:
    answer = send(page, "@nobody Count <the> pages")
    assert "“nobody” is not on the roster of Desk. There is writer, reader." in answer
    assert "@nobody Count &lt;the&gt; pages</textarea>" in answer
    assert not Task.objects.exists()


@pytest.mark.parametrize("line", ["", "   ", "@reader"])
def test_an_empty_line_is_told_what_to_write(page: Client, line: str) -> None:
    assert "Write what is to be done" in send(page, line)
    assert not Task.objects.exists()


def test_the_same_goal_again_is_shown_first_and_filed_only_when_said_so(
    page: Client, anna: Member, board: Board
) -> None:
    first = filed(board, chain_of(anna), "Water the plants")
    answer = send(page, "Water the plants", assignee=WRITER)
    assert f'href="/b/desk/t/{first.public_id}/"' in answer
    assert "File anyway" in answer
    assert Task.objects.count() == 1
    send(page, "Water the plants", assignee=WRITER, allow_same="1")
    assert Task.objects.count() == 2


def test_a_line_that_stands_twice_is_shown_first_and_filed_only_when_said_so(page: Client) -> None:
    answer = send(page, "Water the plants\nwater the plants", each="1")
    assert ("stands in this batch already" in answer, "File anyway" in answer, "Open it" in answer) == (
        True,
        True,
        False,
    )
    assert not Task.objects.exists()
    send(page, "Water the plants\nwater the plants", each="1", allow_same="1")
    assert Task.objects.count() == 2


def test_several_lines_are_one_task_each_or_one_in_all(page: Client) -> None:
    response = page.post("/b/desk/file", {"line": "One\n\n@reader Two\nThree", "each": "1"}, **HTMX)
    assert "Filed 3 tasks." in response["HX-Trigger"]
    assert list(Task.objects.order_by("pk").values_list("goal", "assignee")) == [
        ("One", ""),
        ("Two", READER),
        ("Three", ""),
    ]
    send(page, "A title\nand all the rest")
    assert Task.objects.order_by("pk").last().goal == "A title\nand all the rest"  # type: ignore[union-attr]


def test_of_several_lines_a_wrong_one_files_none(page: Client) -> None:
    answer = send(page, "One\n@nobody Two", each="1")
    assert "not on the roster" in answer
    assert not Task.objects.exists()


def test_a_card_that_the_filter_hides_is_not_brought(page: Client) -> None:
    address = {"HTTP_HX_CURRENT_URL": "http://testserver/b/desk/?q=lawn"}
    hidden = page.post("/b/desk/file", {"line": "Paint"}, **HTMX, **address).content.decode()
    brought = page.post("/b/desk/file", {"line": "Mow the lawn"}, **HTMX, **address).content.decode()
    assert "<article" not in hidden
    assert "<article" in brought


def test_without_script_the_page_comes_back_with_the_line_or_the_board(page: Client) -> None:
    wrong = page.post("/b/desk/file", {"line": "@nobody Paint"})
    assert wrong.status_code == 422
    assert "@nobody Paint</textarea>" in wrong.content.decode()
    assert page.post("/b/desk/file", {"line": "Paint"})["Location"] == "/b/desk/"
