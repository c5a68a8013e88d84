"""Export, import, export: the same text, for flows of every kind with any texts in them (spec: 05 section 6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings

from boards.flows import exporting, importing, library
from boards.flows.validation import validate
from boards.models import Flow, FlowVersion
from tests.flows.cast import Stage
from tests.flows.generated import documents

pytestmark = pytest.mark.django_db
LOOK = settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@LOOK
@given(told=documents())
def test_what_is_exported_comes_back_as_the_same_text(stage: Stage, told: dict[str, Any]) -> None:
    flow = validate(exporting.written(told))
    for kind in {step.kind for step in flow.steps}:
        event(kind)
    for form in exporting.FORMATS:
        Flow.objects.all().delete()
        stage.flow("{key: elsewhere, name: Elsewhere to be called, steps: [{key: done, name: Done}]}")
        text = exporting.exported([flow], form)
        assert importing.import_flows(stage.olga, stage.space, text, stage.board).saved
        stored = library.newest(stage.space, flow.key)
        import difflib

        print("\n".join(difflib.unified_diff(text.splitlines(), exporting.exported([stored], form).splitlines())))
        assert exporting.exported([stored], form) == text
        library.save_version(stage.olga, stage.space, None, flow)
        assert FlowVersion.objects.filter(flow__key=flow.key).count() == 1, "the same again is no new version"
