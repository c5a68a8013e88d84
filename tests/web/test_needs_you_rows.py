"""Which rows wait on whom, in which order, and that the count agrees with the list."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from boards.models import Debt, FlowRun, Process, Task
from boards.queries.needs_you import needs_count, waiting
from boards.states import Phase
from tests.web import people_cast as people

pytestmark = pytest.mark.django_db


@pytest.fixture
def who() -> people.Cast:
    return people.cast()


def titles(found) -> list[str]:
    return [row.title for row in found.rows]


def test_a_question_to_nobody_in_particular_waits_on_every_member_and_on_no_viewer(who):
    people.hold(who, people.task(who, status="in_progress"), title="Which name stays?")
    assert titles(waiting(who.anna)) == ["Which name stays?"] == titles(waiting(who.olga))
    assert (needs_count(who.anna), needs_count(who.olga), needs_count(who.vera)) == (1, 1, 0)
    assert waiting(who.vera).total == 0
    assert titles(waiting(who.vera, whose="all")) == ["Which name stays?"]


def test_a_question_to_anna_is_in_bens_list_of_all_only(who):
    people.hold(who, people.task(who, status="in_progress"), title="For Anna", assignee=who.anna.user)
    assert titles(waiting(who.anna)) == ["For Anna"]
    assert waiting(who.ben).total == 0 == needs_count(who.ben)
    row = waiting(who.ben, whose="all").rows[0]
    assert row.words == "Question for Anna Berg"
    assert not row.quick_choices


def test_a_question_to_a_role_waits_on_that_role(who):
    people.hold(who, people.task(who, status="in_progress"), assignee_role="operator")
    assert waiting(who.olga, whose="role").total == 1 == needs_count(who.olga)
    assert waiting(who.anna).total == 0 == needs_count(who.anna)


def test_another_spaces_rows_do_not_exist(who):
    other = people.cast()
    people.hold(other, people.task(other, status="in_progress"))
    people.task(other, status="errored")
    people.run(other, status="failed")
    for member in (who.anna, who.olga):
        assert waiting(member, whose="all").total == 0 == needs_count(member)


def test_a_check_waits_on_its_checker_and_never_on_whoever_handed_in(who):
    people.task(who, "For anyone", status="needs_check", checker="person")
    people.task(who, "For Ben", status="needs_check", checker="ben")
    people.task(who, "By Ben", status="needs_check", checker="person", assignee="ben")
    people.task(who, "For an agent", status="needs_check", checker="writer")
    assert sorted(titles(waiting(who.anna))) == ["By Ben", "For anyone"]
    assert sorted(titles(waiting(who.ben))) == ["For Ben", "For anyone"]
    assert needs_count(who.ben) == 2


def test_a_task_of_mine_waits_once_it_can_start(who):
    people.task(who, "Choose the picture", assignee="anna")
    people.task(who, "Later", assignee="anna", unmet_deps=1)
    people.task(who, "In hand", assignee="anna", status="in_progress", lease_until=None)
    people.task(who, "For Ben", assignee="ben")
    assert sorted(titles(waiting(who.anna))) == ["Choose the picture", "In hand"]
    assert needs_count(who.anna) == 2


def test_what_got_stuck_waits_on_whoever_filed_it_and_on_operators(who):
    people.task(who, "Build", status="errored", error="No such file.", failures=3)
    row = waiting(who.anna).rows[0]
    assert (row.why, row.words) == ("No such file.", "Stuck after 3 tries")
    assert waiting(who.ben).total == 0
    assert waiting(who.olga).total == 1 == needs_count(who.olga)


def test_a_task_that_lost_its_workers_failed_no_try(who):
    people.task(who, "Build", status="errored", error="Lost its worker 3 times.", failures=0)
    assert waiting(who.anna).rows[0].words == "Stuck: its worker was lost"


def test_the_stuck_task_of_a_flow_step_is_told_by_its_run_alone(who):
    failed = people.run(who, status="failed", error="“version” is not a version.")
    stay = people.visit(failed, "collect", Phase.FAILURE)
    people.task(who, "Collect", status="errored", visit=stay)
    rows = waiting(who.olga).rows
    assert [(row.group, row.title, row.step_name, row.why) for row in rows] == [
        ("flow", "Halyard 2.4", "Collect", "“version” is not a version.")
    ]


@pytest.mark.parametrize("phase", [Phase.WAITING, Phase.PAUSED, Phase.FAILURE])
def test_a_turn_that_is_over_with_nothing_to_move_it_on_waits(who, phase):
    stay = people.visit(people.run(who), "draft", phase)
    stay.task = people.task(who, status="completed", visit=stay)
    stay.save()
    assert [act.verb for act in waiting(who.anna).rows[0].acts] == ["mark_complete", "run_again"]
    assert needs_count(who.anna) == 1


def test_a_turn_that_works_or_asks_waits_on_nobody_twice(who):
    stay = people.visit(people.run(who), "draft", Phase.WAITING)
    stay.task = people.task(who, status="in_progress", visit=stay)
    stay.save()
    assert waiting(who.anna).total == 0
    Task.objects.filter(pk=stay.task_id).update(status="completed", lease_until=None, completed_at=timezone.now())
    people.hold(who, stay, "approval")
    assert [row.group for row in waiting(who.anna).rows] == ["approval"]


def test_an_archived_run_waits_on_nobody(who):
    people.run(who, status="failed", archived_at=timezone.now())
    assert waiting(who.olga, whose="all").total == 0


def test_a_task_without_its_worker_says_whether_a_drain_serves_it(who):
    people.task(who, status="in_progress", lease_until=timezone.now() - timedelta(minutes=1))
    people.task(who, status="in_progress", lease_until=timezone.now() - timedelta(seconds=1))
    rows = waiting(who.olga).rows
    assert [(row.group, row.is_served) for row in rows] == [("lost", False)]
    Process.objects.create(kind="drain", pid=1, assignees=[f"{who.board.pk}:writer"])
    assert waiting(who.olga).rows[0].is_served
    assert waiting(who.ben).total == 0


def test_what_is_owed_for_good_waits_on_operators(who):
    of = people.task(who, "Publish", status="completed")
    Debt.objects.create(kind="cascade", unique_key="c1", task=of, state="undeliverable", last_error="No.", tries=9)
    assert titles(waiting(who.olga)) == ["What depends on “Publish” could not be settled"]
    assert (needs_count(who.olga), waiting(who.anna, whose="all").total) == (1, 0)


def test_order_is_due_soonest_then_priority_then_oldest(who):
    now = timezone.now()
    asked = {"asked_at": now - timedelta(hours=1)}
    for title, due, priority in (("late", 90, 0), ("soon", 10, 0), ("old", None, 0), ("urgent", None, 5)):
        of = people.task(who, status="in_progress", priority=priority)
        people.hold(who, of, title=title, due_at=now + timedelta(minutes=due) if due else None)
    people.hold(who, people.task(who, status="in_progress"), title="older", **asked)
    assert titles(waiting(who.anna)) == ["soon", "late", "urgent", "older", "old"]


def test_a_yes_is_offered_only_where_the_row_shows_all_that_it_is_to(who):
    of = people.task(who, status="in_progress")
    people.hold(who, of, "confirm", prompt="Delete it?")
    people.hold(who, of, "confirm", prompt="Delete this?", context="The folder of last year.")
    people.hold(who, of, "confirm", title="Delete?", prompt="All that is in it, for good.")
    people.hold(who, of, "question", prompt="Which name?", context="Both are in use.")
    people.hold(who, of, "question", title="Name?", prompt="Which name stays?")
    rows = {row.title: row for row in waiting(who.anna).rows}
    assert {title for title, row in rows.items() if row.quick_choices} == {"Delete it?", "Name?"}
    assert {row.open_label for row in rows.values() if not row.quick_choices} == {"Read and answer"}


def test_filters_count_what_each_would_show(who):
    people.hold(who, people.task(who, status="in_progress"), title="Which name stays?")
    people.task(who, "Build the preview", status="errored")
    found = waiting(who.anna, kind="stuck")
    assert titles(found) == ["Build the preview"]
    assert [(f.value, f.count) for f in found.kinds] == [("question", 1), ("stuck", 1)]
    assert [(f.value, f.count) for f in found.boards] == [("release-desk", 1)]
    assert titles(waiting(who.anna, search="NAME which")) == ["Which name stays?"]
    assert waiting(who.anna, board=who.board).total == 2
    assert waiting(who.anna, board="elsewhere").total == 0


def test_the_list_costs_the_same_with_one_row_and_with_two_hundred(who):
    def cost() -> int:
        with CaptureQueriesContext(
            connection,
        ) as caught:
            waiting(who.olga, whose="all")
        return len(caught)

    def make(count: int) -> None:
        for _ in range(count):
            people.hold(who, people.task(who, status="in_progress"))
            people.task(who, status="errored")
            people.task(who, status="needs_check", checker="person")
            people.task(who, assignee="anna")
            people.task(who, status="in_progress", lease_until=timezone.now() - timedelta(minutes=1))
            people.approval(who)
            people.run(who, status="failed")
            Debt.objects.create(
                kind="cascade", unique_key=f"k{FlowRun.objects.count()}", state="undeliverable", task=people.task(who)
            )

    make(1)
    one = cost()
    make(24)
    assert waiting(who.olga, whose="all").total == 200
    assert cost() == one <= 10
    with CaptureQueriesContext(connection) as caught:
        count = needs_count(who.olga)
    assert len(caught) == 1
    assert count == waiting(who.olga).total
