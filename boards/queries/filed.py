"""What a task that handed in still waits for: the open tasks that it filed in that turn (spec: 03 section 4.5).

Reads only, for words on a card and a page; what really keeps it open is the engine's to say (`tasks.filed_work`).
"""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from boards.models import Attempt, Task, TaskDep
from boards.states import TERMINAL


def waited_for(key: Any, root: Any) -> QuerySet[Task]:
    """Open tasks that `key` filed on its open attempt, in their order; none that waits for it or its chain (`root`).

    Both are values, or what a query over tasks refers to.
    """
    began = Attempt.objects.filter(task=OuterRef("filed_by_task"), ended_at=None).values("started_at")
    behind = TaskDep.objects.filter(dependent=OuterRef("pk"), dependency=OuterRef("filed_by_task")).values("pk")
    filed = Task.objects.filter(filed_by_task=key, created_at__gte=Subquery(began)).exclude(status__in=sorted(TERMINAL))
    return filed.annotate(behind=Subquery(behind[:1])).filter(behind=None).exclude(follow_up_of=root).order_by("pk")
