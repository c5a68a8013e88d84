"""What writes owe: paid once, pushed back where it fails, given up after a day, and then an operator's business."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from boards import errors, tasks
from boards.actors import Chain
from boards.debts import kinds, operating, owing, paying
from boards.debts.paying import Paid
from boards.models import Board, Debt, Event, Task
from tests import cast

pytestmark = pytest.mark.django_db(transaction=True)


class Printer:
    """A payer that can be out of order; `printed` says which debts it paid, by their data's `n`."""

    def __init__(self) -> None:
        self.broken, self.printed = True, []

    def __call__(self, debt: Debt) -> bool:
        if self.broken and debt.data.get("poison", True):
            raise RuntimeError("out of paper")
        self.printed.append(debt.data.get("n", 0))
        return True


@pytest.fixture
def printer(payers: dict[str, kinds.Payer]) -> Printer:
    payers["print"] = printer = Printer()
    return printer


@pytest.fixture
def task(board: Board, anna: Chain) -> Task:
    return cast.filed(board, anna)


def owe(key: str, **fields: Any) -> Debt:
    return owing.owe("print", key, **fields)


def aged(debt: Debt, **ago: float) -> None:
    Debt.objects.filter(pk=debt.pk).update(created_at=Now() - timedelta(**ago), due_at=Now())


def given_up(debt: Debt) -> Debt:
    aged(debt, hours=25)
    assert paying.pay(debt.pk) is Paid.FAILED
    debt.refresh_from_db()
    assert debt.state == "undeliverable"
    return debt


def test_the_same_thing_is_owed_once(printer: Printer) -> None:
    first = owe("one", data={"n": 1})
    assert owe("one", data={"n": 2}).pk == first.pk
    assert Debt.objects.count() == 1


def test_a_failure_is_noted_and_pushed_back(printer: Printer, task: Task) -> None:
    debt = owe("one", task=task)
    debt.refresh_from_db()
    assert (debt.tries, debt.state, debt.last_error) == (1, "owed", "RuntimeError: out of paper")
    assert paying.due_ids() == []
    assert Debt.objects.filter(due_at__lt=Now() + timedelta(seconds=4), due_at__gt=Now()).exists()


def test_the_back_off_stays_under_five_minutes_and_a_quarter(printer: Printer) -> None:
    debt = owe("one")
    Debt.objects.update(tries=500)
    paying.pay(debt.pk)
    assert Debt.objects.filter(due_at__lt=Now() + timedelta(seconds=376)).exists()


def test_a_debt_falls_due_when_the_one_before_is_paid(printer: Printer) -> None:
    first = owe("first", data={"n": 1})
    second = owe("second", after=first, data={"n": 2})
    third = owe("third", after=second, data={"n": 3})
    assert paying.pay(third.pk) is Paid.NOT_DUE
    aged(first, seconds=5)
    paying.pay_due()
    assert printer.printed == []
    printer.broken = False
    assert paying.pay(first.pk) is Paid.PAID
    assert printer.printed == [1, 2, 3]
    assert not Debt.objects.exists()


def test_a_chain_does_not_pass_a_debt_that_was_given_up(printer: Printer, task: Task) -> None:
    first = owe("first", task=task)
    owe("second", after=first)
    given_up(first)
    printer.broken = False
    paying.pay_due()
    assert printer.printed == []


def test_a_page_of_poison_does_not_starve_what_comes_after_it(printer: Printer) -> None:
    for n in range(7):
        owe(f"poison {n}")
    late = owe("late", data={"n": 8, "poison": True})
    printer.broken = False
    Debt.objects.exclude(pk=late.pk).update(data={"poison": True})
    Debt.objects.filter(pk=late.pk).update(data={"n": 8, "poison": False})
    printer.broken = True
    Debt.objects.exclude(pk=late.pk).update(due_at=Now() - timedelta(minutes=1))
    Debt.objects.filter(pk=late.pk).update(due_at=Now())
    assert paying.pay_due(limit=3) == 1
    assert printer.printed == [8]
    assert Debt.objects.filter(tries=2).count() == 7, "each was tried once more"


def test_a_day_old_debt_that_fails_is_given_up_and_tried_no_more(printer: Printer, task: Task) -> None:
    debt = owe("one", task=task)
    aged(debt, hours=23)
    paying.pay(debt.pk)
    debt.refresh_from_db()
    assert debt.state == "owed"
    given_up(debt)
    printer.broken = False
    assert paying.pay_due() == 0
    assert paying.pay(debt.pk) is Paid.GONE


def test_what_no_later_try_can_do_is_given_up_at_once(payers: dict[str, kinds.Payer], task: Task) -> None:
    def never(debt: Debt) -> bool:
        raise kinds.Undeliverable("the session is gone")

    payers["print"] = never
    debt = owe("one", task=task)
    debt.refresh_from_db()
    assert (debt.state, debt.tries) == ("undeliverable", 1)


def test_an_operator_has_it_paid_again_with_its_age_counted_anew(printer: Printer, task: Task, olga: Chain) -> None:
    debt = given_up(owe("one", task=task))
    assert operating.pay_again(olga, debt.pk) is Paid.FAILED
    debt.refresh_from_db()
    assert (debt.state, debt.tries) == ("owed", 1)
    printer.broken = False
    assert operating.pay_again(olga, debt.pk) is Paid.PAID
    assert not Debt.objects.exists()
    assert Event.objects.filter(kind="debt.paid_again", task=task).count() == 2


def test_an_operator_drops_it_and_the_chain_goes_on(printer: Printer, task: Task, olga: Chain) -> None:
    debt = given_up(owe("one", task=task))
    owe("two", after=debt, data={"n": 2})
    printer.broken = False
    operating.drop(olga, debt.pk)
    assert printer.printed == [2]
    assert not Debt.objects.exists()
    assert Event.objects.get(kind="debt.dropped").task_id == task.pk


def test_a_stop_is_never_dropped(task: Task, olga: Chain) -> None:
    stop = owing.owe("session_stop", "stop", task=task, payer=f"drain:{cast.HERE['drain']}")
    Debt.objects.update(state="undeliverable")
    with pytest.raises(errors.Forbidden, match="never dropped"):
        operating.drop(olga, stop.pk)
    assert operating.pay_again(olga, stop.pk) is Paid.PAID, "left due for its drain"
    assert Debt.objects.get().state == "owed"


def test_what_is_still_tried_is_not_dropped(printer: Printer, task: Task, olga: Chain) -> None:
    debt = owe("one", task=task)
    with pytest.raises(errors.Forbidden, match="still being tried"):
        operating.drop(olga, debt.pk)


@pytest.mark.parametrize("act", [operating.pay_again, operating.drop])
def test_only_operators_of_its_space_act_on_a_debt(act: Any, printer: Printer, task: Task, anna: Chain) -> None:
    debt = given_up(owe("one", task=task))
    with pytest.raises(errors.Forbidden):
        act(anna, debt.pk)
    stranger = cast.chain_of(cast.make_member(cast.make_space("elsewhere"), "stig", "operator"))
    with pytest.raises(errors.NotFound):
        act(stranger, debt.pk)
    assert Debt.objects.get().state == "undeliverable"


# What a task's filings owe when it ends: parent and children.


@pytest.fixture
def family(board: Board, anna: Chain) -> dict[str, Task]:
    parent = cast.filed(board, anna, "Parent")
    child = tasks.file_task(cast.agent_chain(board), board, goal="Child", assignee="reader", filed_by_task=parent)
    grandchild = tasks.file_task(cast.agent_chain(board), board, goal="Grand", assignee="reader", filed_by_task=child)
    return {"parent": parent, "child": child, "grandchild": grandchild}


def statuses(family: dict[str, Task]) -> list[str]:
    return [cast.fresh(task).status for task in family.values()]


def test_a_cancel_that_says_so_takes_what_the_task_filed_all_the_way(family: dict[str, Task], anna: Chain) -> None:
    tasks.cancel(anna, family["parent"], "Not wanted", cancel_filed=True)
    assert statuses(family) == ["cancelled"] * 3
    assert "Parent”, which filed this, was cancelled" in cast.fresh(family["child"]).error
    assert not Debt.objects.exists()


def test_any_other_ending_leaves_what_the_task_filed(family: dict[str, Task], board: Board, anna: Chain) -> None:
    got = cast.claimed(board)
    tasks.complete(cast.agent_chain(board), got.task, None, claim=got.ticket)
    assert statuses(family) == ["completed", "pending", "pending"]
    tasks.cancel(anna, family["child"], "Not wanted")
    assert statuses(family) == ["completed", "cancelled", "pending"]


def test_a_cancelled_task_files_no_more(family: dict[str, Task], board: Board, anna: Chain) -> None:
    tasks.cancel(anna, family["parent"], "Not wanted")
    with pytest.raises(errors.ParentCancelled):
        tasks.file_task(cast.agent_chain(board), board, goal="Late", filed_by_task=family["parent"])


def test_a_filing_from_a_turn_says_which_task_it_came_from(board: Board, anna: Chain) -> None:
    cast.filed(board, anna)
    got = cast.claimed(board)
    with tasks.current.working_under(got.ticket):
        child = tasks.file_task(cast.agent_chain(board), board, goal="Child")
    assert child.filed_by_task_id == got.task.pk
    assert tasks.file_task(anna, board, goal="Other").filed_by_task_id is None
