"""One conditional write decides: whoever answers, over whatever surface, at the same instant (fault 11)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client

from boards import errors, keys, people, telling
from boards.models import Delivery, Event, Hold, Member, Preference, User
from boards.tasks import Wanted, claim
from boards.telling.links import path_of
from tests import cast
from tests.people.conftest import Desk
from tests.racing import at_once
from tests.waiting import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

ROUNDS, THREADS = 50, 20
HTMX = {"HX-Request": "true"}

Surface = Callable[[Member, Client, Hold, str], Any]


def by_the_verb(member: Member, client: Client, hold: Hold, choice: str) -> str:
    """As the admin calls it."""
    people.answer_hold(cast.chain_of(member), hold.pk, choice=choice, shown_hash=hold.draft_hash)
    return "decided"


def by_a_page(**form: str) -> Surface:
    def answer(member: Member, client: Client, hold: Hold, choice: str) -> str:
        htmx = HTMX if form.get("from") else {}
        told = {"choice": choice, "shown_hash": hold.draft_hash, "key": f"{member.pk}-{choice}", **form}
        response = client.post(f"/holds/{hold.pk}/answer", told, headers=htmx)
        if response.status_code == 409:
            assert b" this at " in response.content
            return "told who was faster"
        assert response.status_code in {200, 302}, response.content
        return "decided"

    return answer


def over_http(**how: Any) -> Surface:
    """By a key of the member's, or with their session."""

    def answer(member: Member, client: Client, hold: Hold, choice: str) -> str:
        told = {"choice": choice, "shown_hash": hold.draft_hash}
        agent, headers = (
            (Client(), {"Authorization": f"Bearer {SECRETS[member.pk]}"}) if how.get("key") else (client, {})
        )
        response = agent.post(f"/api/v1/holds/{hold.pk}/answer", told, "application/json", headers=headers)
        said = response.json()
        if response.status_code == 409:
            assert said["code"] == "already_answered"
            assert " this at " in said["detail"]
            return "told who was faster"
        assert response.status_code == 200, said
        assert said["hold"]["answer"]["choice"] == choice
        return "decided"

    return answer


def by_a_link_in_a_mail(member: Member, client: Client, hold: Hold, choice: str) -> str:
    """The form of the page that the link in their mail had led to."""
    told = {"choice": choice, "shown_hash": hold.draft_hash, "key": f"mail-{member.pk}"}
    response = client.post(OPENED.pop((member.pk, hold.pk)), told)
    if response.status_code == 409:
        assert b" this at " in response.content
        return "told who was faster"
    assert response.status_code == 302, response.content
    return "decided"


def opens_the_link(member: Member, client: Client, hold: Hold) -> None:
    page = client.get(mail_link(member, hold))
    form = FORM.search(page.content.decode())
    assert (page.status_code, bool(form)) == (200, True)
    OPENED[member.pk, hold.pk] = form["action"]


OPENED: dict[tuple[int, int], str] = {}  # where the form posts to, by member and question
SECRETS: dict[int, str] = {}  # of each member's key that decides
FORM = re.compile(r'action="(?P<action>/holds/\d+/answer)"')


def mail_link(member: Member, hold: Hold) -> str:
    """The address in the mail that told this member of this question."""
    return path_of(Delivery.objects.get(member=member, hold=hold))


def wants_mail(member: Member) -> None:
    User.objects.filter(pk=member.user_id).update(email=f"{member.user.username}@example.org")
    Preference.objects.create(member=member, email_since=Now())
    telling.collect()  # from here on the log is read


SURFACES: tuple[Surface, ...] = (
    by_the_verb,
    by_a_page(**{"from": "list"}),
    over_http(),
    by_a_page(**{"from": "page"}),
    over_http(key=True),
    by_a_link_in_a_mail,
    by_a_page(),
)


def claimed_by_a_drain(desk: Desk) -> int:
    wanted = [Wanted(desk.board.pk, {cast.WRITER: 1})]
    return len(claim(wanted, limit=1, lease_ms=3_600_000, claimed_by=cast.HERE))


def test_of_twenty_at_the_same_instant_one_decides_and_the_run_goes_on_once(desk: Desk) -> None:
    members = [desk.member(f"member{n}") for n in range(THREADS)]
    clients = []
    for member in members:
        client = Client()
        client.force_login(member.user)
        clients.append(client)
        SECRETS[member.pk] = keys.make(cast.chain_of(member), keys.KeyFields("decider", ["decide"]))[1]
    mailed = list(zip(members, clients, strict=True))[SURFACES.index(by_a_link_in_a_mail) :: len(SURFACES)]
    for member, _ in mailed:
        wants_mail(member)
    for number in range(ROUNDS):
        hold = desk.asked()
        until(lambda hold=hold: telling.collect() or Delivery.objects.filter(hold=hold).count() == len(mailed))
        for member, client in mailed:
            opens_the_link(member, client, hold)

        def one(n: int, hold: Hold = hold) -> Any:
            choice = "approve" if n % 2 else "reject"
            return SURFACES[n % len(SURFACES)](members[n], clients[n], hold, choice)

        said = at_once(*[lambda n=n: one(n) for n in range(THREADS)])
        refused = [each for each in said if isinstance(each, errors.AlreadyAnswered)]
        assert said.count("decided") == 1, (number, said)
        assert said.count("told who was faster") + len(refused) == THREADS - 1
        assert all(" this at " in each.sentence for each in refused)
        assert Event.objects.filter(kind="hold.answered", data__hold=hold.pk).count() == 1
        assert sorted(at_once(*[lambda: claimed_by_a_drain(desk)] * 2)) == [0, 1]
        assert Event.objects.filter(kind="task.resumed", task=hold.task_id).count() == 1


def test_the_same_press_twice_at_once_is_one_answer_and_the_first_result(desk: Desk) -> None:
    for _ in range(10):
        hold = desk.asked()

        def press(hold: Hold = hold) -> Hold:
            return desk.answered(hold, text="Go", idempotency_key="press")

        first, second = at_once(press, press)
        assert (first.answer, second.answer) == ({"choice": "approve", "text": "Go"},) * 2
        assert Event.objects.filter(kind="hold.answered", data__hold=hold.pk).count() == 1


def test_parallel_questions_take_their_answers_in_any_order_and_all_at_once(desk: Desk) -> None:
    got = desk.working()
    worker = cast.agent_chain(desk.board)
    holds = [
        people.open_hold(worker, claim=got.ticket, kind="approval", prompt=f"Part {n}?", dedup_key=str(n))
        for n in range(6)
    ]
    people.suspend(got.ticket)
    answers = at_once(*[lambda hold=hold: desk.answered(hold) for hold in holds])
    assert all(isinstance(each, Hold) for each in answers)
    task = cast.fresh(got.task)
    assert (task.open_holds, task.resume_ready_at is not None) == (0, True)
