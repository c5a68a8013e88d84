"""Who is told of what: everything that stands in the list, each occurrence once on each channel, from now on."""

from __future__ import annotations

from datetime import timedelta

from django.db import connection, transaction
from django.db.models.functions import Now

from boards import people, sweeping, tasks, telling
from boards.event_log import Entry, record
from boards.models import Debt, Delivery, Event, Hold, LogReader, Preference, Task
from boards.queries.needs_you import waiting
from boards.telling.occurrences import standing
from tests import cast
from tests.racing import at_once
from tests.telling.conftest import Stage


def told(channel: str = "email") -> list[tuple[str, str]]:
    rows = Delivery.objects.filter(channel=channel).order_by("pk")
    return list(rows.values_list("kind", "title"))


def test_a_question_is_told_once_however_often_the_log_is_read(stage: Stage) -> None:
    stage.tell()
    stage.ask("Which name stays?")
    assert [stage.collect() for _ in range(3)] == [1, 0, 0]
    assert told() == [("question", "Which name stays?")]
    assert Debt.objects.get(kind="deliver").data == {"member": stage.anna.pk, "channel": "email"}


def test_each_channel_and_each_member_has_a_delivery_of_its_own(stage: Stage) -> None:
    stage.tell(webhook=True, webhook_url=stage.hook.url)
    stage.tell(stage.olga)
    stage.ask()
    assert stage.collect() == 3
    assert Debt.objects.filter(kind="deliver").count() == 3


def test_what_waited_before_the_channel_was_turned_on_is_not_told(stage: Stage) -> None:
    stage.ask("Old")
    stage.tell()
    stage.ask("New")
    stage.collect()
    assert told() == [("question", "New")]
    stage.tell(email=False)
    stage.ask("While it was off")
    stage.collect()
    stage.tell(email=True)
    stage.collect()
    assert told() == [("question", "New")]


def test_what_comes_between_turning_on_and_the_first_reading_is_told(stage: Stage) -> None:
    assert LogReader.objects.count() == 0
    telling.save(stage.anna, telling.Given(email=True, kinds=["question"], boards=[stage.board.pk]))
    stage.ask("In between")
    assert stage.collect() == 1


def test_each_new_question_is_its_own_occurrence_and_the_same_one_asked_again_is_none(stage: Stage) -> None:
    stage.tell()
    cast.filed(stage.board, stage.chain)
    got = cast.claimed(stage.board)
    agent = cast.agent_chain(stage.board)
    for prompt, key in (("First", "one"), ("First", "one"), ("Second", "two")):
        people.open_hold(agent, claim=got.ticket, kind="confirm", prompt=prompt, dedup_key=key)
        stage.collect()
    assert told() == [("question", "First"), ("question", "Second")]


def test_a_question_that_a_retry_asks_again_is_told_again(stage: Stage) -> None:
    stage.tell()
    task = cast.filed(stage.board, stage.chain, holds=[tasks.HoldFiling("confirm", "Start it?")])
    stage.collect()
    tasks.cancel(stage.chain, task, "Not now")
    stage.collect()
    tasks.retry(stage.chain, cast.fresh(task))
    stage.collect()
    assert told() == [("question", "Start it?")] * 2
    assert Hold.objects.count() == 1


def test_what_was_over_before_it_was_sent_and_stands_again_is_told(stage: Stage) -> None:
    stage.tell()
    hold = stage.ask()
    stage.collect()
    stage.tell(boards=[])
    stage.post()
    assert stage.states() == ["closed"]
    stage.tell()
    again = Entry("hold.undone", stage.chain, board_id=stage.board.pk, task_key=hold.task_id, data={"hold": hold.pk})
    record(again)
    assert stage.told() == 1
    assert stage.states() == ["sent"]
    record(again)
    assert stage.collect() == 0, "what was sent is not told a second time"


def test_a_result_to_check_is_told_for_each_hand_in_and_not_for_an_edit(stage: Stage) -> None:
    stage.tell()
    task = cast.filed(stage.board, stage.chain, "Write it", checker="person", max_attempts=3)
    for attempt in (1, 2):
        got = cast.claimed(stage.board)
        tasks.complete(cast.agent_chain(stage.board), got.task, "Words", claim=got.ticket)
        assert stage.collect() == 1, attempt
        tasks.set_priority(stage.chain, cast.fresh(task), attempt)
        assert stage.collect() == 0, attempt
        tasks.send_back(stage.chain, cast.fresh(task), "Again, please")
        stage.collect()
    assert told() == [("check", "Write it")] * 2


def test_a_task_that_got_stuck_is_told_to_who_filed_it_and_to_operators(stage: Stage) -> None:
    ben = cast.make_member(stage.space, "ben")
    ben.user.email = "ben@example.org"
    ben.user.save()
    for member in (stage.anna, stage.olga, ben):
        stage.tell(member)
    cast.filed(stage.board, stage.chain, "Build")
    got = cast.claimed(stage.board)
    tasks.fail(cast.agent_chain(stage.board), got.task, "No such file.", claim=got.ticket)
    assert stage.collect() == 2
    assert set(Delivery.objects.values_list("member__user__username", flat=True)) == {"anna", "olga"}


def test_a_task_of_mine_is_told_when_it_can_be_started_and_not_when_i_start_it(stage: Stage) -> None:
    cast.put_on_roster(stage.board, stage.anna)
    first = cast.filed(stage.board, stage.chain, "First")
    mine = cast.filed(stage.board, stage.chain, "Mine", assignee="anna", deps=[first.public_id])
    stage.tell()
    assert stage.collect() == 0
    got = cast.claimed(stage.board)
    tasks.complete(cast.agent_chain(stage.board), got.task, "Done", claim=got.ticket)
    assert stage.collect() == 1
    tasks.claim_for_person(stage.chain, cast.fresh(mine))
    assert cast.fresh(mine).status == "in_progress"
    assert stage.collect() == 0
    assert told() == [("assigned", "Mine")]


def test_a_task_of_mine_with_a_time_of_its_own_is_told_when_that_has_come(stage: Stage) -> None:
    cast.put_on_roster(stage.board, stage.anna)
    stage.tell()
    mine = cast.filed(stage.board, stage.chain, "Later", assignee="anna")
    Task.objects.filter(pk=mine.pk).update(not_before=Now() + timedelta(hours=1))
    assert stage.collect() == 0
    with connection.cursor() as cursor:
        cursor.execute("update boards_logreader set read_at = now() - interval '2 hours'")
    Task.objects.filter(pk=mine.pk).update(not_before=Now())
    assert stage.collect() == 1


def test_a_task_that_lost_its_worker_is_told(stage: Stage) -> None:
    stage.tell()
    cast.filed(stage.board, stage.chain, "Build")
    got = cast.claimed(stage.board)
    stage.collect()
    Task.objects.filter(pk=got.task.pk).update(lease_until=Now() - timedelta(seconds=6))
    LogReader.objects.update(read_at=Now() - timedelta(minutes=1))
    Preference.objects.update(email_since=Now() - timedelta(minutes=1))
    assert stage.collect() == 1
    assert told() == [("lost", "Build")]


def test_a_debt_that_failed_for_good_is_told_to_operators_once(stage: Stage) -> None:
    stage.tell(stage.olga)
    stage.tell(stage.anna)
    task = cast.filed(stage.board, stage.chain, "Publish")
    Debt.objects.create(kind="cascade", unique_key="c", task=task, state="undeliverable", last_error="No.", tries=9)
    assert [stage.collect(), stage.collect()] == [1, 0]
    assert Delivery.objects.get().member == stage.olga


def test_a_message_that_could_not_be_sent_is_listed_and_not_told(stage: Stage) -> None:
    stage.tell(stage.olga)
    task = cast.filed(stage.board, stage.chain, "Publish")
    Debt.objects.create(kind="deliver", unique_key="d", task=task, state="undeliverable", last_error="No.", data={})
    assert stage.collect() == 0
    assert [row.title for row in waiting(stage.olga).rows] == ["Nobody could be told of “Publish”"]


def test_kinds_and_boards_that_are_muted_are_not_told(stage: Stage) -> None:
    stage.tell(kinds=["approval"])
    stage.ask("A question")
    assert stage.collect() == 0
    stage.ask("An approval", kind="approval", options=())
    assert stage.collect() == 1
    stage.tell(boards=[])
    stage.ask("On a board that is muted", kind="approval", options=())
    assert stage.collect() == 0


def test_somebody_elses_question_is_not_told(stage: Stage) -> None:
    stage.tell(stage.anna)
    stage.tell(stage.olga)
    hold = stage.ask("For Olga")
    Hold.objects.filter(pk=hold.pk).update(assignee=stage.olga.user)
    stage.collect()
    assert list(Delivery.objects.values_list("member", flat=True)) == [stage.olga.pk]


def test_another_spaces_member_hears_nothing(stage: Stage) -> None:
    elsewhere = cast.make_space("elsewhere")
    stranger = cast.make_member(elsewhere, "stig", "operator")
    cast.make_board(elsewhere, "other")
    stranger.user.email = "stig@example.org"
    stranger.user.save()
    stage.tell(stranger)
    stage.ask()
    assert stage.collect() == 0


def test_what_is_told_is_what_the_list_shows_as_ones_own(stage: Stage) -> None:
    cast.put_on_roster(stage.board, stage.anna)
    stage.ask("A question")
    stage.ask("An approval", kind="approval", options=())
    cast.filed(stage.board, stage.chain, "Mine", assignee="anna")
    cast.filed(stage.board, stage.chain, "To check", checker="person")
    got = cast.claimed(stage.board)
    tasks.complete(cast.agent_chain(stage.board), got.task, "Words", claim=got.ticket)
    cast.filed(stage.board, stage.chain, "Stuck")
    got = cast.claimed(stage.board)
    tasks.fail(cast.agent_chain(stage.board), got.task, "No.", claim=got.ticket)
    for member in (stage.anna, stage.olga):
        shown = {row.key for row in waiting(member, whose="mine").rows}
        assert {one.row.key for one in standing(member)} == shown
        assert len(shown) >= 4


def test_a_write_that_commits_late_under_a_lower_id_is_not_missed(stage: Stage) -> None:
    stage.tell()
    hold = stage.ask("Committed late")
    event = Event.objects.get(kind="hold.opened")
    stage.collect()
    Delivery.objects.all().delete()
    Debt.objects.all().delete()
    # As if the event's transaction had been open while the log was read.
    with connection.cursor() as cursor:
        cursor.execute("select pg_current_snapshot()::text")
        _low, high, *_ = cursor.fetchone()[0].split(":")
        xid = event.xid
        reader = LogReader.objects.get()
        epoch = reader.cursor.split(":")[0]
        LogReader.objects.update(cursor=f"{epoch}:{xid}:{max(int(high), xid + 1)}:{xid}")
    assert stage.collect() == 1
    assert Delivery.objects.get().hold == hold


def test_a_cursor_of_another_database_makes_it_look_at_everything_and_tell_nothing_twice(stage: Stage) -> None:
    stage.tell()
    stage.ask("Told already")
    stage.collect()
    stage.ask("Not yet")
    LogReader.objects.update(cursor="11111111-1111-1111-1111-111111111111:1:2:")
    assert stage.collect() == 1
    assert told() == [("question", "Told already"), ("question", "Not yet")]


def test_readers_at_the_same_moment_write_each_delivery_once(stage: Stage) -> None:
    stage.tell()
    for number in range(5):
        stage.ask(f"Question {number}")
        made = at_once(stage.collect, stage.collect, stage.collect)
        assert sum(made) == 1
    assert len(told()) == 5


def test_a_reading_that_is_undone_has_read_nothing(stage: Stage) -> None:
    stage.tell()
    stage.ask()
    before = LogReader.objects.get().cursor
    with transaction.atomic():
        assert stage.collect() == 1
        transaction.set_rollback(True)
    assert LogReader.objects.get().cursor == before
    assert stage.collect() == 1


def test_nobody_to_tell_costs_a_row_and_no_reading(stage: Stage, django_assert_max_num_queries) -> None:
    stage.ask()
    stage.collect()
    with django_assert_max_num_queries(7):
        assert stage.collect() == 0
    assert LogReader.objects.get().cursor == ""


def test_a_pass_that_sees_nothing_new_writes_nothing(stage: Stage) -> None:
    stage.tell()
    stage.ask()
    stage.collect()
    before = LogReader.objects.get().cursor
    assert [stage.collect(), stage.collect()] == [0, 0]
    assert LogReader.objects.get().cursor == before
    LogReader.objects.update(read_at=Now() - timedelta(minutes=2))
    stage.collect()
    assert LogReader.objects.get().cursor != before


def test_old_deliveries_go_and_what_waits_stays(stage: Stage) -> None:
    stage.tell()
    stage.ask("Sent")
    stage.told()
    stage.ask("Waits")
    stage.collect()
    Delivery.objects.update(created_at=Now() - timedelta(days=91))
    assert sweeping.sweep_once().done["old deliveries forgotten"] == 1
    assert [title for _, title in told()] == ["Waits"]
