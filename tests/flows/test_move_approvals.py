"""A transition that requires an approval asks first; a quorum lets several persons decide it (spec: 05)."""

from __future__ import annotations

import pytest

from boards import errors, flows, people
from boards.actors import Chain
from boards.models import Hold, Role, Vote
from boards.states import Phase
from tests import cast
from tests.flows.cast import Stage, fresh, history, place, settle
from tests.flows.kinds_cast import events, output, started, work
from tests.racing import at_once

pytestmark = pytest.mark.django_db


def flow(quorum: str = "", more: str = "") -> str:
    told = f", quorum: {quorum}" if quorum else ""
    return f"""
    - key: write
      name: Write
      kind: agent
      assignee: writer
      prompt: Write.
      events:
        on_turn_complete:
          - {{type: set_data, data: {{done: "yes"}}}}
          - {{type: move_to_step, step: publish, requires_approval: true{told}}}
    - {{key: publish, name: Publish, kind: agent, assignee: writer, prompt: Publish.}}
    """


def asked() -> Hold:
    return Hold.objects.get(state="open")


def vote(stage: Stage, chain: Chain, choice: str, text: str = "") -> Hold:
    hold = asked()
    told = people.answer_hold(chain, hold.pk, choice=choice, text=text, shown_hash=hold.draft_hash)
    settle()
    return told


def test_the_move_waits_for_a_yes_and_shows_what_was_handed_in(stage: Stage) -> None:
    run = started(stage, flow())
    work(stage, "Write", {"text": "Words"})
    visit = fresh(run).current_visit
    assert visit is not None
    assert (place(run), visit.phase) == ("write active", Phase.WAITING)
    hold = asked()
    assert (hold.kind, hold.prompt, hold.draft) == (
        "approval",
        f"May “{run.name}” move from Write to Publish?",
        {"text": "Words"},
    )
    assert fresh(run).data == {"done": "yes"}, "side effects always run"
    vote(stage, stage.anna, "approve")
    assert place(run) == "publish active"
    assert history(run)[-1] == "write > publish (approval, Anna)"
    assert output(run, "write") == {"text": "Words"}


def test_a_no_leaves_the_run_where_it_stands_for_a_person(stage: Stage) -> None:
    run = started(stage, flow())
    work(stage, "Write")
    vote(stage, stage.anna, "reject", "Not yet.")
    visit = fresh(run).current_visit
    assert visit is not None
    assert (place(run), visit.phase) == ("write active", Phase.WAITING)
    assert events(run, "step.waiting")[-1].data["why"] == "rejected"


def test_marking_complete_asks_too(stage: Stage) -> None:
    run = started(stage, flow())
    work(stage, "Write")
    vote(stage, stage.anna, "reject", "Not yet.")
    flows.mark_complete(stage.anna, fresh(run))
    assert place(run) == "write active", "no gate opens by itself"
    vote(stage, stage.anna, "approve")
    assert place(run) == "publish active"
    assert Hold.objects.count() == 2


def test_a_move_by_hand_closes_the_question(stage: Stage) -> None:
    run = started(stage, flow())
    work(stage, "Write")
    flows.move(stage.anna, fresh(run), "publish")
    assert place(run) == "publish active"
    assert Hold.objects.get().state == "discarded"


@pytest.fixture
def crew(stage: Stage) -> list[Chain]:
    """Anna, Bo and Cleo, who are members; Olga is an operator."""
    return [stage.anna, *(cast.chain_of(cast.make_member(stage.space, name)) for name in ("bo", "cleo"))]


def test_all_have_to_say_yes_and_the_latest_word_of_each_counts(stage: Stage, crew: list[Chain]) -> None:
    anna, bo, cleo = crew
    run = started(stage, flow("{role: members, threshold: all_approve}"))
    work(stage, "Write")
    vote(stage, anna, "approve")
    assert vote(stage, bo, "reject", "Hm.").state == "open"
    assert vote(stage, bo, "approve").state == "open"
    assert place(run) == "write active"
    decided = vote(stage, cleo, "approve")
    assert (decided.state, decided.answer["choice"]) == ("answered", "approve")  # type: ignore[index]
    assert place(run) == "publish active"
    assert Vote.objects.count() == 4
    assert [event.data["yes"] for event in events(run, "hold.voted")] == [1, 1, 2, 3]
    assert len(events(run, "hold.answered")) == 1


def test_a_no_stands_once_everybody_has_decided(stage: Stage, crew: list[Chain]) -> None:
    anna, bo, cleo = crew
    run = started(stage, flow("{role: members, threshold: majority_approve}"))
    work(stage, "Write")
    vote(stage, anna, "reject", "Too long.")
    vote(stage, bo, "approve")
    decided = vote(stage, cleo, "reject", "Too loud.")
    assert decided.answer == {
        "choice": "reject",
        "text": "Anna: Too long.; Cleo: Too loud.",
        "votes": [
            {"by": "Anna", "choice": "reject"},
            {"by": "Bo", "choice": "approve"},
            {"by": "Cleo", "choice": "reject"},
        ],
    }
    assert place(run) == "write active"


def test_the_first_no_is_enough_where_the_quorum_says_so(stage: Stage, crew: list[Chain]) -> None:
    run = started(stage, flow("{role: members, threshold: any_reject}"))
    work(stage, "Write")
    assert vote(stage, crew[0], "approve").state == "open"
    assert vote(stage, crew[1], "reject", "No.").state == "answered"
    assert place(run) == "write active"


def test_a_number_of_them_is_enough_where_the_quorum_says_so(stage: Stage, crew: list[Chain]) -> None:
    run = started(stage, flow("{role: members, threshold: 'n_approve:2'}"))
    work(stage, "Write")
    vote(stage, crew[0], "approve")
    vote(stage, crew[2], "approve")
    assert place(run) == "publish active"


def test_only_members_with_the_role_are_asked(stage: Stage, crew: list[Chain]) -> None:
    run = started(stage, flow("{role: operators, threshold: all_approve}"))
    work(stage, "Write")
    with pytest.raises(errors.NotFound):
        vote(stage, crew[0], "approve")
    vote(stage, stage.olga, "approve")
    assert place(run) == "publish active"


def test_a_quorum_that_nobody_could_reach_fails_the_step_in_words(stage: Stage) -> None:
    run = started(stage, flow("{role: members, threshold: 'n_approve:5'}"))
    work(stage, "Write")
    assert place(run) == "write failed"
    assert "“n_approve:5” cannot be reached: 1 members have the role member." in fresh(run).error
    assert not Hold.objects.exists()


def test_an_approval_step_of_one_person_is_not_voted_on(stage: Stage) -> None:
    started(stage, "- {key: ask, kind: approval, prompt: Fine?}".replace("Fine?", '"Fine?"'))
    vote(stage, stage.anna, "approve")
    assert not Vote.objects.exists()
    assert cast.make_member(stage.space, "dora").role == Role.MEMBER


@pytest.mark.django_db(transaction=True)
def test_votes_at_once_decide_once(stage: Stage) -> None:
    chains = [cast.chain_of(cast.make_member(stage.space, f"member{n}")) for n in range(6)]
    run = started(stage, flow("{role: members, threshold: 'n_approve:3'}"))
    work(stage, "Write")
    hold = asked()
    answers = at_once(
        *[
            lambda chain=chain: people.answer_hold(chain, hold.pk, choice="approve", shown_hash=hold.draft_hash)
            for chain in chains
        ]
    )
    settle()
    assert place(run) == "publish active"
    assert sum(isinstance(each, errors.AlreadyAnswered) for each in answers) == 3
    assert Vote.objects.count() == 3
    assert len(events(run, "hold.answered")) == 1
