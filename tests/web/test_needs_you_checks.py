"""A result is checked in its row of *Needs you*: it is read there, and decided there (spec: 04 sections 3 and 5)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from boards import tasks
from boards.actors import Chain
from boards.models import Board, Task
from boards.queries.cards import task_dom_id
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "/needs-you/"


@pytest.fixture
def board() -> Board:
    return cast.make_board(cast.make_space())


@pytest.fixture
def anna(board: Board) -> Chain:
    return cast.chain_of(cast.make_member(board.space))


@pytest.fixture
def bert(board: Board) -> Chain:
    return cast.chain_of(cast.make_member(board.space, "bert"))


@pytest.fixture
def client(board: Board, anna: Chain) -> Client:
    return signed_in(board, "anna")


def signed_in(board: Board, name: str) -> Client:
    client = Client()
    client.force_login(board.space.members.get(user__username=name).user)
    return client


def handed_in(board: Board, chain: Chain, output: Any = "The notes", goal: str = "Write the notes") -> Task:
    task = cast.filed(board, chain, goal, checker="person")
    hand_in_again(board, task, output)
    return cast.fresh(task)


def hand_in_again(board: Board, task: Task, output: Any) -> None:
    tasks.complete(cast.agent_chain(board), task, output, claim=cast.claimed(board).ticket)


def key(task: Task) -> str:
    return f"row-{task_dom_id(task.board_id, task.public_id, task.partition)}"


def text(response: Any) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


def opened(client: Client, task: Task) -> str:
    return text(client.get(reverse("web:needs_row", args=[key(task)]), {"open": "1"}, headers={"HX-Request": "true"}))


def say(client: Client, task: Task, verb: str, *, words: str = "", shown: int = 1, htmx: bool = True) -> Any:
    form = {"from": "list", "next": LIST, "shown": shown, "words": words}
    headers = {"HX-Request": "true"} if htmx else {}
    return client.post(reverse("web:task_act", args=["desk", task.public_id, verb]), form, headers=headers)


def toast(response: Any) -> str:
    return str(json.loads(response["HX-Trigger"])["toast"]["text"])


def test_the_row_shows_the_result_and_both_acts(board, anna, client):
    page = opened(client, handed_in(board, anna, {"markdown": "**Halyard** is out."}))
    assert "<strong>Halyard</strong> is out." in page
    assert 'data-does="a"' in page
    assert 'data-does="r"' in page
    assert 'name="shown" value="1"' in page
    assert "hx-disabled-elt" in page
    assert "data-draft=" in page


def test_the_first_row_is_open_and_any_other_by_its_address(board, anna, client):
    first, second = (handed_in(board, anna, f"Text {n}", f"Write {n}") for n in (1, 2))
    page = text(client.get(LIST))
    assert "Text 1" in page
    assert "Text 2" not in page
    page = text(client.get(LIST, {"open": key(second)}))
    assert "Text 2" in page
    assert "Text 1" not in page
    assert first.status == "needs_check"


def test_what_changed_since_the_last_hand_in_comes_first(board, anna, client):
    task = handed_in(board, anna, "one\ntwo\nthree")
    tasks.send_back(anna, task, "Two is wrong")
    hand_in_again(board, task, "one\nzwei\nthree")
    page = opened(client, task)
    assert 'class="del"' in page
    assert "zwei" in page
    assert page.index("Changed since the last hand-in") < page.index("The whole result")
    assert 'name="shown" value="2"' in page


def test_a_long_result_is_folded_behind_its_beginning(board, anna, client):
    page = opened(client, handed_in(board, anna, "\n".join(f"line {n}" for n in range(500))))
    folded = page.index("<details")
    assert "line 5<br>" in page[:folded]
    assert "line 400" not in page[:folded]
    assert "line 400" in page[folded:]


def test_accepting_takes_the_row_away_without_another_page(board, anna, client):
    task = handed_in(board, anna)
    answer = say(client, task, "accept")
    assert answer.status_code == 200
    assert (answer["HX-Reswap"], answer["HX-Retarget"]) == ("delete", f"#row-{key(task)}")
    assert toast(answer) == "Accepted: “Write the notes”"
    assert cast.fresh(task).status == "completed"


def test_sending_back_needs_words_and_they_reach_the_next_attempt(board, anna, client):
    task = handed_in(board, anna)
    refused = say(client, task, "send_back", words=" ")
    assert refused.status_code == 422
    assert "Say what is missing" in text(refused)
    assert "data-wrong" in text(refused)
    assert say(client, task, "send_back", words="The date").status_code == 200
    row = cast.fresh(task)
    assert (row.status, row.feedback) == ("pending", "The date")


@pytest.mark.parametrize(
    ("first", "said"), [("accept", "Bert accepted this at"), ("send_back", "Bert sent this back at")]
)
def test_a_late_one_hears_who_what_and_when(board, anna, bert, client, first, said):
    task = handed_in(board, anna)
    say(signed_in(board, "bert"), task, first, words="The date" if first == "send_back" else "")
    late = say(client, task, "accept")
    assert late.status_code == 409
    assert said in text(late)
    assert "data-closed" in text(late), "the form is locked by this"
    assert "What you wrote is still here." in text(late)


def test_a_result_that_was_handed_in_again_is_shown_before_it_is_decided(board, anna, bert, client):
    task = handed_in(board, anna, "First")
    tasks.send_back(bert, task, "Longer")
    hand_in_again(board, task, "Second, longer")
    late = say(client, task, "send_back", words="My own words")
    assert late.status_code == 409
    assert (late["HX-Reswap"], late["HX-Retarget"]) == ("outerHTML", f"#ask-form-{key(task)}")
    page = text(late)
    assert "handed in again" in page
    assert "Second, longer" in page
    assert "My own words</textarea>" in page
    assert 'name="shown" value="2"' in page
    assert cast.fresh(task).status == "needs_check"


def test_what_became_of_it_is_told_to_who_still_writes(board, anna, bert, client):
    task = handed_in(board, anna)
    address = reverse("web:check_state", args=["desk", task.public_id])
    assert client.get(address, {"shown": "1"}).status_code == 204
    tasks.accept(bert, task)
    assert "Bert accepted this at" in text(client.get(address, {"shown": "1"}))
    assert client.get(address, {"shown": "x"}).status_code == 404


def test_whoever_handed_it_in_reads_why_there_are_no_buttons(board, anna, client):
    cast.put_on_roster(board, board.space.members.get(user__username="anna"))
    task = cast.filed(board, anna, checker="person")
    tasks.set_assignee(anna, task, "anna")
    ticket = tasks.claim_for_person(anna, task).ticket
    tasks.set_assignee(anna, task, "")
    tasks.complete(anna, task, "mine", claim=ticket)
    page = opened(client, task)
    assert "You handed this in" in page
    assert "data-does" not in page
    assert say(client, task, "accept").status_code == 403


def test_it_is_decided_without_javascript_too(board, anna, bert, client):
    one, two = (handed_in(board, anna, goal=f"Write {n}") for n in (1, 2))
    answer = say(client, one, "accept", htmx=False)
    assert answer.status_code == 302
    assert answer["Location"] == LIST
    tasks.accept(bert, two)
    late = say(client, two, "send_back", words="My own words", htmx=False)
    assert late.status_code == 409
    assert "Bert accepted this at" in text(late)
    assert "My own words" in text(late)


def test_strangers_find_nothing(board, anna):
    task = handed_in(board, anna)
    other = cast.make_board(cast.make_space("other"), "else")
    cast.make_member(other.space, "eve")
    eve = signed_in(other, "eve")
    assert say(eve, task, "accept").status_code == 404
    assert eve.get(reverse("web:needs_row", args=[key(task)]), {"open": "1"}).status_code == 404
    assert eve.get(reverse("web:check_state", args=["desk", task.public_id]), {"shown": "1"}).status_code == 404


def test_a_longer_list_asks_no_more_of_the_database(board, anna, client):
    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            client.get(LIST)
        return len(caught)

    handed_in(board, anna, goal="Write 0")
    one = queries()
    for n in range(1, 6):
        handed_in(board, anna, goal=f"Write {n}")
    assert queries() == one


# Many at once: nobody decides what they have not seen.

BULK = "/needs-you/bulk"


def said(response: Any) -> str:
    content = b"".join(response.streaming_content) if response.streaming else response.content
    return re.sub(r"\s+", " ", content.decode())


def fields(page: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page):
        found.setdefault(name, []).append(value)
    return {name: value for name, value in found.items() if name != "csrfmiddlewaretoken"}


def test_each_of_many_checks_shows_its_result_before_one_decides(board, anna, client):
    short = [handed_in(board, anna, f"Text {n}", f"Write {n}") for n in range(3)]
    long = handed_in(board, anna, "word " * 4_000, "Write much")
    page = said(client.post(BULK, {"all": "1"}))
    assert all(f"Text {n}" in page for n in range(3))
    assert "word word" not in page, "what is long is read when it is opened"
    assert f"{reverse('web:needs_row', args=[key(long)])}?result=1" in page
    result = said(client.get(reverse("web:needs_row", args=[key(long)]), {"result": "1"}))
    assert "word word" in result
    assert "data-does" not in result
    done = said(client.post(BULK, fields(page) | {"act": "send_back", "words": "Say who"}))
    assert "4 done." in done
    assert done.count("sent back: <q") == 4
    assert {cast.fresh(task).feedback for task in [*short, long]} == {"Say who"}


def test_of_many_checks_only_those_that_were_read_as_they_stand_are_accepted(board, anna, bert, client):
    same, changed, unseen = (handed_in(board, anna, f"Text {n}", f"Write {n}") for n in range(3))
    form = fields(said(client.post(BULK, {"all": "1"})))
    del form[f"shown-{key(unseen)}"]
    tasks.send_back(bert, changed, "Longer")
    hand_in_again(board, changed, "Longer text")
    done = said(client.post(BULK, form | {"act": "accept"}))
    assert "1 done, 2 not." in done
    assert "handed in again" in done
    assert "Its result was not on the page." in done
    assert [cast.fresh(t).status for t in (same, changed, unseen)] == ["completed", "needs_check", "needs_check"]
    stale = said(client.get(reverse("web:needs_row", args=[key(changed)]), {"result": "1"}))
    assert "handed in again" in stale
    assert "Longer text" not in stale


def test_more_checks_than_can_be_read_are_not_decided_at_once(board, anna, client):
    one = handed_in(board, anna)
    copies = []
    for n in range(101):
        copy = Task.objects.get(pk=one.pk)
        copy.pk, copy.public_id, copy.incarnation_id = None, f"c{n}", one.incarnation_id
        copies.append(copy)
    Task.objects.bulk_create(copies)
    page = said(client.post(BULK, {"all": "1"}))
    assert "too many to be shown at once" in page
    assert 'value="accept"' not in page


def test_a_confirm_shows_its_context_before_many_are_answered(board, anna, client):
    hold = {"kind": "confirm", "title": "Go?", "prompt": "Really go?", "context": "It costs **40 euros**."}
    for n in range(2):
        tasks.file_task(anna, board, goal=f"Go {n}", holds=[tasks.HoldFiling(**hold)])
    page = said(client.post(BULK, {"all": "1"}))
    assert page.count("<strong>40 euros</strong>") == 2
    done = said(client.post(BULK, fields(page) | {"act": "answer:yes"}))
    assert "2 done." in done
    assert done.count("answered “Yes”") == 2
