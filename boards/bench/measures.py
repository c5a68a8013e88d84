"""One function for each measurement of `manage.py bench`; the keys of what they answer are the spec's (10)."""

from __future__ import annotations

import contextlib
import random
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.db.models import Count
from django.utils import timezone

from boards import sweeping, tasks
from boards.bench import drains, flow_steps, history, pages
from boards.bench.desk import AGENT, TELLER, Desk
from boards.bench.places import Place, own_database
from boards.bench.plain import Plain
from boards.bench.plans import Plan, buffers, planned, scans_of_tasks
from boards.models import Debt, Event, Task
from boards.states import Status
from boards.tasks import Filing, HoldFiling
from boards.tasks.arms import pick_statement

ROUNDS = 3
CALLS = 5  # of `create_tasks`, each over in an instant
IDLE_S = 0.02  # a drain that has just settled is not idle yet


@dataclass(frozen=True)
class Result:
    """`numbers` is what `--json` prints; `said` are lines for people: what, and how much."""

    numbers: dict[str, Any]
    said: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Measure:
    run: Callable[[int, int], Result]
    n: int  # tasks, samples or rows, where `--n` says nothing
    about: str


def drain(n: int, count: int) -> Result:
    """Filed to all completed by `count` drains, the median of rounds; for several drains the same with one.

    Each round has an empty database and the reference before and after it, so that both see the same machine.
    """
    alone, rounds = [], []
    with own_database() as empty:
        for _ in range(ROUNDS):
            if count > 1:
                alone.append(_drain_round(empty, n, 1)[0])
            rounds.append(_drain_round(empty, n, count))
    rate, raw, ratio = (statistics.median(column) for column in zip(*rounds, strict=True))
    numbers = {"tasks_per_s": round(rate, 1), "raw_per_s": round(raw, 1), "ratio": round(ratio, 3), "n": n}
    said = [
        ("Tasks worked", f"{rate:,.0f} a second by {count} {'drain' if count == 1 else 'drains'}"),
        ("Plain SQL, batches of 50", f"{raw:,.0f} a second on one connection"),
        ("Ratio", f"{ratio:.2f}"),
    ]
    if alone:
        times = statistics.median(several[0] / one for several, one in zip(rounds, alone, strict=True))
        numbers["times_one"] = round(times, 2)
        said.append(("Against one drain", f"{times:.2f} times its {statistics.median(alone):,.0f} a second"))
    return Result({**numbers, "drains": count}, said)


def _drain_round(empty: Place, n: int, count: int) -> tuple[float, float, float]:
    """The rate, that of the reference, and their ratio."""
    with own_database(empty) as place, place.used():
        plain = _plain(place, Desk("plain"))
        desk = Desk()
        desk.file(desk.simple(n))
        with drains.running(place, count):
            before = plain.drain(n)
            rate = desk.measured(n)
            raw = statistics.mean([before, plain.drain(n)])
    return rate, raw, rate / raw


def file(n: int, count: int) -> Result:
    """Filing one by one, and in one call of up to 1,000; the reference is one commit for each task and event."""
    with own_database() as place, place.used():
        desk = Desk()
        plain = _plain(place, desk)
        plain.file_each(min(n, 50))
        desk.file(desk.simple(2))
        parts = [_file_round(desk, plain, max(1, n // ROUNDS)) for _ in range(ROUNDS)]
        bulk = _bulk_rate(desk, n)
    rate, raw = (statistics.median(column) for column in zip(*parts, strict=True))
    ratio = rate / raw
    numbers = {"tasks_per_s": round(rate, 1), "raw_per_s": round(raw, 1), "ratio": round(ratio, 3), "n": n}
    return Result(
        {**numbers, "drains": 0, "bulk_per_s": round(bulk, 1)},
        [
            ("Filed one by one", f"{rate:,.0f} a second"),
            ("Plain SQL, one by one", f"{raw:,.0f} a second"),
            ("Ratio", f"{ratio:.2f}"),
            ("Filed in one call", f"{bulk:,.0f} a second"),
        ],
    )


def _file_round(desk: Desk, plain: Plain, count: int) -> tuple[float, float]:
    raw = plain.file_each(count)
    began = time.perf_counter()
    for n in range(count):
        tasks.file_task(desk.chain, desk.board, Filing(goal=f"File {time.monotonic_ns()} {n}", assignee=AGENT))
    return count / (time.perf_counter() - began), raw


def _bulk_rate(desk: Desk, n: int) -> float:
    """The median of calls, after one that makes the tables grow for the first time."""
    filings = [Filing(goal=f"Bulk {number}", assignee=AGENT) for number in range(min(n, 1_000))]
    took = []
    for _ in range(1 + CALLS):
        began = time.perf_counter()
        tasks.file_tasks(desk.chain, desk.board, filings, allow_same=True)
        took.append(time.perf_counter() - began)
    return len(filings) / statistics.median(took[1:])


def pickup(n: int, count: int) -> Result:
    """The filing's commit to the worker's first line, with an idle drain; the reference is a bare LISTEN, as idle."""
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(own_database())
        stack.enter_context(place.used())
        desk = Desk()
        plain = _plain(place, desk)
        raw = sorted(plain.notice(n, stack.enter_context(place.connect()), IDLE_S))
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "told"
        heard = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        heard.bind(str(path))
        heard.settimeout(30)
        stack.enter_context(drains.running(place, 1, tell=str(path)))
        tasks.set_paused(desk.chain, desk.board, False)
        _pick_up(desk, heard)  # the first opens connections and starts threads
        found = sorted(_pick_up(desk, heard) for _ in range(n))
    half, most = _percentile(found, 0.5), _percentile(found, 0.99)
    raw_half, raw_most = _percentile(raw, 0.5), _percentile(raw, 0.99)
    found_ms = {"ms_p50": half, "ms_p99": most, "raw_ms_p50": raw_half, "raw_ms_p99": raw_most}
    numbers = {name: round(value, 2) for name, value in found_ms.items()}
    return Result(
        numbers,
        [
            ("Commit to first line", f"{half:.2f} ms, in the worst of a hundred {most:.2f} ms"),
            ("Bare NOTIFY to LISTEN", f"{raw_half:.2f} ms, in the worst of a hundred {raw_most:.2f} ms"),
        ],
    )


def _pick_up(desk: Desk, heard: socket.socket) -> float:
    committed: list[int] = []
    with transaction.atomic():
        transaction.on_commit(lambda: committed.append(time.monotonic_ns()))
        filing = Filing(goal=f"Pick up {time.monotonic_ns()}", assignee=TELLER)
        task = tasks.file_task(desk.chain, desk.board, filing, allow_same=True)
    told = int(heard.recv(64))
    while not Task.objects.filter(pk=task.pk, status=Status.COMPLETED).exists():
        time.sleep(0.002)
    time.sleep(IDLE_S)
    return (told - committed[0]) / 1e6


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def with_history(n: int, count: int) -> Result:
    """The rate with `n` finished tasks against an empty board: two databases, measured in turn."""
    batch = max(5, min(2_000, n // 10))
    with own_database() as full, own_database(full) as empty, contextlib.ExitStack() as stack:
        desks = {}
        for place in (full, empty):
            with place.used():
                desks[place.name] = desk = Desk()
                if place is full:
                    history.fill(desk.board, desk.chain.session_id, n)
                stack.enter_context(drains.running(place, count))
        rates: dict[str, list[float]] = {full.name: [], empty.name: []}
        for place in (empty, full) * ROUNDS:
            with place.used():
                desk = desks[place.name]
                desk.file(desk.simple(batch))
                rates[place.name].append(desk.measured(batch))
        with full.used():
            claim = planned(pick_statement("ready", [(desks[full.name].board.pk, AGENT, 50)], 50))
    with_rows, without = statistics.median(rates[full.name]), statistics.median(rates[empty.name])
    ratio = with_rows / without
    numbers = {"rows": n, "empty_per_s": round(without, 1), "full_per_s": round(with_rows, 1), "ratio": round(ratio, 3)}
    return Result(
        numbers,
        [
            ("On an empty board", f"{without:,.0f} tasks a second"),
            (f"Behind {n:,} finished tasks", f"{with_rows:,.0f} tasks a second"),
            ("Ratio", f"{ratio:.2f}"),
            ("The claim reads", _scans(claim)),
        ],
    )


def _scans(plan: Plan) -> str:
    found = ", ".join(f"{kind} {index}".strip() for kind, index in scans_of_tasks(plan))
    return f"{found}; {buffers(plan)} pages"


def deps(n: int, count: int) -> Result:
    """A chain of n/10, a fan of 1 to n/5 to 1, and a random graph of n tasks with up to three dependencies each."""
    shapes = {"chain": _chain(max(2, n // 10)), "fan": _fan(max(2, n // 5)), "graph": _graph(n)}
    rates = {}
    with own_database() as place, place.used():
        desks = {name: Desk(name) for name in shapes}
        with drains.running(place, count):
            for name, filings in shapes.items():
                desks[name].file(filings)
                rates[name] = desks[name].measured(len(filings))
    return Result(
        {f"{name}_per_s": round(rate, 1) for name, rate in rates.items()},
        [(f"{name.title()} of {len(shapes[name]):,}", f"{rate:,.0f} tasks a second") for name, rate in rates.items()],
    )


def _named(name: str, *deps: str) -> Filing:
    return Filing(goal=f"Measure {name}", id=name, assignee=AGENT, deps=deps)


def _chain(n: int) -> list[Filing]:
    return [_named(f"c{k}", *([f"c{k - 1}"] if k else [])) for k in range(n)]


def _fan(n: int) -> list[Filing]:
    """In two calls at most, so that the last task's edges reach back over the batch."""
    return [
        _named("first"),
        *(_named(f"m{k}", "first") for k in range(n)),
        _named("last", *(f"m{k}" for k in range(n))),
    ]


def _graph(n: int) -> list[Filing]:
    dice = random.Random(7)  # noqa: S311 (a shape, not a secret)
    edges = [{dice.randrange(k) for _ in range(dice.randrange(4))} if k else set() for k in range(n)]
    return [_named(f"g{k}", *(f"g{dep}" for dep in sorted(edges[k]))) for k in range(n)]


def sweep(n: int, count: int) -> Result:
    """`n` questions past their time and `n` cascades owed, all due at once, and two sweepers."""
    with own_database() as place, place.used():
        desk = Desk()
        _due_questions(desk, n)
        _owed_cascades(desk, n)
        began = time.perf_counter()
        sweepers = [threading.Thread(target=_sweep_all) for _ in range(2)]
        for thread in sweepers:
            thread.start()
        for thread in sweepers:
            thread.join()
        rate = 2 * n / (time.perf_counter() - began)
        once = Event.objects.filter(kind__in=["hold.expired", "task.cancelled"]).values("task", "kind")
        times = list(once.annotate(times=Count("pk")).values_list("times", flat=True))
    doubled = sum(found > 1 for found in times)
    if len(times) != 2 * n:
        raise RuntimeError(f"{2 * n} things were due and {len(times)} were done.")
    return Result(
        {"per_s": round(rate, 1), "doubled": doubled},
        [("Seen to by two sweepers", f"{rate:,.0f} a second of {2 * n:,}"), ("Done twice", str(doubled))],
    )


def _due_questions(desk: Desk, n: int) -> None:
    past = timezone.now() - timedelta(days=1)
    options = [{"value": "yes", "label": "Yes"}, {"value": "no", "label": "No"}]
    question = HoldFiling(kind="question", prompt="Go on?", options=options, due_at=past, default="no")
    desk.file(Filing(goal=f"Ask {k}", assignee=AGENT, holds=[question]) for k in range(n))


def _owed_cascades(desk: Desk, n: int) -> None:
    """Tasks that failed without their drain having paid for it, each with one dependent."""
    desk.file(_named(f"a{k}") for k in range(n))
    desk.file(_named(f"b{k}", f"a{k}") for k in range(n))
    failed = Task.objects.filter(board=desk.board, public_id__regex="^a[0-9]+$")
    with connection.cursor() as cursor:
        cursor.execute(
            """update boards_task set status = 'errored', error = 'It failed.', completed_at = now()
                where board_id = %s and id ~ '^a[0-9]+$'""",
            [desk.board.pk],
        )
    Debt.objects.bulk_create(
        Debt(
            kind="cascade",
            unique_key=f"cascade:{task.pk}",
            task=task,
            data={
                "incarnation": str(task.incarnation_id),
                "attempt": task.attempts,
                "status": task.status,
                "reason": "It failed.",
            },
        )
        for task in failed
    )


def _sweep_all() -> None:
    try:
        while sweeping.sweep_once().total:
            pass
    finally:
        connection.close()


def flows(n: int, count: int) -> Result:
    """Runs through five steps that work by themselves: what a step change costs, and whether it grows."""
    with own_database() as place, place.used():
        found = flow_steps.measured(Desk(), n)
    slices = [round(ms, 2) for ms in found.slices]
    cpu = [round(ms, 2) for ms in found.cpu]
    numbers = {"ms_per_change": round(found.mean_ms, 2), "growth": round(found.growth, 3), "first_fifth_ms": slices[0]}
    numbers |= {"cpu_ms_per_change": round(found.mean_cpu_ms, 2), "cpu_growth": round(found.cpu_growth, 3)}
    return Result(
        {**numbers, "start_ms": round(found.start_ms, 2), "runs": n},
        [
            ("A step change", f"{found.mean_ms:.1f} ms, of {n * flow_steps.STEPS:,}"),
            ("In each fifth of them", ", ".join(f"{ms:.1f}" for ms in slices)),
            ("The last fifth against the first", f"{found.growth:.2f}"),
            ("Processor time of this process", f"{found.mean_cpu_ms:.1f} ms"),
            ("In each fifth, last against first", f"{', '.join(f'{ms:.1f}' for ms in cpu)}; {found.cpu_growth:.2f}"),
            ("Starting a run", f"{found.start_ms:.1f} ms"),
        ],
    )


def _plain(place: Place, desk: Desk) -> Plain:
    return Plain(place.connect(), desk.board.pk, desk.board.space_id)


def board(n: int, count: int) -> Result:
    """The page of a board with `n` tasks in six lanes."""
    with own_database() as place, place.used():
        return Result(*pages.board(Desk(), n))


def needs_you(n: int, count: int) -> Result:
    """The page of all that waits on an operator: `n` rows over fifty boards."""
    with own_database() as place, place.used():
        return Result(*pages.needs_you(Desk(), n))


MEASURES = {
    "board": Measure(board, 10_000, "the page of a board with many tasks in six lanes"),
    "needs-you": Measure(needs_you, 2_000, "the page of all that waits, over fifty boards"),
    "drain": Measure(drain, 10_000, "how fast drains work off a board, against plain SQL"),
    "file": Measure(file, 1_500, "how fast tasks are filed, one by one and in one call"),
    "pickup": Measure(pickup, 300, "how long a filed task waits for an idle drain"),
    "history": Measure(with_history, 1_000_000, "what a million finished tasks cost"),
    "deps": Measure(deps, 5_000, "a chain, a fan and a graph of dependencies"),
    "flows": Measure(flows, 1_000, "runs that move through five steps by themselves"),
    "sweep": Measure(sweep, 10_000, "what falls due all at once"),
}
