"""Random operations by several actors against a model of the table; invariants after each (spec: 02 section 8)."""

from __future__ import annotations

import contextlib
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from boards import actors, errors, people, tasks
from boards.debts import owing, paying
from boards.models import Attempt, BoardCounter, Debt, Event, Hold, Task, TaskDep
from boards.states import TERMINAL, TRANSITIONS, Status
from boards.tasks import Filing, HoldFiling, Recorded, Wanted
from tests import cast

STATUS_KINDS = {
    "task.filed",
    "task.held",
    "task.released",
    "task.claimed",
    "task.resumed",
    "task.completed",
    "task.handed_in",
    "task.checked",
    "task.errored",
    "task.retried",
    "task.retry_requested",
    "task.cancelled",
    "task.handed_back",
    "task.skipped",
    "task.reclaimed",
    "task.withdrawn",
}


OVER = {*TERMINAL, "withdrawn"}  # the last is cancelled too, and told apart until all that follows is followed
OWED: list[tuple[str, int | None]] = []  # what the step that runs has left to pay
HOW = ["complete", "complete", "complete", "fail", "for_good", "hand_back", "worker_cancels"]
# What may be drawn, as often as it stands here, and what there must be for it.
OPERATIONS = [
    ("file", ""),
    ("hold", "pending"),
    ("release", "held"),
    ("claim", "pending in_progress"),
    ("claim", "pending in_progress"),
    ("claim", "pending in_progress"),
    ("settle", "grants"),
    ("settle", "grants"),
    ("settle", "grants"),
    ("an_old_grant_writes_nothing", "stale"),
    ("the_lease_runs_out", "grants"),
    ("ask_and_suspend", "grants"),
    ("answer", "asked"),
    ("answer", "asked"),
    ("cancel", "pending held in_progress needs_check"),
    ("skip", "errored pending"),
    ("withdraw", "pending held in_progress needs_check errored"),
    ("retry", "errored cancelled"),
    ("check", "needs_check"),
    ("check", "needs_check"),
    ("reclaim", "in_progress"),
    ("edit_deps", "pending held"),
    ("start_anyway", "pending held cancelled"),
    ("follow_up", "ran"),
    ("file_many", ""),
    ("file_in_a_turn", "grants"),
    ("file_in_a_turn", "grants"),
    ("end_what_was_filed", "kept"),
    ("end_what_was_filed", "kept"),
    ("progress", "grants"),
    ("write_a_field", "pending held in_progress completed errored"),
    ("steer", "pending held in_progress needs_check"),
    ("dismiss", "asked"),
]


class Board(RuleBasedStateMachine):
    """`model`: what each task's status must be; `grants`: the tickets that still own their rows.

    `were_held`: those that a cascade cancelled before anybody had released them. `kept`: those that were handed in and
    wait for what they filed.
    """

    @initialize()
    def make(self) -> None:
        space = cast.make_space(f"s{Task.objects.count()}-{id(self)}")
        self.board = cast.make_board(space, max_total_retries=6)
        self.day = datetime.now(UTC).date()
        self.anna = cast.chain_of(cast.make_member(space, f"anna{space.pk}"))
        self.bert = cast.chain_of(cast.make_member(space, f"bert{space.pk}"))
        self.olga = cast.chain_of(cast.make_member(space, f"olga{space.pk}", "operator"))
        self.worker = cast.agent_chain(self.board)
        self.model: dict[int, str] = {}
        self.were_held: set[int] = set()
        self.kept: set[int] = set()
        self.grants: dict[int, tasks.Ticket] = {}
        self.stale: list[tasks.Ticket] = []
        self.events = 0
        for n, deps in enumerate([[], ["a0"], ["a0", "a1"], ["a1"], []]):
            filing = Filing(goal="A task", id=f"a{n}", assignee="writer", deps=deps, max_attempts=2)
            self.model[tasks.file_task(self.anna, self.board, filing, allow_same=True).pk] = "pending"
            self.events += 1

    def follow_up(self, data: st.DataObject) -> None:
        ran = list(Task.objects.filter(board=self.board, started_at__isnull=False).order_by("pk"))
        of = data.draw(st.sampled_from(ran))
        made = tasks.file_task(self.bert, self.board, Filing(goal="More of it", follow_up_of=of.public_id))
        assert made.follow_up_of_id == (of.follow_up_of_id or of.pk)
        self.model[made.pk] = "pending"
        self.events += 1

    def file_many(self, data: st.DataObject) -> None:
        """All or nothing: with a dependency that is not there, nothing of the batch is."""
        count, good = data.draw(st.integers(1, 3)), data.draw(st.booleans())
        first = f"m{len(self.model)}"
        filings = [Filing(goal="One of many", id=first, assignee="writer")]
        filings += [Filing(goal="One of many", assignee="writer", deps=[first]) for _ in range(count)]
        if not good:
            filings.append(Filing(goal="One of many", deps=["nowhere"]))
            with pytest.raises(errors.DependencyNotOnBoard):
                tasks.file_tasks(self.anna, self.board, filings, allow_same=True)
            return
        for made in tasks.file_tasks(self.anna, self.board, filings, allow_same=True):
            self.model[made.pk] = "pending"
            self.events += 1

    def file_in_a_turn(self, data: st.DataObject) -> None:
        """What it files may wait for it, follow it up, or do neither."""
        filer = data.draw(st.sampled_from(sorted(self.grants)))
        alive = self.having("pending", "held", "in_progress", "needs_check", "completed")
        how = data.draw(st.sampled_from(["free", "free", "waits for some", "waits for it", "follows it up"]))
        deps = data.draw(st.lists(st.sampled_from(alive), max_size=2)) if how == "waits for some" else []
        names = list(Task.objects.filter(pk__in=[filer] if how == "waits for it" else deps).order_by("pk"))
        filing = Filing(goal="Part of it", assignee="writer", deps=[task.public_id for task in names])
        if how == "follows it up":
            filing = Filing(goal="Part of it", follow_up_of=Task.objects.get(pk=filer).public_id)
        parent = Task.objects.get(pk=filer)
        made = tasks.file_task(self.worker, self.board, filing, filed_by_task=parent, allow_same=True)
        self.model[made.pk] = "pending"
        self.events += 1
        if data.draw(st.booleans()):
            self.settled(filer, "complete")

    def end_what_was_filed(self, data: st.DataObject) -> None:
        """One that a kept task waits for ends: a worker hands it in or fails, or a person cancels it."""
        filer = data.draw(st.sampled_from(sorted(self.kept)))
        held_by = sorted(self.holders(filer) - self.kept)
        if not held_by:
            return
        key = data.draw(st.sampled_from(held_by))
        if key in self.grants:
            self.settled(key, data.draw(st.sampled_from(["complete", "for_good"])))
        elif self.moved(tasks.cancel(self.bert, key)):
            self.model[key] = "cancelled"
            self.ended(key)

    def holders(self, filer: int) -> set[int]:
        """Of what a task filed on its last attempt, what is open and can end before it does."""
        began = Attempt.objects.filter(task=filer).latest("number").started_at
        filed = Task.objects.filter(filed_by_task=filer, created_at__gte=began).values_list("pk", flat=True)
        return {key for key in filed if self.model[key] not in OVER} - self.behind(filer)

    def behind(self, first: int) -> set[int]:
        """All that cannot end before a task has: step by step, until nothing more is found."""
        rows = {task.pk: task for task in Task.objects.filter(board=self.board)}
        edges = set(TaskDep.objects.filter(dependent__in=rows).values_list("dependent", "dependency"))
        found, more = set[int](), {first}
        while more:
            found |= more
            more = {key for key in rows if key not in found and self.waits_for(key, found, rows, edges)}
        return found

    def waits_for(self, key: int, found: set[int], rows: dict[int, Task], edges: set[tuple[int, int]]) -> bool:
        if key in self.kept and any(rows[n].filed_by_task_id == key and self.model[n] not in OVER for n in found):
            return True
        if self.model[key] not in {"pending", "held"}:
            return False
        root = rows[key].follow_up_of_id or key
        chain = {n for n in found if (rows[n].follow_up_of_id or n) == root and self.model[n] == "in_progress"}
        return bool(chain) or any((key, n) in edges and self.model[n] != "completed" for n in found)

    def look_at_filer(self, key: int) -> None:
        """The ending of a filed task has its filer looked at, which may end by that."""
        filer = Task.objects.values_list("filed_by_task", flat=True).get(pk=key)
        if filer in self.kept and not self.holders(filer):
            self.kept.discard(filer)
            checked = Task.objects.get(pk=filer).checker != "none"
            self.model[filer] = "needs_check" if checked else "completed"
            self.events += 1
            self.ended(filer)

    def progress(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.grants)))
        ticket, before = self.grants[key], Task.objects.get(pk=key)
        outcome = tasks.report_progress(self.worker, key, output={"n": 1}, note="on it", claim=ticket)
        assert outcome.landed == (tasks.owns(ticket) and outcome.result is not Recorded.DECLINED)
        if not outcome.landed:
            assert Task.objects.get(pk=key).revision == before.revision

    def write_a_field(self, data: st.DataObject) -> None:
        key = self.pick(data, "pending", "held", "in_progress", "completed", "errored")
        assert key is not None
        before = Task.objects.get(pk=key)
        number = data.draw(st.integers(0, 1))
        outcome = data.draw(
            st.sampled_from(
                [
                    lambda: tasks.set_priority(self.olga, key, number),
                    lambda: tasks.add_label(self.olga, key, "a"),
                    lambda: tasks.remove_label(self.olga, key, "a"),
                    lambda: tasks.patch_metadata(self.olga, key, {"n": number}),
                ]
            )
        )()
        after = Task.objects.get(pk=key)
        assert after.status == before.status
        assert after.revision - before.revision == (outcome.result is Recorded.RECORDED)

    def steer(self, data: st.DataObject) -> None:
        key = self.pick(data, "pending", "held", "in_progress", "needs_check")
        assert key is not None
        before = len(Task.objects.get(pk=key).steers)
        with contextlib.suppress(errors.Refusal):
            tasks.steer(self.bert, key, "Be short.")
            assert len(Task.objects.get(pk=key).steers) == before + 1

    def dismiss(self, data: st.DataObject) -> None:
        """Lets the run go on without an answer; what stands before a start stays shut."""
        hold = data.draw(st.sampled_from(list(Hold.objects.filter(board=self.board, state="open").order_by("pk"))))
        with contextlib.suppress(errors.Refusal):
            people.dismiss_hold(self.olga, hold.pk)

    def having(self, *statuses: str) -> list[int]:
        return sorted(key for key, status in self.model.items() if status in statuses)

    def pick(self, data: st.DataObject, *statuses: str) -> int | None:
        keys = self.having(*statuses)
        return data.draw(st.sampled_from(keys)) if keys else None

    def moved(self, outcome: tasks.TaskWriteOutcome) -> bool:
        self.events += outcome.result is Recorded.RECORDED
        return outcome.result is Recorded.RECORDED

    def ended(self, key: int) -> None:
        """Follow the cascade in the model: what waits on an ended row is cancelled, all the way; and who filed it."""
        self.kept.discard(key)
        ticket = self.grants.pop(key, None)
        if ticket:
            self.stale.append(ticket)
        # What a drain would pay.
        of_the_drain = Debt.objects.filter(task=key, kind__in=["session_stop", "resume"])
        for debt_id in list(of_the_drain.values_list("pk", flat=True)):
            paying.pay(debt_id)
        if self.model[key] in OVER:
            self.look_at_filer(key)
        if self.model[key] == "withdrawn":
            for filed in Task.objects.filter(filed_by_task=key).order_by("pk").values_list("pk", flat=True):
                self.goes_with_its_filer(filed)
        if self.model[key] not in {"errored", "cancelled"}:
            return
        edges = TaskDep.objects.filter(dependency=key).values_list("dependent", flat=True)
        for dependent in edges:
            if self.model[dependent] in {"pending", "held"}:
                if self.model[dependent] == "held":
                    self.were_held.add(dependent)
                self.model[dependent] = "cancelled"
                self.events += 1
                self.ended(dependent)

    def goes_with_its_filer(self, key: int) -> None:
        """Nobody wants any more what a withdrawn task filed, nor what that filed."""
        if self.model[key] in TERMINAL:
            return
        self.model[key] = "cancelled"
        self.events += 1
        self.ended(key)
        for filed in Task.objects.filter(filed_by_task=key).order_by("pk").values_list("pk", flat=True):
            self.goes_with_its_filer(filed)

    def file(self, data: st.DataObject) -> None:
        held, tries, check, ask = data.draw(
            st.tuples(
                st.sampled_from([False] * 4 + [True]),
                st.integers(1, 3),
                st.booleans(),
                st.sampled_from([False, False, True]),
            )
        )
        alive = self.having("pending", "held", "in_progress", "needs_check", "completed")
        deps = data.draw(st.lists(st.sampled_from(alive), max_size=3, unique=True)) if alive else []
        task = tasks.file_task(
            self.anna,
            self.board,
            Filing(
                goal="A task",
                assignee="writer",
                deps=list(Task.objects.filter(pk__in=deps).values_list("public_id", flat=True)),
                held=held,
                max_attempts=tries,
                checker="person" if check else "none",
                holds=[HoldFiling(kind="confirm", prompt="Sure?")] if ask else [],
            ),
            allow_same=True,
        )
        self.model[task.pk] = "held" if held else "pending"
        self.events += 1

    def hold(self, data: st.DataObject) -> None:
        key = self.pick(data, "pending")
        if key and not Task.objects.get(pk=key).attempts and self.moved(tasks.hold(self.bert, key)):
            self.model[key] = "held"

    def release(self, data: st.DataObject) -> None:
        key = self.pick(data, "held")
        if key and self.moved(tasks.release(self.anna, key)):
            self.model[key] = "pending"

    def claim(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, 3))
        spent = Task.objects.filter(board=self.board, lease_until__lte=Now(), abandonments__gte=3)
        for key in list(spent.values_list("pk", flat=True)):
            self.model[key] = "errored"
            self.events += 1
        before = set(spent.values_list("pk", flat=True))
        got = tasks.claim(
            [Wanted(self.board.pk, {"writer": count})], limit=count, lease_ms=60_000, claimed_by=cast.HERE
        )
        for key in before:
            self.ended(key)
        for one in got:
            assert one.task.unmet_deps == one.task.open_holds == 0
            if one.task.pk in self.grants:
                self.stale.append(self.grants[one.task.pk])
            self.grants[one.task.pk] = one.ticket
            self.model[one.task.pk] = "in_progress"
            self.events += 1

    def settle(self, data: st.DataObject) -> None:
        how = data.draw(st.sampled_from(HOW))
        self.settled(data.draw(st.sampled_from(sorted(self.grants))), how)

    def settled(self, key: int, how: str) -> None:
        ticket = self.grants[key]
        if how == "complete":
            outcome = tasks.complete(self.worker, key, {"n": 1}, claim=ticket)
        elif how in {"fail", "for_good"}:
            outcome = tasks.fail(self.worker, key, "no", claim=ticket, for_good=how == "for_good")
        elif how == "hand_back":
            outcome = tasks.hand_back(self.worker, key, claim=ticket)
        else:
            outcome = tasks.end_for_good(self.worker, key, "no use", claim=ticket, ending="cancelled")
        if key in self.kept:
            assert outcome.result is not Recorded.RECORDED, "nothing that its worker says later changes it"
        elif (outcome.result, outcome.status) == (Recorded.RECORDED, "in_progress"):
            assert self.holders(key)
            self.kept.add(key)
        elif self.moved(outcome):
            assert how != "complete" or not self.holders(key)
            self.model[key] = outcome.status
            self.ended(key)

    def an_old_grant_writes_nothing(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(self.stale))
        outcome = tasks.complete(self.worker, ticket.task_key, "late", claim=ticket)
        assert outcome.result is Recorded.DECLINED
        assert tasks.renew_leases([ticket])[ticket.task_key] is None

    def the_lease_runs_out(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.grants)))
        Task.objects.filter(pk=key, lease_until__isnull=False).update(lease_until=Now() - timedelta(seconds=1))

    def ask_and_suspend(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.grants)))
        if not tasks.owns(self.grants[key]):
            return
        if key in self.kept:
            with pytest.raises(tasks.LostClaim):
                people.open_hold(self.worker, claim=self.grants[key], kind="question", prompt="Which?")
            return
        people.open_hold(self.worker, claim=self.grants[key], kind="question", prompt="Which?")
        assert people.suspend(self.grants[key]).landed

    def answer(self, data: st.DataObject) -> None:
        still_open = list(Hold.objects.filter(board=self.board, state="open").order_by("pk"))
        if still_open:
            hold = data.draw(st.sampled_from(still_open))
            people.answer_hold(self.bert, hold.pk, choice="yes" if hold.kind == "confirm" else "", text="words")

    def cancel(self, data: st.DataObject) -> None:
        key = self.pick(data, "pending", "held", "in_progress", "needs_check")
        if key and self.moved(tasks.cancel(self.bert, key, "no longer wanted")):
            self.model[key] = "cancelled"
            self.ended(key)

    def withdraw(self, data: st.DataObject) -> None:
        """Ends it for good and cascades nowhere: what depends on it waits on."""
        key = self.pick(data, "pending", "held", "in_progress", "needs_check", "errored")
        flows = actors.service("flows", self.board.space_id)
        if key and self.moved(tasks.withdraw(flows, key)):
            self.model[key] = "withdrawn"
            self.ended(key)
            self.model[key] = "cancelled"
            assert not tasks.retry(self.anna, key).landed

    def skip(self, data: st.DataObject) -> None:
        key = self.pick(data, "errored", "pending")
        if key and self.moved(tasks.skip(self.anna, key, "set aside")):
            self.model[key] = "cancelled"
            self.ended(key)

    def retry(self, data: st.DataObject) -> None:
        key = self.pick(data, "errored", "cancelled", "completed")
        if key and self.moved(tasks.retry(self.anna, key)):
            self.model[key] = "pending"
            self.were_held.discard(key)

    def check(self, data: st.DataObject) -> None:
        good = data.draw(st.booleans())
        key = self.pick(data, "needs_check")
        if key and self.moved(tasks.accept(self.anna, key) if good else tasks.send_back(self.anna, key, "again")):
            self.model[key] = "completed" if good else "pending"
            if good:
                self.look_at_filer(key)

    def reclaim(self, data: st.DataObject) -> None:
        key = self.pick(data, "in_progress")
        if key and self.moved(tasks.reclaim(self.olga, key)):
            self.model[key] = "pending"
            self.ended(key)

    def edit_deps(self, data: st.DataObject) -> None:
        key = self.pick(data, "pending", "held")
        wanted = data.draw(st.lists(st.sampled_from(sorted(self.model)), max_size=3, unique=True))
        names = list(Task.objects.filter(pk__in=wanted).values_list("public_id", flat=True))
        with contextlib.suppress(errors.DependencyLoop, errors.DependencyEnded, errors.FieldLocked):
            tasks.update_task(self.anna, key, deps=names)

    def start_anyway(self, data: st.DataObject) -> None:
        key = self.pick(data, "pending", "held", "cancelled")
        was = self.model[key]
        with contextlib.suppress(errors.IllegalTaskTransition):
            tasks.start_anyway(self.anna, key)
            again_held = key in self.were_held
            self.events += again_held
            self.model[key] = "held" if again_held else "pending" if was == "cancelled" else was
            self.were_held.discard(key)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """One operation that finds something to do, drawn by weight: rules of their own are drawn too unevenly."""
        operation = data.draw(st.sampled_from([name for name, needs in OPERATIONS if self.has(needs)]))
        before = {task.pk: task for task in Task.objects.filter(board=self.board)}
        OWED.clear()
        getattr(self, operation)(data)
        self.each_ending_had_its_debts(before)

    def each_ending_had_its_debts(self, before: dict[int, Task]) -> None:
        ended = Task.objects.filter(pk__in=before, status__in=TERMINAL)
        for row in ended:
            was = before[row.pk]
            if was.status in TERMINAL and (was.status, row.status) != ("errored", "cancelled"):
                continue
            owed = {kind for kind, key in OWED if key == row.pk}
            last = Event.objects.filter(task=row, to_status=row.status).latest("pk")
            waited_for = TaskDep.objects.filter(dependency=row).exists()
            ran, suspended, turn_over = was.status == "in_progress", was.kept_open_by == "suspended", was.kept_open_by
            by_worker = last.actor == "writer" or (last.kind == "task.errored" and ran)
            assert ("cascade" in owed) == (waited_for and row.status != "completed" and not row.withdrawn)
            assert ("session_stop" in owed) == bool(ran and not turn_over and not by_worker)
            assert ("resume" in owed) == (ran and suspended and row.status == "cancelled" and not row.withdrawn)
            assert ("holds_discard" in owed) == bool(row.withdrawn and was.open_holds)

    def has(self, needs: str) -> bool:
        found = {
            "": True,
            "grants": bool(self.grants),
            "stale": bool(self.stale),
            "kept": bool(self.kept),
            "asked": Hold.objects.filter(board=self.board, state="open").exists(),
            "ran": Task.objects.filter(board=self.board, started_at__isnull=False).exists(),
        }
        return found[needs] if needs in found else bool(self.having(*needs.split()))

    @invariant()
    def the_table_holds(self) -> None:
        if not hasattr(self, "board"):
            return
        rows = {task.pk: task for task in Task.objects.filter(board=self.board)}
        assert {key: row.status for key, row in rows.items()} == self.model
        unmet = Counter(
            TaskDep.objects.filter(dependent__in=rows)
            .exclude(dependency__status="completed")
            .values_list("dependent", flat=True)
        )
        asked = Counter(Hold.objects.filter(task__in=rows, state="open").values_list("task", flat=True))
        unanswered = Hold.objects.filter(task__in=rows, source="filing").exclude(state="answered")
        assert not unanswered.filter(task__attempts__gt=0).exists(), "it started without its answer"
        attempts = list(Attempt.objects.filter(task__in=rows).values_list("task", "ended_at"))
        made = Counter(key for key, _ in attempts)
        working = Counter(key for key, ended_at in attempts if ended_at is None)
        for key, row in rows.items():
            assert (row.unmet_deps, row.open_holds) == (unmet[key], asked[key])
            assert (row.attempts, row.status == "in_progress") == (made[key], working[key] == 1)
            assert (row.completed_at is not None) == (row.status in TERMINAL)
            # Nobody here works as a person, so a row without a lease is one that is kept open.
            assert (row.lease_until is not None) == (row.status == "in_progress" and not row.kept_open_by)
            assert row.resume_ready_at is None or (row.kept_open_by == "suspended" and not row.open_holds)
            assert row.withdrawn is None or row.status == "cancelled"
        assert {key for key, row in rows.items() if row.kept_open_by == "filed"} == self.kept
        self.the_counters_of_the_board_hold(rows)
        self.the_log_tells_every_move(rows)
        at_work = Counter(row.follow_up_of_id or key for key, row in rows.items() if row.status == "in_progress")
        assert max(at_work.values(), default=0) <= 1, "one of a chain works at a time"
        recorded = Event.objects.filter(board=self.board, kind__in=STATUS_KINDS).exclude(kind="task.resumed")
        resumed = Event.objects.filter(board=self.board, kind="task.resumed").count()
        assert recorded.count() + resumed == self.events
        assert not Debt.objects.filter(task__board=self.board).exists()

    def the_counters_of_the_board_hold(self, rows: dict[int, Task]) -> None:
        counter = BoardCounter.objects.get(board=self.board)
        assert counter.filed_total == len(rows)
        granted = sum((row.retry_ledger or {}).get("granted", 0) for row in rows.values())
        if counter.retries_day in {None, self.day}:  # the budget is a day's, and midnight comes to tests too
            assert counter.retries_granted == granted <= 6
        assert tasks.recount(limit=10_000).differences == []

    def the_log_tells_every_move(self, rows: dict[int, Task]) -> None:
        """Each row's events with a status follow one another without a gap, by legal moves, to where the row stands."""
        stands: dict[int, str] = {}
        told = Event.objects.filter(task__in=rows).exclude(to_status="").order_by("pk")
        for key, was, became, chain in told.values_list("task", "from_status", "to_status", "chain"):
            assert chain, "somebody did it"
            if key in stands:
                assert was == stands[key]
                assert was == became or any(became in to.get(Status(was), ()) for to in TRANSITIONS.values())
            stands[key] = became
        assert stands == {key: row.status for key, row in rows.items()}


@pytest.fixture
def owed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note what is owed, by kind and task, though it is paid at once."""
    owe = owing.owe

    def noted(kind: str, unique_key: str, **facts: Any) -> Debt:
        task = facts.get("task")
        OWED.append((kind, getattr(task, "pk", task)))
        return owe(kind, unique_key, **facts)

    monkeypatch.setattr(owing, "owe", noted)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("owed")
def test_random_operations_never_break_the_table():
    run_state_machine_as_test(
        Board,
        settings=settings(
            max_examples=6, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
