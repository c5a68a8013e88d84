"""The acts of the task page: one POST, one verb; a toast or a message; a refusal is a sentence and keeps the page."""

from __future__ import annotations

import json

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from boards import tasks
from boards.debts import paying
from boards.models import Event, Member, Task
from boards.states import Status
from boards.tasks import Filing, file_task
from tests import cast
from tests.web.desk import Desk

pytestmark = pytest.mark.django_db


class Acts(Desk):
    def does(self, task: Task, verb: str, member: Member | None = None, *, htmx: bool = True, **form: str):
        address = reverse("web:task_act", args=["desk", task.public_id, verb])
        return self.client(member, htmx=htmx).post(address, form)


@pytest.fixture
def desk() -> Acts:
    return Acts()


def toast(answer) -> dict[str, str]:
    return json.loads(answer["HX-Trigger"])["toast"]


def status(task: Task) -> str:
    return cast.fresh(task).status


def test_each_act_is_done_said_and_read_again(desk):
    held = desk.filed()
    for verb, to, said in (("hold", "held", "Held."), ("release", "pending", "Released.")):
        answer = desk.does(held, verb)
        assert (answer.status_code, toast(answer), status(held)) == (204, {"text": said, "tone": "ok"}, to)
        assert "task:changed" in json.loads(answer["HX-Trigger"])


def test_release_may_name_the_assignee(desk):
    task = desk.filed(held=True)
    assert desk.does(task, "release", assignee="reader").status_code == 204
    assert (status(task), cast.fresh(task).assignee) == (Status.PENDING, "reader")


def test_cancel_keeps_its_reason_and_takes_filed_tasks_along_only_when_asked(desk):
    first, second = desk.filed(), desk.filed(goal="Another")
    parts = [
        file_task(desk.chain, desk.board, Filing(goal=f"Part of {t.pk}"), filed_by_task=t) for t in (first, second)
    ]
    assert desk.does(first, "cancel", reason="Not wanted.", cancel_filed="on").status_code == 204
    assert desk.does(second, "cancel").status_code == 204
    paying.pay_due()
    assert cast.fresh(first).error == "Not wanted."
    assert [status(part) for part in parts] == ["cancelled", "pending"]


def test_an_ended_task_is_not_cancelled_again(desk):
    task = desk.filed()
    desk.does(task, "cancel", reason="First.")
    answer = desk.does(task, "cancel", reason="Second.")
    assert answer.status_code == 409
    assert toast(answer)["tone"] == "error"
    assert toast(answer)["text"].endswith(".")
    assert cast.fresh(task).error == "First."


def test_skip_needs_a_reason(desk):
    task = desk.stuck()
    refused = desk.does(task, "skip", reason="   ")
    assert refused.status_code == 422
    assert "why" in toast(refused)["text"].lower()
    assert status(task) == Status.ERRORED
    assert desk.does(task, "skip", reason="Nobody needs it.").status_code == 204
    assert (status(task), cast.fresh(task).error) == (Status.CANCELLED, "Nobody needs it.")


def test_retry_takes_the_cancelled_dependents_along_when_asked(desk):
    task = desk.stuck()
    assert desk.does(task, "retry").status_code == 204
    dependent = desk.filed(goal="Publish", deps=[task.public_id])
    desk.failed(task, "Again no file.")
    paying.pay_due()
    assert status(dependent) == Status.CANCELLED
    assert desk.does(task, "retry", with_dependents="on").status_code == 204
    assert (status(task), status(dependent)) == (Status.PENDING, Status.PENDING)


def test_a_declined_retry_says_why(desk):
    answer = desk.does(desk.filed(), "retry")
    assert answer.status_code == 409
    assert toast(answer)["text"] == "Only a Stuck or Skipped task can be retried."


def test_the_check_accepts_or_sends_back_with_words(desk):
    accepted, sent_back = desk.handed_in(), desk.handed_in(goal="Another")
    assert desk.does(accepted, "accept").status_code == 204
    assert status(accepted) == Status.COMPLETED
    assert desk.does(sent_back, "send_back", words="").status_code == 422
    assert status(sent_back) == Status.NEEDS_CHECK
    assert desk.does(sent_back, "send_back", words="Too long.").status_code == 204
    assert (status(sent_back), cast.fresh(sent_back).feedback) == (Status.PENDING, "Too long.")


def test_words_that_come_with_a_yes_stand_with_the_verdict(desk):
    task = desk.handed_in()
    assert desk.does(task, "accept", words=" Well done, Writer. ", shown="1").status_code == 204
    event = Event.objects.get(task=task.pk, kind="task.checked")
    assert (event.data["verdict"], event.data["text"]) == ("accepted", "Well done, Writer.")
    page = desk.client().get(reverse("web:task", args=["desk", task.public_id])).content.decode()
    assert "accepted it: “Well done, Writer.”" in page
    assert cast.fresh(task).feedback == ""
    assert desk.does(task, "accept", words="Well done, Writer.", shown="1").status_code == 204  # the form, sent twice
    late = desk.does(task, "accept", words="Other words.", shown="1")
    assert late.status_code == 409
    assert "Well done, Writer." in toast(late)["text"]


def test_whoever_handed_in_cannot_accept(desk):
    task = desk.filed(assignee="ben", checker="person")
    assert desk.does(task, "claim", desk.ben).status_code == 204
    assert desk.does(task, "complete", desk.ben, output="# Done").status_code == 204
    assert cast.fresh(task).output == {"markdown": "# Done"}
    refused = desk.does(task, "accept", desk.ben)
    assert refused.status_code == 403
    assert "somebody else" in toast(refused)["text"]
    assert desk.does(task, "accept", desk.anna).status_code == 204


def test_a_person_gives_back_what_they_started_and_nobody_else_does(desk):
    task = desk.filed(assignee="ben")
    assert desk.does(task, "claim", desk.anna).status_code == 403
    desk.does(task, "claim", desk.ben)
    for verb in ("complete", "hand_back"):
        refused = desk.does(task, verb, desk.anna, output="Mine")
        assert refused.status_code == 403
        assert "do not work on this" in toast(refused)["text"]
    assert desk.does(task, "hand_back", desk.ben).status_code == 204
    assert (status(task), cast.fresh(task).failures) == (Status.PENDING, 0)


def test_a_message_reaches_the_task_and_an_empty_or_late_one_is_refused(desk):
    task = desk.filed()
    assert desk.does(task, "steer", message=" Shorter. ").status_code == 204
    assert [steer["text"] for steer in cast.fresh(task).steers] == ["Shorter."]
    assert desk.does(task, "steer", message="\u200b").status_code == 422
    tasks.cancel(desk.chain, task)
    assert desk.does(task, "steer", message="Too late").status_code == 409


def test_start_anyway_lets_it_go_without_what_ended(desk):
    first = desk.filed()
    task = desk.filed(goal="Publish", deps=[first.public_id])
    tasks.cancel(desk.chain, first, "Not wanted.")
    paying.pay_due()
    assert status(task) == Status.CANCELLED
    assert desk.does(task, "start_anyway").status_code == 204
    assert (status(task), cast.fresh(task).unmet_deps) == (Status.PENDING, 0)


def test_reclaim_is_for_operators(desk):
    task = desk.filed()
    cast.claimed(desk.board, lease_ms=1_000)
    assert desk.does(task, "reclaim", desk.anna).status_code == 403
    assert status(task) == Status.IN_PROGRESS


@pytest.mark.parametrize("verb", ["cancel", "hold", "steer", "skip", "retry", "release", "start_anyway"])
def test_a_viewer_acts_on_nothing(desk, verb):
    task = desk.filed(held=verb == "release")
    before = Event.objects.count()
    answer = desk.does(task, verb, desk.vera, reason="r", message="m")
    assert answer.status_code == 403
    assert toast(answer)["tone"] == "error"
    assert Event.objects.count() == before


@pytest.mark.parametrize("verb", ["withdraw", "complete_all", "file", "abandon", "fail", "edit_all"])
def test_what_is_no_act_of_a_page_is_not_found(desk, verb):
    assert desk.does(desk.filed(), verb).status_code == 404


def test_a_get_acts_on_nothing(desk):
    task = desk.filed()
    client = desk.client()
    assert client.get(reverse("web:task_act", args=["desk", task.public_id, "cancel"])).status_code == 405
    assert status(task) == Status.PENDING


def test_another_spaces_task_is_not_found(desk):
    stranger = cast.make_member(cast.make_space("elsewhere"), "stranger")
    assert desk.does(desk.filed(), "cancel", stranger).status_code == 404


def test_without_script_the_answer_is_the_page_with_the_sentence(desk):
    task = desk.filed()
    address = reverse("web:task", args=["desk", task.public_id])
    for verb, sentence in (("hold", "Held."), ("retry", "Only a Stuck or Skipped task can be retried.")):
        answer = desk.does(task, verb, htmx=False)
        assert (answer.status_code, answer["Location"]) == (302, address)
        assert [str(message) for message in get_messages(answer.wsgi_request)][-1] == sentence


def test_forms_carry_the_token_that_a_post_needs(desk):
    task = desk.filed()
    client = Client(enforce_csrf_checks=True)
    client.force_login(desk.anna.user)
    address = reverse("web:task_act", args=["desk", task.public_id, "hold"])
    assert client.post(address).status_code == 403
    page = client.get(reverse("web:task", args=["desk", task.public_id])).content.decode()
    assert page.count("csrfmiddlewaretoken") >= 3
