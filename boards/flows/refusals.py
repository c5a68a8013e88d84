"""What the flow engine refuses, beyond what `boards.errors` names already."""

from __future__ import annotations

from boards.errors import Refusal


class IllegalRunMove(Refusal):
    """The run cannot do that from where it stands."""

    code = "bad_state"


class StepFull(Refusal):
    """The step is full, and so is the one where a run would wait for it."""

    code = "step_full"


class RunMovedOn(Refusal):
    """The run has moved on meanwhile. Look at where it stands now, and decide again."""

    code = "run_moved_on"


class FlowChanged(Refusal):
    """Somebody else has saved a version of this flow meanwhile."""

    code = "flow_changed"
