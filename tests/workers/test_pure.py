"""The pure parts: the idle question, plain JSON, replayed answers, what an ending means, the registry."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest

from boards.models import Hold
from boards.states import HoldState
from boards.workers import plain_json
from boards.workers.idle import Reason, Standing, Verdict, reason, verdict, words
from boards.workers.protocol import (
    Answer,
    Ask,
    ReplayMismatch,
    Suspended,
    SuspensionTimeout,
    SyncWorkerTask,
    TaskFacts,
    worker,
)
from boards.workers.replay import Replay, answer_of
from tests.workers.conftest import RecordingPort

GO, DRAINED, BLOCKED = Verdict.GO_ON, Verdict.DRAINED, Verdict.BLOCKED


@pytest.mark.parametrize(
    ("standing", "complete", "complete_or_blocked", "wait"),
    [
        (Standing(moving=1), GO, GO, GO),
        (Standing(moving=1, waiting=3), GO, GO, GO),
        (Standing(), DRAINED, DRAINED, GO),
        (Standing(waiting=1), GO, BLOCKED, GO),
    ],
)
def test_the_idle_question(standing: Standing, complete: Verdict, complete_or_blocked: Verdict, wait: Verdict) -> None:
    assert verdict("complete", standing) == complete
    assert verdict("complete-or-blocked", standing) == complete_or_blocked
    assert verdict("wait", standing) == wait


@pytest.mark.parametrize(
    ("verdicts", "standings", "spent", "expected"),
    [
        ([DRAINED], [Standing()], False, Reason.ALL_COMPLETED),
        ([DRAINED, BLOCKED], [Standing()], False, Reason.BLOCKED_BY_FAILURES),
        ([GO], [Standing()], True, Reason.MAX_ITERATIONS),
        ([BLOCKED], [Standing(denied=1)], True, Reason.RETRY_BUDGET_EXHAUSTED),
    ],
)
def test_the_reason_of_an_ended_pass(verdicts: Any, standings: Any, spent: bool, expected: Reason) -> None:
    assert reason(verdicts, standings, spent=spent) == expected


def test_counts_are_words() -> None:
    standings = [Standing(statuses={"completed": 2, "errored": 1}), Standing(statuses={"completed": 1})]
    assert words(standings) == "4 tasks: 3 Done, 1 Stuck"
    assert words([Standing()]) == "0 tasks"


@pytest.mark.parametrize("value", [None, True, 1, -1.5, "text", [], {}, {"a": [1, {"b": None}]}, "\x00\ud800"])
def test_plain_json_has_no_problem(value: Any) -> None:
    assert plain_json.problem(value, "input") == ""


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (float("nan"), "input is nan"),
        ({"a": [1, float("inf")]}, "input.a[1] is inf"),
        ({"when": datetime.date(2026, 1, 1)}, "input.when is a date"),
        ((1, 2), "input is a tuple"),
        ({"s": {1}}, "input.s is a set"),
        ({1: "a"}, "input has the key 1"),
        ([b"bytes"], "input[0] is a bytes"),
    ],
)
def test_a_problem_is_named_by_its_place(value: Any, place: str) -> None:
    assert place in plain_json.problem(value, "input")


def test_a_number_that_cannot_be_written_is_a_problem() -> None:
    assert "more digits" in plain_json.problem([1 << 20_000], "input")


def test_endless_nesting_is_a_problem_and_no_crash() -> None:
    value: list[Any] = []
    value.append(value)
    assert "levels deep" in plain_json.problem(value, "input")


def asked(key: str = "#1", state: str = HoldState.ANSWERED, **fields: Any) -> Hold:
    fields = {"kind": "question", "prompt": "Which?", "attempt": 1, "answer": {"choice": "a", "text": ""}, **fields}
    return Hold(dedup_key=key, state=state, **fields)


def test_a_question_without_a_key_is_known_by_its_order() -> None:
    replay = Replay.of([asked("#1"), asked("#2", prompt="Why?")], attempt=1)
    for prompt in ("Which?", "Why?"):
        ask = Ask("question", prompt)
        found = replay.find(ask, replay.key_of(ask))
        assert found is not None
        assert found.prompt == prompt


@pytest.mark.parametrize(
    "ask",
    [
        Ask("question", "Other?"),
        Ask("confirm", "Which?"),
        Ask("question", "Which?", options=["a", "b"]),
        Ask("question", "Which?", draft="text"),
        Ask("question", "Which?", schema={"type": "object"}),
    ],
)
def test_another_question_in_its_place_is_a_mismatch_that_names_both(ask: Ask) -> None:
    replay = Replay.of([asked()], attempt=1)
    with pytest.raises(ReplayMismatch, match=re.escape("replay_mismatch: the worker asked question “Which?”")):
        replay.find(ask, replay.key_of(ask))


def test_a_key_is_enough_where_the_kind_agrees() -> None:
    replay = Replay.of([asked("name")], attempt=1)
    assert replay.find(Ask("question", "Which one, on Monday?", key="name"), "name") is not None
    with pytest.raises(ReplayMismatch):
        replay.find(Ask("approval", "Which?", key="name"), "name")


@pytest.mark.parametrize(
    ("hold", "taken"),
    [
        (asked("name"), True),
        (asked("name", prompt="Other?"), False),
        (asked("name", state=HoldState.EXPIRED), False),
        (asked("name", kind="approval"), False),
    ],
)
def test_a_new_attempt_takes_over_answers_to_the_same_questions_only(hold: Hold, taken: bool) -> None:
    ask = Ask(hold.kind, "Which?", key="name")  # type: ignore[arg-type]
    assert (Replay.of([hold], attempt=2).find(ask, "name") is not None) == taken


@pytest.mark.parametrize(
    ("state", "answer", "cancelled", "expired", "approved"),
    [
        (HoldState.ANSWERED, {"choice": "approve"}, False, False, True),
        (HoldState.ANSWERED, {"choice": "reject"}, False, False, False),
        (HoldState.EXPIRED, {"choice": "reject"}, False, True, False),
        (HoldState.DISCARDED, None, True, False, False),
    ],
)
def test_only_a_persons_yes_is_a_yes(state: str, answer: Any, cancelled: bool, expired: bool, approved: bool) -> None:
    found = answer_of(asked(state=state, kind="approval", answer=answer))
    assert found is not None
    assert (found.cancelled, found.expired, found.approved) == (cancelled, expired, approved)
    assert answer_of(asked(state=HoldState.OPEN, answer=None)) is None


def sync_task(port: RecordingPort) -> SyncWorkerTask:
    return SyncWorkerTask(TaskFacts("t1", "goal"), port)


def test_an_open_question_stops_the_worker_even_inside_its_own_handlers(port: RecordingPort) -> None:
    def body() -> str:
        try:
            sync_task(port).suspend_for_user(prompt="Which?")
        except Exception:
            return "swallowed"
        return "answered"

    with pytest.raises(Suspended):
        body()


def test_a_review_that_nobody_answered_raises_and_an_approval_reads_as_a_no(port: RecordingPort) -> None:
    port.answers = {"r": Answer("review", "r", expired=True), "a": Answer("approval", "a", "reject", expired=True)}
    with pytest.raises(SuspensionTimeout):
        sync_task(port).suspend_for_user("review", prompt="Is it right?", key="r")
    assert not sync_task(port).suspend_for_user("approval", prompt="Go?", key="a").approved


def test_an_approved_draft_is_sent_once_and_a_refused_one_never(port: RecordingPort) -> None:
    sent: list[Any] = []
    yes = Answer("gate", "mail", "send", draft={"to": "all"})
    task = sync_task(port)
    for _ in range(2):
        task.send(yes, sent.append)
    assert sent == [{"to": "all"}]
    with pytest.raises(PermissionError):
        task.send(Answer("gate", "other", "discard", draft={}), sent.append)


def test_a_name_belongs_to_one_worker(registered: None) -> None:
    @worker("twice")
    def first(task: Any) -> None: ...

    with pytest.raises(ValueError, match="Two workers are called 'twice'"):

        @worker("twice")
        def second(task: Any) -> None: ...

    with pytest.raises(ValueError, match="needs a name"):
        worker(" ")(lambda task: None)
