"""Values that no row may hold, since whoever reads beside it would stop, and tags that no reader expects."""

from __future__ import annotations

import pytest

from boards import flows
from boards.errors import InvalidFlow, InvalidInput
from boards.flows.validation import validate
from boards.models import Board
from tests.flows.cast import Stage, fresh, place
from tests.flows.kinds_cast import started

pytestmark = pytest.mark.django_db

STEPS = "- {key: pause, name: Pause, kind: wait, until: '{{ input.moment }}'}"


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.mark.parametrize(
    "moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "\ud800", "tomorrow", "2030-01-01T00:00:00"]
)
def test_a_wait_until_no_moment_that_can_be_kept_fails_its_step(stage: Stage, moment: str) -> None:
    run = started(stage, STEPS.replace("{{ input.moment }}", moment.encode("unicode_escape").decode()))
    assert place(run) == "pause failed"
    assert fresh(run).error


def test_an_odd_offset_is_the_moment_that_it_means(stage: Stage) -> None:
    run = started(stage, STEPS.replace("{{ input.moment }}", "2030-01-02T00:00:00+23:59"))
    assert fresh(run).current_visit.due_at.isoformat() == "2030-01-01T00:01:00+00:00"


def test_on_a_board_that_keeps_rows_apart_no_run_is_started(stage: Stage) -> None:
    run = started(stage, "- {key: pause, name: Pause, kind: wait, duration_ms: 1000}")
    Board.objects.filter(pk=run.flow.board_id).update(partition_by="user")
    with pytest.raises(InvalidInput, match="keeps everybody's rows apart"):
        flows.start(stage.anna, fresh(run).flow, {})


@pytest.mark.parametrize(
    "value", ['!!int ""', '!!int "-"', '!!float "_"', '!!bool "foo"', '!!timestamp "foo"', "0x" + "f" * 5000]
)
def test_a_tag_that_does_not_fit_is_a_problem_with_its_line(value: str) -> None:
    with pytest.raises(InvalidFlow, match="line 2"):
        validate(f"key: it\nname: {value}\nsteps: [{{key: a, name: A}}]")
