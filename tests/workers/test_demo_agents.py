"""The demo's agents: what people say to them is never thrown away, and they say what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from boards.workers.adapters import EndedForGood, Finished
from boards.workers.adapters.python import PythonAdapter
from boards.workers.builtin import demo_agents
from boards.workers.protocol import WORKERS, Answer
from tests.workers.conftest import RecordingPort, Run

SECTIONS = [{"head": "What is new", "text": "Charts work offline."}]
ASK = {
    "title": "Which headline?",
    "prompt": "Which one?",
    "options": [{"value": "offline", "label": "It works offline"}, {"value": "fast", "label": "It is fast"}],
}


@pytest.fixture
def hand_in(
    python_adapter: PythonAdapter, begin: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """What an agent hands in, worked without waiting."""
    monkeypatch.setattr(demo_agents, "PACE_S", 0)

    def work(agent: str, **facts: Any) -> Any:
        assert agent in WORKERS
        ending = begin(python_adapter, {"worker": agent}, **facts).ending()
        assert isinstance(ending, Finished), ending
        return ending.output

    return work


def test_a_text_that_is_sent_back_is_kept_and_the_words_are_quoted(hand_in: Callable[..., Any]) -> None:
    first = hand_in("demo.writer", input={"text": "# From 2.3 to 2.4\n\nUpdate as usual."})["markdown"]
    again = hand_in(
        "demo.writer", input={"text": "# From 2.3 to 2.4\n\nUpdate as usual."}, feedback="Name the menu.\n\nPlease."
    )
    assert again["markdown"].startswith(first + "\n\n## What it was told")
    assert again["markdown"].endswith("> Name the menu.\n>\n> Please.")


def test_sections_are_kept_too_and_messages_count_as_words(hand_in: Callable[..., Any], port: RecordingPort) -> None:
    port.waiting = ["Mention the price"]
    text = hand_in("demo.writer", input={"sections": SECTIONS}, feedback="Shorter", steers=["And friendlier"])
    assert text["markdown"].startswith("## What is new\n\nCharts work offline.\n\n")
    assert text["markdown"].endswith("> Shorter\n\n> And friendlier\n\n> Mention the price")


@pytest.mark.parametrize(
    ("answer", "head", "end"),
    [
        (("offline", ""), "# It works offline\n", "Charts work offline."),
        (("offline", "But shorter"), "# It works offline\n", "> But shorter"),
        (("", "Tides for all"), "# Tides for all\n", "Charts work offline."),
    ],
)
def test_the_headline_is_what_was_chosen_and_words_come_with_it(
    hand_in: Callable[..., Any], port: RecordingPort, answer: tuple[str, str], head: str, end: str
) -> None:
    port.answers["first"] = Answer("question", "first", *answer)
    text = hand_in("demo.writer", input={"sections": SECTIONS, "ask": ASK})["markdown"]
    assert text.startswith(head)
    assert text.endswith(end)


def test_a_question_that_is_dismissed_ends_the_task(
    python_adapter: PythonAdapter, begin: Callable[..., Run], port: RecordingPort
) -> None:
    port.answers["first"] = Answer("question", "first", cancelled=True)
    run = begin(python_adapter, {"worker": "demo.writer"}, input={"sections": SECTIONS, "ask": ASK})
    assert isinstance(run.ending(), EndedForGood)


@pytest.mark.parametrize("agent", ["demo.reader", "demo.writer"])
def test_a_task_without_a_script_is_outlined_by_one_who_says_what_it_is(
    hand_in: Callable[..., Any], port: RecordingPort, agent: str
) -> None:
    goal = "Count the tide gauges. Write the number down.\n- Tell Anna"
    text = hand_in(agent, goal=goal, context="There are some at sea.", feedback="In a table")["markdown"]
    assert text.startswith("# Count the tide gauges.\n\nThis was handed in by the demo's scripted agent.")
    assert "> Count the tide gauges. Write the number down.\n> - Tell Anna" in text
    assert "> There are some at sea." in text
    assert "1. Count the tide gauges.\n2. Write the number down.\n3. Tell Anna" in text
    assert text.endswith("> In a table")
    assert [note for _, note in port.reports] == list(port.steps), "each step is shown on the card"
    assert len(port.reports) == 5


def test_the_reader_keeps_its_remarks_and_the_words(hand_in: Callable[..., Any]) -> None:
    given = {"pages": ["one", "two"], "remarks": {"two": "old"}}
    assert hand_in("demo.reader", input=given) == {"read": 2, "remarks": ["two: old"]}
    again = hand_in("demo.reader", input=given, feedback="Look again")
    assert again == {"read": 2, "remarks": ["two: old"], "was told": ["Look again"]}
