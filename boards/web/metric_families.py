"""The metrics in the words of prometheus_client: names, sentences, labels, values (spec: 09 section 2).

It reads nothing: `boards.queries.metrics` and `boards.measured` hold the figures. A registry of our own for each
answer, since what may be told depends on who asks. docs/deploy.md lists every name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from boards.measured import Durations, Here
from boards.models import Debt
from boards.queries.log_counts import PICKUP, RUN, WAIT
from boards.queries.metrics import BoardFigures, Ledger
from boards.queries.sweeper import Watch
from boards.states import Status

PREFIX: Final = "orchestra_"
_PLACE: Final = ["space", "board"]
_LOST: Final = ("lost", "abandoned", "reclaimed")
_STATES: Final = {Debt.State.OWED: "owed", Debt.State.UNDELIVERABLE: "dead"}


class Figures(Collector):
    """The figures of this process, and those of the ledger, or None where the database does not tell them."""

    def __init__(self, ledger: Ledger | None, here: Here) -> None:
        self._ledger, self._here = ledger, here

    def collect(self) -> Iterator[Metric]:
        yield _gauge("up", "Whether the database told its figures.", float(self._ledger is not None))
        yield from _of_process(self._here)
        if self._ledger is not None:
            yield from _of_boards(self._ledger.boards)
            yield from _of_durations(self._ledger.boards)
            yield _of_debts(self._ledger)
            yield from _of_watch(self._ledger.watch)
            dropped = "Looks at the event log that took too long; what they would have counted is in no counter."
            yield CounterMetricFamily(f"{PREFIX}dropped_looks", dropped, value=self._ledger.dropped)


def exposition(ledger: Ledger | None, here: Here) -> bytes:
    """The text of an answer."""
    registry = CollectorRegistry()
    registry.register(Figures(ledger, here))
    return generate_latest(registry)


def _of_process(here: Here) -> Iterator[Metric]:
    yield _gauge("sockets", "Pages that hold a socket to this web process.", here.sockets)
    hears = None if here.hears is None else float(here.hears())
    yield _gauge("listener_up", "Whether this web process hears change notices; else it polls.", hears)
    notices = HistogramMetricFamily(
        f"{PREFIX}change_notice_seconds", "From sending a change notice to hearing it in this web process.", labels=[]
    )
    _add(notices, [], here.notices)
    yield notices


def _of_boards(boards: list[BoardFigures]) -> Iterator[Metric]:
    tasks = _labelled("tasks", "Tasks on a board, by status.", [*_PLACE, "status"])
    ready = _labelled("oldest_ready_age_seconds", "How long the oldest task that may be claimed has waited.")
    lapsed = _labelled("lapsed_tasks", "Tasks whose lease has run out and that nobody has claimed again.")
    asked = _labelled("open_questions", "Questions, approvals and forms that wait for a person.")
    oldest = _labelled("oldest_question_age_seconds", "How long the oldest of them has waited.")
    claims = CounterMetricFamily(f"{PREFIX}claims", "Tasks that were claimed.", labels=_PLACE)
    lost = CounterMetricFamily(f"{PREFIX}lease_losses", "Attempts that lost their worker.", labels=[*_PLACE, "how"])
    for one in boards:
        place = [one.space, one.board]
        for status in (status for status in Status if status in one.tasks):
            tasks.add_metric([*place, str(status.value)], one.tasks[status])
        ready.add_metric(place, one.ready_s or 0.0)
        lapsed.add_metric(place, one.lapsed)
        asked.add_metric(place, one.asked)
        oldest.add_metric(place, one.asked_s or 0.0)
        claims.add_metric(place, one.counts.claims)
        for how in _LOST:
            lost.add_metric([*place, how], one.counts.lost.get(how, 0))
    yield from (tasks, ready, lapsed, asked, oldest, claims, lost)


def _of_durations(boards: list[BoardFigures]) -> Iterator[Metric]:
    told = {
        PICKUP: ("pickup_seconds", "From the moment a task may be claimed to its first claim."),
        RUN: ("run_seconds", "How long an attempt took that has ended, with what it waited for in between."),
        WAIT: ("person_wait_seconds", "How long a question waited for its answer."),
    }
    for what, (name, words) in told.items():
        family = HistogramMetricFamily(PREFIX + name, words, labels=_PLACE)
        for one in boards:
            _add(family, [one.space, one.board], one.counts.durations[what])
        yield family


def _of_debts(ledger: Ledger) -> Metric:
    debts = _labelled("debts", "What is owed after a write, and what failed for good (dead).", ["kind", "state"])
    for (kind, state), count in sorted(ledger.debts.items()):
        debts.add_metric([kind, _STATES[Debt.State(state)]], count)
    return debts


def _of_watch(watch: Watch) -> Iterator[Metric]:
    alive = _labelled("processes_alive", "Drains and sweepers that beat lately.", ["kind"])
    listening = _labelled("processes_listening", "Those of them that hear change notices; the others poll.", ["kind"])
    for kind, living in (("drain", watch.drains), ("sweeper", watch.sweepers)):
        alive.add_metric([kind], living.alive)
        listening.add_metric([kind], living.listening)
    yield from (alive, listening)
    age = float("inf") if watch.pass_age_s is None else watch.pass_age_s
    yield _gauge("sweeper_last_pass_age_seconds", "Since the last pass of a sweeper ended; +Inf: none is known.", age)
    yield _gauge("sweeper_lag_seconds", "How long the oldest thing that is due for a sweeper has waited.", watch.lag_s)


def _gauge(name: str, words: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, words, value=value)


def _labelled(name: str, words: str, labels: Iterable[str] = _PLACE) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, words, labels=list(labels))


def _add(family: HistogramMetricFamily, labels: list[str], took: Durations) -> None:
    family.add_metric(labels, buckets=took.buckets, sum_value=took.seconds)
