"""Flows with limits, and what their boards look like: who stands in a step, and who waits for it."""

from __future__ import annotations

from boards.flows import column_order
from boards.models import FlowRun

# People move the cards; the desk writes one at a time.
DESK = """
key: desk
name: Desk
style: board
steps:
  - {key: backlog, name: Backlog}
  - key: write
    name: Write
    is_start_step: true
    wip_limit: 1
    events:
      on_enter: [{type: set_data, data: {entered: "{{ (data.entered if 'entered' in data else '') ~ 'w' }}"}}]
      on_exit: [{type: set_data, data: {left: "{{ (data.left if 'left' in data else '') ~ 'w' }}"}}]
  - {key: review, name: Review}
  - {key: done, name: Done}
"""

# As above, but what finds no place waits in the backlog, which holds two.
FED = """
key: fed
name: Fed
style: board
steps:
  - {key: backlog, name: Backlog, wip_limit: 2}
  - {key: write, name: Write, is_start_step: true, wip_limit: 1, pull_from: backlog}
  - {key: review, name: Review}
  - {key: done, name: Done}
"""

# Agents work it, one at a time, and it moves by itself.
LINE = """
key: line
name: Line
steps:
  - {key: write, name: Write, kind: agent, assignee: writer, prompt: Go., wip_limit: 1}
  - {key: done, name: Done}
"""


def standing(run: FlowRun, key: str) -> list[str]:
    """The names of the runs that take a place of a step, in the order of its column."""
    rows = FlowRun.objects.filter(flow=run.flow_id, step_key=key, status__in=["active", "failed"], archived_at=None)
    return list(rows.order_by(*column_order.IN_STEP).values_list("name", flat=True))


def queued(run: FlowRun, key: str) -> list[str]:
    """The names of the runs that wait for a place of a step, the first in line first."""
    rows = FlowRun.objects.filter(flow=run.flow_id, queued_step=key, archived_at=None)
    return list(rows.order_by(*column_order.QUEUED).values_list("name", flat=True))
