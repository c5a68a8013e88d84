"""Pays what a step that is left or has failed owes: whatever of it still works is ended (spec: 05 section 2.11).

A called run is cancelled first, then the visit's open branches with their tasks and questions. Safe to repeat.
"""

from __future__ import annotations

from boards import people, tasks
from boards.actors import Chain, service
from boards.debts.kinds import pays
from boards.flows import branches, cancelling, failing, runs
from boards.models import Branch, Debt, Task, Visit
from boards.states import TERMINAL, RunStatus, Verb
from boards.tasks import Options, Settlement


@pays("visit_clear")
def pay_visit_clear(debt: Debt) -> bool:
    """End what the visit has at work; False while there is more than one transaction may lock."""
    visit = Visit.objects.filter(pk=int(debt.data["visit"])).select_related("run__flow").first()
    if visit is None:
        return True
    chain = service("flows", visit.run.flow.space_id)
    child = visit.child_runs.filter(status=RunStatus.ACTIVE).order_by("pk").first()
    if child is not None:
        cancelling.cancel_called(
            chain, child.pk, f"The run “{visit.run.name}”, which called this one, went on or ended."
        )
        return False
    runs.lock(visit.run_id)
    return _clear(chain, visit, debt.data["cause"], debt.data["words"])


def _clear(chain: Chain, visit: Visit, cause: str, words: str) -> bool:
    """First the tasks; the questions in a transaction of their own, since the endings' debts are locked behind them."""
    rows = list(visit.branches.filter(outcome=""))
    if cause == failing.CAUSE:  # the failure steps come after what has failed
        rows = [branch for branch in rows if branch.role != Branch.Role.FAILURE]
    working = [branch for branch in rows if branch.task_id is not None]
    if working:
        for branch in working:
            branches.end(branch, "cancelled", error=words)
        live = Task.objects.filter(pk__in=[b.task_id for b in working if b.task_id]).exclude(
            status__in=sorted(TERMINAL)
        )
        keys = list(live.order_by("pk").values_list("pk", flat=True))
        tasks.settle_many([_settlement(chain, key, cause, words) for key in keys])
        return False
    for branch in rows:
        branches.end(branch, "cancelled", error=words)
    if rows:
        people.discard_visit_holds(chain, visit.pk, words, branches=[branch.pk for branch in rows])
    return True


def _settlement(chain: Chain, key: int, cause: str, words: str) -> Settlement:
    options = Options(advisory=True)
    return Settlement(Verb.CANCEL, chain, key, options, text=words, via="flow", cause=cause, cancel_filed=True)
