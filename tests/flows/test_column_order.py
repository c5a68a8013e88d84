"""The order of the cards of a column: people put them, and nothing is run by it (spec: 05 section 2.7)."""

from __future__ import annotations

import pytest

from boards import flows
from boards.models import Event, FlowRun, StepChange, Visit
from tests.flows.cast import Stage, fresh, place, settle
from tests.flows.wip_cast import DESK, queued, standing

pytestmark = pytest.mark.django_db


@pytest.fixture
def cards(stage: Stage) -> list[FlowRun]:
    flow = stage.flow(DESK)
    made = [flows.start(stage.anna, flow, {}, name, step="backlog") for name in "ABCDE"]
    settle()
    return [fresh(run) for run in made]


def test_a_card_is_put_before_another_and_nothing_is_run(stage: Stage, cards: list[FlowRun]) -> None:
    counts = Visit.objects.count(), StepChange.objects.count()
    flows.move(stage.anna, cards[4], "backlog", before=cards[1].pk)
    assert standing(cards[0], "backlog") == list("AEBCD")
    flows.move(stage.anna, cards[0], "backlog", before=0)
    assert standing(cards[0], "backlog") == list("EBCDA")
    assert (Visit.objects.count(), StepChange.objects.count()) == counts
    assert Event.objects.filter(kind="run.ordered").count() == 2


def test_without_a_place_a_move_within_the_step_changes_nothing(stage: Stage, cards: list[FlowRun]) -> None:
    flows.move(stage.anna, cards[2], "backlog")
    assert standing(cards[0], "backlog") == list("ABCDE")
    assert not Event.objects.filter(kind="run.ordered").exists()


def test_a_move_to_another_step_may_name_its_place_there(stage: Stage, cards: list[FlowRun]) -> None:
    for run in cards[:3]:
        flows.move(stage.anna, run, "review")
    flows.move(stage.anna, cards[4], "review", before=cards[0].pk)
    assert standing(cards[0], "review") == list("EABC")
    flows.move(stage.anna, cards[4], "backlog")
    assert standing(cards[0], "backlog") == list("DE"), "a place is of the column in which it was given"


def test_the_first_of_a_line_is_who_was_put_there(stage: Stage, cards: list[FlowRun]) -> None:
    for run in cards[:4]:
        flows.move(stage.anna, run, "write")
    assert queued(cards[0], "write") == list("BCD")
    flows.move(stage.anna, cards[3], "write", before=cards[1].pk)
    assert queued(cards[0], "write") == list("DBC")
    flows.move(stage.anna, cards[0], "review")
    settle()
    assert place(cards[3]) == "write active"


def test_before_a_card_that_went_elsewhere_means_last(stage: Stage, cards: list[FlowRun]) -> None:
    flows.move(stage.anna, cards[3], "review")
    flows.move(stage.anna, cards[0], "backlog", before=cards[3].pk)
    assert standing(cards[0], "backlog") == list("BCEA")


def test_a_card_that_is_over_stands_by_its_time(stage: Stage, cards: list[FlowRun]) -> None:
    for run in cards[:2]:
        flows.move(stage.anna, run, "done")
    flows.move(stage.anna, cards[1], "done", before=cards[0].pk)
    assert not Event.objects.filter(kind="run.ordered").exists()
    assert fresh(cards[1]).position == 0
