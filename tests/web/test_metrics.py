"""`/metrics`: its figures are what the ledger holds, its cost is bounded, and it answers without a database too."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import Count
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from boards import people, sweeping, tasks
from boards.bench import history
from boards.models import Attempt, Board, Debt, Hold, Process, Task
from boards.queries import health, log_counts, metrics, sweeper
from boards.tasks import Filing
from tests import cast
from tests.api.cast import Desk
from tests.live.cast import rolled_back
from tests.racing import at_once
from tests.web.metrics_page import TOKEN, Page, read

DEPLOY = (Path(__file__).resolve().parents[2] / "docs" / "deploy.md").read_text()
Lapse = Callable[[Task], None]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def desk(transactional_db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Desk:
    settings.METRICS_TOKEN = TOKEN
    monkeypatch.setattr(metrics, "_log", log_counts.LogCounts())
    return Desk()


@pytest.fixture
def counting(desk: Desk) -> Desk:
    """From here on what happens is counted."""
    assert read().of("up") == 1
    return desk


def worked(desk: Desk, **fields: Any) -> Task:
    """Filed, claimed by the writer and handed in."""
    task = desk.filed(**fields)
    claimed = cast.claimed(desk.board)
    tasks.complete(cast.agent_chain(desk.board), task, "Done", claim=claimed.ticket)
    return task


def in_ledger(board: Board) -> dict[str, int]:
    rows = Task.objects.filter(board=board).values("status").annotate(n=Count("*")).order_by()
    return {row["status"]: row["n"] for row in rows}


class TestTasks:
    def test_they_are_counted_by_status_from_the_first_look_on(self, desk: Desk) -> None:
        worked(desk)
        desk.handed_in()
        desk.stuck(max_attempts=1)
        tasks.cancel(desk.chain, desk.filed(), "No longer wanted")
        desk.filed(held=True)
        desk.filed()
        expected = {"completed": 1, "needs_check": 1, "errored": 1, "cancelled": 1, "held": 1, "pending": 1}
        assert in_ledger(desk.board) == expected
        assert read().tasks() == expected

    def test_whatever_happens_later_the_next_look_is_right_again(self, counting: Desk, lapse: Lapse) -> None:
        desk = counting
        worked(desk)
        checked = desk.handed_in()
        again = desk.handed_in()
        cancelled = desk.filed()
        tasks.cancel(desk.chain, cancelled, "Not now")
        assert read().tasks() == in_ledger(desk.board)
        tasks.accept(desk.chain, checked)
        tasks.send_back(desk.chain, again, "Shorter")
        tasks.retry(desk.chain, cancelled)
        tasks.hold(desk.chain, cancelled)
        first = desk.filed(assignee=cast.READER)
        desk.filed(deps=[first.public_id])
        tasks.cancel(desk.chain, first, "Both go")  # and with it what depends on it
        assert in_ledger(desk.board)["cancelled"] == 2
        assert read().tasks() == in_ledger(desk.board)

    def test_a_board_that_nobody_filed_on_is_there_with_nothing(self, desk: Desk) -> None:
        page = read()
        assert page.tasks("attic") == {}
        assert page.on("tasks", "attic", status="completed") == 0

    def test_a_board_that_is_gone_is_told_no_more(self, counting: Desk) -> None:
        assert "attic" in read().boards
        counting.attic.delete()
        assert read().boards == {"desk"}

    def test_removed_tasks_are_out_of_the_count_after_the_next_recount(
        self, counting: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worked(counting)
        assert read().tasks() == {"completed": 1}
        Task.objects.all().delete()
        monkeypatch.setattr(metrics._log, "_recount_at", 0.0)
        assert read().tasks() == {}


class TestReady:
    def test_the_oldest_claimable_task_says_for_how_long_it_has_waited(self, desk: Desk) -> None:
        assert read().on("oldest_ready_age_seconds") == 0
        desk.filed()
        Task.objects.update(updated_at=Now() - timedelta(hours=2), created_at=Now() - timedelta(hours=3))
        desk.filed()
        assert 7_200 <= read().on("oldest_ready_age_seconds") < 7_300

    @pytest.mark.parametrize(
        "kept",
        [
            {"status": "held"},
            {"unmet_deps": 1},
            {"open_holds": 1},
            {"not_before": Now() + timedelta(minutes=5)},
        ],
    )
    def test_what_may_not_be_claimed_does_not_count(self, desk: Desk, kept: dict[str, Any]) -> None:
        desk.filed()
        Task.objects.update(updated_at=Now() - timedelta(hours=2), **kept)
        assert read().on("oldest_ready_age_seconds") == 0

    def test_nothing_of_a_paused_board_does(self, desk: Desk) -> None:
        desk.filed()
        Task.objects.update(updated_at=Now() - timedelta(hours=2))
        Board.objects.update(paused=True)
        assert read().on("oldest_ready_age_seconds") == 0

    def test_a_task_counts_from_the_end_of_what_it_waited_for(self, desk: Desk) -> None:
        first = desk.filed()
        desk.filed(deps=[first.public_id])
        Task.objects.update(updated_at=Now() - timedelta(hours=2), created_at=Now() - timedelta(hours=2))
        claimed = cast.claimed(desk.board)
        tasks.complete(cast.agent_chain(desk.board), first, "Done", claim=claimed.ticket)
        assert read().on("oldest_ready_age_seconds") < 60


class TestAttempts:
    def test_claims_pick_up_and_run_time_are_counted_from_the_first_look_on(self, counting: Desk) -> None:
        desk = counting
        for _ in range(3):
            worked(desk)
        desk.filed()
        page = read()
        assert page.on("claims_total") == 3
        assert page.on("pickup_seconds_count") == page.on("pickup_seconds_bucket", le="+Inf") == 3
        assert page.on("run_seconds_count") == 3
        took = sum((one.ended_at - one.started_at).total_seconds() for one in Attempt.objects.all() if one.ended_at)
        assert page.on("run_seconds_sum") == pytest.approx(took)
        cast.claimed(desk.board)
        assert (read().on("claims_total"), read().on("run_seconds_count")) == (4, 3)  # looked at twice, counted once

    def test_what_was_before_the_first_look_is_not(self, desk: Desk) -> None:
        worked(desk)
        assert read().on("claims_total") == read().on("run_seconds_count") == 0

    def test_a_pick_up_counts_from_the_end_of_the_last_dependency(self, counting: Desk) -> None:
        desk = counting
        first = desk.filed(assignee=cast.READER)
        desk.filed(deps=[first.public_id])
        with connection.cursor() as cursor:
            cursor.execute("update boards_event set at = at - interval '1 hour'")
        claimed = cast.claimed(desk.board, cast.READER)
        tasks.complete(cast.agent_chain(desk.board, cast.READER), first, "Done", claim=claimed.ticket)
        cast.claimed(desk.board)
        page = read()
        assert page.on("pickup_seconds_bucket", le="300.0") == 1  # the dependent; its dependency waited an hour
        assert page.on("pickup_seconds_bucket", le="+Inf") == 2
        assert 3_600 <= page.on("pickup_seconds_sum") < 3_700

    def test_a_lease_that_ran_out_is_lapsed_then_lost(self, counting: Desk, lapse: Lapse) -> None:
        desk = counting
        desk.filed()
        lapse(cast.claimed(desk.board).task)
        page = read()
        assert (page.on("lapsed_tasks"), page.on("lease_losses_total", how="lost")) == (1, 0)
        cast.claimed(desk.board)
        page = read()
        assert (page.on("lapsed_tasks"), page.on("lease_losses_total", how="lost")) == (0, 1)
        assert page.on("claims_total") == 2
        assert page.on("pickup_seconds_count") == 1  # of its first attempt only
        assert page.on("run_seconds_count") == 1

    def test_one_that_lost_its_worker_too_often_and_one_that_was_reclaimed(self, counting: Desk, lapse: Lapse) -> None:
        desk = counting
        desk.filed()
        task = cast.claimed(desk.board).task
        Task.objects.update(abandonments=99)
        lapse(task)
        sweeping.sweep_once()
        tasks.retry(desk.chain, task)
        lapse(cast.claimed(desk.board).task)
        tasks.reclaim(cast.chain_of(desk.olga), task)
        page = read()
        assert page.on("lease_losses_total", how="abandoned") == 1
        assert page.on("lease_losses_total", how="reclaimed") == 1
        assert page.on("run_seconds_count") == Attempt.objects.exclude(ended_at=None).count() == 2

    def test_handing_in_loses_nothing(self, counting: Desk) -> None:
        counting.handed_in()
        counting.stuck()
        page = read()
        assert page.on("run_seconds_count") == 2
        assert [page.on("lease_losses_total", how=how) for how in ("lost", "abandoned", "reclaimed")] == [0, 0, 0]

    def test_a_write_that_commits_late_is_counted_then_and_what_came_meanwhile_once(self, counting: Desk) -> None:
        desk = counting
        for number in range(2):
            desk.filed(goal=f"Task {number}")
        seen: list[Page] = []
        with transaction.atomic():
            cast.claimed(desk.board)
            at_once(lambda: cast.claimed(desk.board))
            for _ in range(2):
                at_once(lambda: seen.append(read()))
        assert [page.on("claims_total") for page in seen] == [1, 1]
        assert [read().on("claims_total") for _ in range(2)] == [2, 2]

    def test_what_is_rolled_back_never_happened(self, counting: Desk) -> None:
        counting.filed()
        with rolled_back():
            cast.claimed(counting.board)
        assert read().on("claims_total") == 0


class TestPeople:
    def test_a_question_waits_until_it_is_answered(self, counting: Desk) -> None:
        desk = counting
        hold = desk.asked("question", options=[{"value": "a"}, {"value": "b"}])
        Hold.objects.update(asked_at=Now() - timedelta(minutes=20))
        page = read()
        assert page.on("open_questions") == 1
        assert 1_200 <= page.on("oldest_question_age_seconds") < 1_300
        assert page.on("person_wait_seconds_count") == 0
        people.answer_hold(desk.chain, hold.pk, choice="a")
        page = read()
        assert (page.on("open_questions"), page.on("oldest_question_age_seconds")) == (0, 0)
        assert page.on("person_wait_seconds_count") == 1
        assert page.on("person_wait_seconds_bucket", le="300.0") == 0
        assert 1_200 <= page.on("person_wait_seconds_sum") < 1_300


class TestDebtsAndProcesses:
    def test_debts_are_told_by_kind_owed_and_dead(self, desk: Desk) -> None:
        task = desk.filed()
        Debt.objects.create(kind="cascade", unique_key="one", task=task)
        Debt.objects.create(kind="cascade", unique_key="two", task=task)
        Debt.objects.create(kind="deliver", unique_key="three", state="undeliverable")
        page = read()
        assert page.of("debts", kind="cascade", state="owed") == 2
        assert page.of("debts", kind="deliver", state="dead") == 1

    def test_drains_and_sweepers_that_live(self, desk: Desk) -> None:
        for listening in (True, False):
            Process.objects.create(kind="drain", host="here", pid=1, listening=listening)
        Process.objects.create(kind="drain", host="here", pid=2, beat_at=Now() - timedelta(minutes=1))
        Process.objects.create(kind="drain", host="here", pid=3, stopped_at=Now())
        page = read()
        assert page.of("processes_alive", kind="drain") == 2
        assert page.of("processes_listening", kind="drain") == 1
        assert page.of("processes_alive", kind="sweeper") == 0
        assert page.of("sweeper_last_pass_age_seconds") == float("inf")

    def test_the_sweepers_last_pass_and_its_lag_are_those_of_the_health_page(self, desk: Desk) -> None:
        Process.objects.create(kind="sweeper", host="here", pid=1, swept_at=Now() - timedelta(seconds=4))
        Process.objects.create(kind="sweeper", host="there", pid=1, swept_at=Now() - timedelta(hours=4))
        page = read()
        assert 4 <= page.of("sweeper_last_pass_age_seconds") < 60
        assert page.of("sweeper_lag_seconds") == 0
        assert re.fullmatch(
            r"2 alive\. The last pass ended \d+ s ago; nothing waits for the next\.", health.sweepers().sentence
        )
        Debt.objects.create(kind="cascade", unique_key="one", due_at=Now() - timedelta(minutes=10))
        assert 600 <= read().of("sweeper_lag_seconds") < 660
        assert health.sweepers().sentence.endswith("what is due has waited up to 10 min.")

    def test_a_sweeper_pays_its_lag_off(self, desk: Desk) -> None:
        desk.asked("approval")
        Hold.objects.update(due_at=Now() - timedelta(minutes=10))
        assert read().of("sweeper_lag_seconds") >= 600
        sweeping.sweep_once()
        assert read().of("sweeper_lag_seconds") == 0

    def test_a_question_that_may_stay_open_past_its_time_is_no_lag(self, desk: Desk) -> None:
        desk.asked("question", options=[{"value": "a"}, {"value": "b"}])
        Hold.objects.update(due_at=Now() - timedelta(minutes=10))
        sweeping.sweep_once()
        assert Hold.objects.get().state == "open"
        assert read().of("sweeper_lag_seconds") == 0

    @pytest.mark.parametrize(
        ("seconds", "said"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7_300, "2 h"), (200_000, "2 d")]
    )
    def test_spans_in_words(self, seconds: float, said: str) -> None:
        assert sweeper.span(seconds) == said


class TestCost:
    def test_a_look_takes_the_same_queries_however_much_there_is(self, counting: Desk) -> None:
        def queries() -> int:
            with CaptureQueriesContext(connection) as ran:
                assert read().of("up") == 1
            return len(ran)

        few = queries()
        assert few <= 14
        for number in range(3):
            board = cast.make_board(counting.space, f"board-{number}")
            tasks.file_tasks(counting.chain, board, [Filing(f"Task {n}", assignee=cast.WRITER) for n in range(20)])
        worked(counting)
        assert queries() == few

    def test_no_query_of_it_reads_what_has_ended_row_by_row(self, desk: Desk) -> None:
        """With 20,000 finished rows and a hundred live ones: by index, and no more of it than is live."""
        history.fill(desk.board, desk.chain.session_id, 20_000)
        for number in range(100):
            desk.filed(goal=f"Task {number}")
        with connection.cursor() as cursor:
            cursor.execute("analyze boards_task, boards_event")
        read()
        with CaptureQueriesContext(connection) as ran:
            read()
        looks = [query["sql"] for query in ran if query["sql"].lstrip().lower().startswith(("select", "with"))]
        assert len(looks) >= 5
        for sql in looks:
            assert touched(sql) < 5_000, sql

    def test_a_query_that_takes_too_long_is_ended_and_said(
        self, counting: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(metrics, "_ONE_MOMENT", metrics._ONE_MOMENT.replace("3000", "50"))
        monkeypatch.setattr(metrics, "_DEBTS", "select null, '', 'owed', 1 from pg_sleep(5)")
        with caplog.at_level(logging.WARNING):
            page = read()
        assert (page.status, page.of("up")) == (200, 0)
        assert page.boards == set()
        assert "statement timeout" in caplog.text

    def test_a_look_at_the_log_that_takes_too_long_is_dropped_and_the_next_goes_on(
        self, counting: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worked(counting)
        with monkeypatch.context() as patched:
            patched.setattr(metrics, "_ONE_MOMENT", metrics._ONE_MOMENT.replace("3000", "200"))
            patched.setattr(log_counts, "_SINCE", "select pg_sleep(5)::text, %(since)s")
            page = read()
        assert (page.of("up"), page.of("dropped_looks_total")) == (1, 1)
        assert page.on("claims_total") == 0
        assert "completed" not in page.tasks()  # not known for the moment, and not told
        worked(counting)
        page = read()
        assert page.on("claims_total") == 1
        assert page.tasks() == in_ledger(counting.board)

    def test_several_looks_at_once_count_everything_once(self, counting: Desk) -> None:
        for _ in range(5):
            worked(counting)
        pages = at_once(*[read] * 4)
        assert [page.on("claims_total") for page in pages] == [5] * 4


class TestWithoutADatabase:
    def test_the_token_reads_of_the_process_and_that_the_ledger_is_down(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(metrics, "_asked", _gone)
        page = read()
        assert (page.status, page.of("up")) == (200, 0)
        assert page.of("sockets") == 0
        assert "10.0.0.7" not in page.text

    def test_who_cannot_be_known_is_told_so_in_words(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("boards.web.metrics.keys.find", _gone)
        page = read(bearer="ork_something")
        assert (page.status, page.text) == (503, "The database does not answer.\n")


class TestTheFormat:
    @pytest.mark.parametrize("slug", ['de"sk', "de\nsk", "de\\sk", 'de"} 1\norchestra_up 7', "düne-✓"])
    def test_no_name_of_a_board_breaks_it(self, desk: Desk, slug: str) -> None:
        desk.filed()
        Board.objects.filter(pk=desk.board.pk).update(slug=slug)
        page = read()
        assert page.boards == {slug, "attic"}
        assert page.tasks(slug) == {"pending": 1}
        assert page.of("up") == 1

    def test_it_names_no_task_no_person_and_no_partition(self, desk: Desk) -> None:
        desk.filed(goal="Tell nobody of halibut", title="Halibut", labels=["halibut"])
        Task.objects.update(partition="user:halibut")
        cast.claimed(desk.board)
        assert not re.search("halibut|anna|olga|writer", read().text, re.IGNORECASE)

    def test_the_documents_list_every_name_with_its_type_and_no_other(self, counting: Desk) -> None:
        table = DEPLOY[DEPLOY.index("## Metrics") : DEPLOY.index("## pgbouncer")]
        listed = dict(re.findall(r"^\| `orchestra_(\w+)(?:\{[\w, ]*\})?` \| (\w+) \|", table, re.MULTILINE))
        Debt.objects.create(kind="cascade", unique_key="one")
        told = {
            name.removeprefix("orchestra_") + ("_total" if kind == "counter" else ""): kind
            for name, kind in read().families.items()
        }
        assert listed == told

    def test_the_documents_name_the_labels(self, counting: Desk) -> None:
        table = DEPLOY[DEPLOY.index("## Metrics") : DEPLOY.index("## pgbouncer")]
        Debt.objects.create(kind="cascade", unique_key="one")
        for name, names in re.findall(r"^\| `orchestra_(\w+)(?:\{([\w, ]*)\})?` \|", table, re.MULTILINE):
            samples = {key for key in read().samples if re.fullmatch(rf"orchestra_{name}(_count)?", key[0])}
            told = {frozenset(label for label, _ in labels) for _, labels in samples} or {frozenset()}
            assert told == {frozenset(filter(None, names.split(", ")))}, name


def touched(sql: str) -> int:
    """How many rows the plan's scans read, those that a filter throws away included."""
    with connection.cursor() as cursor:
        cursor.execute("explain (analyze, format json) " + sql)
        (plan,) = cursor.fetchone()

    def read_by(node: dict[str, Any]) -> int:
        own = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        below = sum(read_by(child) for child in node.get("Plans", ()))
        return below + (int(own) if "Scan" in node["Node Type"] else 0)

    found = plan if isinstance(plan, list) else json.loads(plan)
    return read_by(found[0]["Plan"])


def _gone(*_: object) -> Any:
    raise DatabaseError('connection to server at "10.0.0.7" failed')
