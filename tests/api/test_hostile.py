"""Whatever is sent, the answer is a problem that says what was wrong; never a fault of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from boards.api.bodies import MAX_BODY
from boards.models import CallCount, Task
from tests.api.cast import EVERYTHING, Answered, Desk
from tests.api.work_cast import Worker, put_outside, work_of

pytestmark = pytest.mark.django_db

RAW: dict[str, bytes] = {
    "no JSON": b"{goal: x}",
    "half of it": b'{"goal": "x"',
    "no text": b"\xff\xfe\x00\x01",
    "a list": b'["goal"]',
    "a text": b'"goal"',
    "null": b"null",
    "NaN": b'{"goal": "x", "input": {"n": NaN}}',
    "infinity": b'{"goal": "x", "input": {"n": 1e999}}',
    "a number of 5,000 digits": b'{"goal": "x", "priority": ' + b"9" * 5_000 + b"}",
    "a number of 400 digits inside": b'{"goal": "x", "input": {"n": ' + b"9" * 400 + b"}}",
    "a fraction of 5,000 digits": b'{"goal": "x", "input": {"n": 0.' + b"9" * 5_000 + b"}}",
    "100,000 lists deep": b'{"goal": "x", "input": {"n": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "100 lists deep": b'{"goal": "x", "input": {"n": ' + b"[" * 100 + b"]" * 100 + b"}}",
    "10 MB": b'{"goal": "' + b"x" * 10_000_000 + b'"}',
    "a goal that is too long": json.dumps({"goal": "x" * 300_000}).encode(),
    "an input over a megabyte": json.dumps({"goal": "x", "input": {"t": "y" * 1_100_000}}).encode(),
}


def is_told(answer: Answered) -> bool:
    kind = answer.headers["Content-Type"]
    return 400 <= answer.status < 500 and kind == "application/problem+json" and bool(answer.code and answer.detail)


@pytest.mark.parametrize("what", RAW)
def test_a_body_that_cannot_be_read_is_refused(desk: Desk, what: str) -> None:
    answer = desk.by_key("file")("POST", "/boards/desk/tasks", raw=RAW[what])
    assert is_told(answer), (answer.status, answer.body)


def test_a_body_is_not_read_beyond_its_limit_whatever_it_says_of_itself(desk: Desk) -> None:
    answer = desk.by_key("file")("POST", "/boards/desk/tasks", raw=b" " * (MAX_BODY + 1))
    assert (answer.status, answer.code) == (413, "too_large")


def test_a_body_that_is_no_json_by_its_type_is_refused(desk: Desk) -> None:
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"):
        answer = desk.by_key("file")("POST", "/boards/desk/tasks", raw=b'{"goal": "x"}', content_type=kind)
        assert (answer.status, answer.code) == (415, "not_json")


def test_signs_that_no_database_stores_are_replaced(desk: Desk) -> None:
    caller = desk.by_key("read", "file")
    raw = b'{"goal": "a\\u0000b\\ud800c", "input": {"k\\u0000": "\\udfff"}, "labels": ["\\u0000x"]}'
    told = caller("POST", "/boards/desk/tasks", raw=raw).body["task"]
    assert (told["goal"], told["input"], told["labels"]) == ("a\ufffdb\ufffdc", {"k\ufffd": "\ufffd"}, ["\ufffdx"])


@pytest.mark.parametrize(
    "path",
    [
        "/boards/%00/tasks",
        "/boards/desk/tasks/%00",
        "/boards/desk/tasks/%ed%a0%80",
        "/boards/999999999999999999999999999/tasks",
        "/boards/²/tasks",
        "/holds/%00",
        "/holds/99999999999999999999999999",
        "/holds/-1",
        "/holds/²",
        "/flows/%00/runs",
        "/flows/x/runs/99999999999999999999999",
        "/flows/x/runs/one",
        "/boards/desk/tasks?limit=0",
        "/boards/desk/tasks?limit=99999999999999999999999",
        "/boards/desk/tasks?limit=" + "9" * 5_000,
        "/boards/desk/tasks?cursor=%00",
        "/boards/desk/tasks?cursor=" + "A" * 499,
        "/boards/desk/tasks?cursor=OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5",
        "/waiting?cursor=wrrCug",
        "/boards?cursor=" + "A" * 9,
        "/nothing/here",
        "/",
    ],
)
def test_an_odd_address_is_told(desk: Desk, path: str) -> None:
    assert is_told(desk.by_key(*EVERYTHING)("GET", path))


@pytest.mark.parametrize(
    "path", ["/boards/desk/tasks?text=%00", "/waiting?text=%00&board=%00", "/boards/desk/tasks?label=%ff"]
)
def test_an_odd_filter_finds_nothing(desk: Desk, path: str) -> None:
    assert desk.by_key(*EVERYTHING)("GET", path).status == 200


def test_odd_headers_are_told(desk: Desk) -> None:
    caller = desk.by_key(*EVERYTHING)
    for key in ("k" * 300, "\x80" * 201):
        assert is_told(caller("POST", "/boards/desk/tasks", {"goal": "x"}, key=key))
    assert caller("POST", "/boards/desk/tasks", {"goal": "x"}, key="\xff\xfe").status == 201
    for header in ("Bearer", "Bearer ", "Basic x", "Bearer " + "x" * 100_000, "Bearer ork_\x80\xff", "ork_" + "x" * 43):
        assert caller("GET", "/boards", Authorization=header).code == "key_refused"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "QUERY"])
def test_other_methods_are_told_which_there_are(desk: Desk, method: str) -> None:
    answer = desk.by_key(*EVERYTHING)(method, "/boards/desk/tasks")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, POST")


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    *("goal", "title", "input", "labels", "metadata", "priority", "due_at", "deps", "holds", "held", "status"),
    *("message", "choice", "text", "values", "shown_hash", "inputs", "name", "step", "visit", "words", "reason", "x"),
)
NAMES = st.sampled_from(FIELDS)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.dictionaries(NAMES, ANY_JSON, max_size=4))
def test_whatever_is_said_is_done_or_told(desk: Desk, body: dict[str, Any]) -> None:
    caller = desk.by_key(*EVERYTHING)
    if not hasattr(desk, "there"):
        checked = desk.handed_in()
        hold = desk.asked()
        desk.run()
        desk.there = [  # type: ignore[attr-defined]
            ("POST", "/boards/desk/tasks"),
            ("PATCH", f"/boards/desk/tasks/{desk.filed().public_id}"),
            ("POST", f"/boards/desk/tasks/{checked.public_id}/send_back"),
            ("POST", f"/holds/{hold.pk}/answer"),
            ("POST", "/flows/cards/runs"),
            ("POST", "/flows/cards/runs/1/move"),
        ]
    CallCount.objects.all().delete()
    for method, path in desk.there:  # type: ignore[attr-defined]
        answer = caller(method, path, raw=json.dumps(body).encode())
        assert answer.status < 500, (path, body, answer.body)
        assert answer.status < 300 or is_told(answer), (path, body, answer.body)


WORK_FIELDS = (
    *("items", "note", "output", "kind", "prompt", "title", "options", "schema", "draft", "due_in_ms", "default"),
    *("assignee", "key", "error", "ending", "reason", "part", "spend", "lease_ms", "task", "ticket", "x", "host"),
    *("filing", "summary", "handoff", "blockers"),
    *("assignees", "limit", "wait_s", "board"),
)
WORK_VERBS = (
    *("claim", "start", "renew", "output", "progress", "ask", "file_task", "complete_step"),
    *("suspend", "complete", "fail", "hand_back", "spend"),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.dictionaries(st.sampled_from(WORK_FIELDS), ANY_JSON, max_size=4))
def test_whatever_an_outside_worker_says_is_done_or_told(desk: Desk, body: dict[str, Any]) -> None:
    if not hasattr(desk, "worker"):
        put_outside(desk.board)
        desk.worker = Worker(desk)  # type: ignore[attr-defined]
    worker: Worker = desk.worker  # type: ignore[attr-defined]
    CallCount.objects.all().delete()
    for verb in WORK_VERBS:
        work_of(desk)
        ticket = {} if verb == "claim" else {"ticket": worker.begins()}
        said = ({"board": "desk"} if verb == "claim" else ticket) | {k: v for k, v in body.items() if k != "wait_s"}
        answer = worker.call("POST", f"/work/{verb}", raw=json.dumps(said).encode())
        assert answer.status < 500, (verb, said, answer.body)
        assert answer.status < 300 or is_told(answer), (verb, said, answer.body)
        Task.objects.all().delete()
