"""What holds for every adapter: one suite, run over async functions, sync functions and programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from boards.workers.adapters import Adapter, Failed, Finished, StoppedEarly
from boards.workers.protocol import worker
from tests.waiting import until
from tests.workers.conftest import Run

# name -> what an async worker, a sync worker and a program do.
CASES: dict[str, tuple[str, str, str]] = {
    "returns": (
        "return {'said': task.goal, 'n': task.input['n']}",
        "return {'said': task.goal, 'n': task.input['n']}",
        "print(json.dumps({'said': task['goal'], 'n': task['input']['n']}))",
    ),
    "returns nothing": ("return None", "return None", "pass"),
    "fails": (
        "raise ValueError('the input has no name')",
        "raise ValueError('the input has no name')",
        "print('the input has no name', file=sys.stderr); sys.exit(3)",
    ),
    "exits": ("sys.exit(7)", "sys.exit(7)", "sys.exit(7)"),
    "speaks": (
        "await task.log('first'); await task.log('second')",
        "task.log('first'); task.log('second')",
        "print('first'); print('second')",
    ),
    "speaks badly": (
        "await task.log('a\\x00b\\ud800c')",
        "task.log('a\\x00b\\ud800c')",
        "sys.stdout.buffer.write(b'a\\x00b\\xff\\xfec\\n')",
    ),
    "waits": (
        "await task.log('waiting'); await asyncio.sleep(3600)",
        "task.log('waiting')\nwhile True: time.sleep(0.01); task.messages()",
        "print('waiting'); time.sleep(3600)",
    ),
    "goes on speaking": (
        "await task.log('on')\nwhile True: await asyncio.sleep(0.01); await task.log('and on')",
        "task.log('on')\nwhile True: time.sleep(0.01); task.log('and on')",
        "print('on')\nwhile True: time.sleep(0.01); print('and on')",
    ),
    "is told": (
        "await task.log('\\n'.join([task.feedback, *task.steers, str(task.attempt)]))",
        "task.log('\\n'.join([task.feedback, *task.steers, str(task.attempt)]))",
        "print('\\n'.join([task['feedback'], *task['messages'], str(task['attempt'])]))",
    ),
    "completes its step": (
        "await task.complete_step('all of it', handoff={'n': 1})\nreturn {'a': 1}",
        "task.complete_step('all of it', handoff={'n': 1})\nreturn {'a': 1}",
        "print('{\"a\": 1}'); print(json.dumps({'complete_step': {'summary': 'all of it', 'handoff': {'n': 1}}}))",
    ),
    "large": (
        "return {'text': 'x' * 2_000_000}",
        "return {'text': 'x' * 2_000_000}",
        "print(json.dumps({'text': 'x' * 2_000_000}))",
    ),
}


@pytest.fixture(params=["async", "sync", "program"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def adapter(kind: str, request: pytest.FixtureRequest) -> Adapter:
    return request.getfixturevalue("command_adapter" if kind == "program" else "python_adapter")


@pytest.fixture
def work(kind: str, adapter: Adapter, begin: Callable[..., Run]) -> Callable[..., Run]:
    """Run one of the cases on the adapter: `work("returns", goal="…")`."""

    def start(case: str, **facts: Any) -> Run:
        as_async, as_sync, as_program = CASES[case]
        if kind == "program":
            code = "import json, sys, time\ntask = json.load(sys.stdin)\n" + as_program
            return begin(adapter, {"argv": ["{python}", "-c", code]}, **facts)
        prefix, body = ("async ", as_async) if kind == "async" else ("", as_sync)
        names: dict[str, Any] = {}
        exec(f"import asyncio, sys, time\n{prefix}def function(task):\n" + textwrap.indent(body, "    "), names)
        worker(f"case: {case}")(names["function"])
        return begin(adapter, {"worker": f"case: {case}"}, **facts)

    return start


def test_what_a_worker_returns_is_its_output(work: Callable[..., Run]) -> None:
    assert work("returns", goal="Grüße 👋", input={"n": 1}).ending() == Finished({"said": "Grüße 👋", "n": 1})


def test_a_worker_may_end_without_a_result(work: Callable[..., Run]) -> None:
    ending = work("returns nothing").ending()
    assert isinstance(ending, Finished)
    assert ending.output is None


def test_a_failure_is_a_sentence_with_its_cause(work: Callable[..., Run]) -> None:
    ending = work("fails").ending()
    assert isinstance(ending, Failed)
    assert "the input has no name" in ending.error


def test_an_exit_fails_the_task_and_not_the_drain(work: Callable[..., Run]) -> None:
    ending = work("exits").ending()
    assert isinstance(ending, Failed)
    assert "7" in ending.error


def test_lines_arrive_in_order(work: Callable[..., Run]) -> None:
    run = work("speaks")
    run.ending()
    assert run.port.said == ["first", "second"]


def test_broken_text_reaches_the_port_as_text(work: Callable[..., Run]) -> None:
    run = work("speaks badly")
    assert isinstance(run.ending(), Finished)
    assert len(run.port.said) == 1
    assert run.port.said[0].startswith("a")
    assert run.port.said[0].endswith("c")


def test_the_word_that_a_step_is_complete_reaches_the_port_and_is_no_output(work: Callable[..., Run]) -> None:
    run = work("completes its step")
    assert run.ending() == Finished({"a": 1})
    assert run.port.signals == [("all of it", {"n": 1}, None)]


def test_a_line_arrives_while_the_worker_runs(work: Callable[..., Run]) -> None:
    run = work("waits")
    until(lambda: run.port.said == ["waiting"])
    assert run.endings.empty()
    run.running.kill()
    run.ending()


def test_a_cancel_stops_the_worker(work: Callable[..., Run]) -> None:
    run = work("waits")
    until(lambda: run.port.said)
    run.running.cancel()
    assert run.ending() == StoppedEarly()  # long before it would have ended by itself


def test_a_cancel_before_the_start_stops_it_as_well(work: Callable[..., Run]) -> None:
    run = work("waits")
    run.running.cancel()
    assert run.ending() == StoppedEarly()


def test_a_worker_whose_attempt_is_over_says_no_more_and_ends_at_the_cancel(work: Callable[..., Run]) -> None:
    run = work("goes on speaking")
    until(lambda: run.port.said)
    run.port.over = True
    run.running.cancel()
    assert run.ending() == StoppedEarly()


def test_the_end_is_told_once_and_later_signals_do_nothing(work: Callable[..., Run]) -> None:
    run = work("returns nothing")
    run.ending()
    run.running.cancel()
    run.running.kill()
    run.running.cancel()
    assert run.endings.empty()


def test_a_worker_reads_feedback_messages_and_attempt(work: Callable[..., Run]) -> None:
    run = work("is told", feedback="Be short.", steers=["Use the new name."], attempt=2)
    run.ending()
    assert "\n".join(run.port.said) == "Be short.\nUse the new name.\n2"


def test_a_large_result_is_handed_on(work: Callable[..., Run]) -> None:
    ending = work("large").ending()
    assert isinstance(ending, Finished)
    assert len(json.dumps(ending.output)) > 1_000_000


def test_many_workers_run_at_once(work: Callable[..., Run]) -> None:
    runs = [work("returns", input={"n": n}) for n in range(8)]
    assert [run.ending().output["n"] for run in runs] == list(range(8))


def test_what_does_not_exist_fails_at_once_in_a_sentence(
    kind: str, adapter: Adapter, begin: Callable[..., Run]
) -> None:
    config = {"argv": ["no-such-program-here"]} if kind == "program" else {"worker": "no such worker"}
    assert not adapter.can_run(config)
    ending = begin(adapter, config).ending()
    assert isinstance(ending, Failed)
    assert "no" in ending.error
    assert ending.error.endswith(".")


def test_an_entry_that_names_nothing_fails_in_a_sentence(adapter: Adapter, begin: Callable[..., Run]) -> None:
    assert not adapter.can_run({})
    ending = begin(adapter, {}).ending()
    assert isinstance(ending, Failed)
