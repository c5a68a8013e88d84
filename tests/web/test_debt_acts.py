"""Debts that failed for good, in *Needs you*: an operator has them tried again, or drops them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from boards.debts import kinds
from boards.models import Debt, Role
from boards.queries.needs_you import Counts, needs_counts
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def payers() -> Any:
    before = dict(kinds.PAYERS)
    yield kinds.PAYERS
    kinds.PAYERS.clear()
    kinds.PAYERS.update(before)


@pytest.fixture
def debt(payers: Any) -> Debt:
    space = cast.make_space()
    board = cast.make_board(space)
    chain = cast.chain_of(cast.make_member(space, "olga", Role.OPERATOR))
    task = cast.filed(board, chain, "Publish it")
    return Debt.objects.create(
        kind="cascade", unique_key="c", task=task, state="undeliverable", last_error="No.", data={}, tries=9
    )


def client_of(name: str, debt: Debt) -> Client:
    client = Client()
    members = debt.task.board.space.members
    member = members.filter(user__username=name).first() or cast.make_member(debt.task.board.space, name)
    client.force_login(member.user)
    return client


def act(client: Client, debt: Debt, verb: str) -> Any:
    return client.post(reverse("web:debt_act", args=[debt.pk, verb]), headers={"HX-Request": "true"})


def test_the_row_offers_both_acts(debt: Debt) -> None:
    page = client_of("olga", debt).get(reverse("web:needs_you")).content.decode()
    for verb in ("retry", "drop"):
        assert reverse("web:debt_act", args=[debt.pk, verb]) in page


def test_a_stop_offers_no_drop(debt: Debt) -> None:
    Debt.objects.update(kind="session_stop", payer="drain:gone")
    page = client_of("olga", debt).get(reverse("web:needs_you")).content.decode()
    assert reverse("web:debt_act", args=[debt.pk, "retry"]) in page
    assert reverse("web:debt_act", args=[debt.pk, "drop"]) not in page
    answer = act(client_of("olga", debt), debt, "drop")
    assert answer.status_code == 403
    assert "never dropped" in answer.headers["HX-Trigger"]


def test_it_is_tried_again(debt: Debt, payers: Any) -> None:
    payers["cascade"] = lambda debt: True
    answer = act(client_of("olga", debt), debt, "retry")
    assert answer.status_code == 204
    assert not Debt.objects.exists()


def test_a_try_that_fails_again_says_so(debt: Debt, payers: Any) -> None:
    payers["cascade"] = lambda debt: 1 / 0
    answer = act(client_of("olga", debt), debt, "retry")
    assert answer.status_code == 409
    assert Debt.objects.get().state == "owed"


def test_it_is_dropped(debt: Debt) -> None:
    assert act(client_of("olga", debt), debt, "drop").status_code == 204
    assert not Debt.objects.exists()
    assert act(client_of("olga", debt), debt, "drop").status_code == 404


def test_members_may_do_neither(debt: Debt) -> None:
    anna = client_of("anna", debt)
    assert [act(anna, debt, verb).status_code for verb in ("retry", "drop", "eat")] == [403, 403, 404]
    assert Debt.objects.get().state == "undeliverable"


def unrecorded(debt: Debt) -> Debt:
    words = "It was written all the same; only the call failed. RuntimeError: the line was cut"
    Debt.objects.filter(pk=debt.pk).update(kind="recorder_failure", last_error=words, tries=1)
    return debt


def test_a_result_that_could_not_be_recorded_says_what_is_known_and_is_marked_as_seen(debt: Debt) -> None:
    olga = client_of("olga", unrecorded(debt))
    page = olga.get(reverse("web:needs_you")).content.decode()
    assert "The result of “Publish it” could not be recorded in the ordinary way" in page
    assert "only the call failed. RuntimeError: the line was cut" in page
    assert f'href="{reverse("web:task", args=["desk", debt.task.public_id])}"' in page
    assert reverse("web:debt_act", args=[debt.pk, "retry"]) not in page
    assert needs_counts(debt.task.board.space.members.get(user__username="olga")) == Counts(0, 1), "it blocks nothing"
    answer = act(olga, debt, "drop")
    assert "Marked as seen." in answer["HX-Trigger"].encode().decode("unicode_escape")
    assert not Debt.objects.exists()
    log = olga.get(reverse("web:task", args=["desk", debt.task.public_id])).content.decode()
    assert "marked as seen that its result could not be recorded in the ordinary way" in log
    members_page = client_of("anna", debt).get(reverse("web:needs_you")).content.decode()
    assert "could not be recorded" not in members_page


def test_many_at_once_offer_what_each_takes(debt: Debt) -> None:
    others = [("session_stop", "s"), ("recount", "r"), ("recorder_failure", "f")]
    for kind, key in others:
        Debt.objects.create(kind=kind, unique_key=key, task=debt.task, state="undeliverable", last_error="No.", tries=1)
    olga = client_of("olga", debt)
    page = olga.post(reverse("web:needs_bulk"), {"all": "1"}).content.decode()
    piles = [form for form in page.split("<form")[1:] if re.search(r">(Not settled|Not recorded)</h2>", form)]
    acts = sorted(sorted(act for act in ("Retry", "Drop", "Mark as seen") if f">{act}</span>" in p) for p in piles)
    assert acts == [["Drop", "Retry"], ["Mark as seen"], ["Retry"]]
    seen = next(form for form in piles if ">Mark as seen</span>" in form)
    rows = re.findall(r'name="row" value="([^"]+)"', seen) or [""]
    key = re.findall(r'name="pile" value="([^"]+)"', seen)[0]
    done = olga.post(reverse("web:needs_bulk"), {"all": "1", "pile": key, "act": "debt_drop", "row": rows})
    assert "2 done." in b"".join(done.streaming_content).decode()
    assert sorted(Debt.objects.values_list("kind", flat=True)) == ["cascade", "session_stop"]
