"""One table: every route, and everybody who may knock. What one may not see is answered like what does not exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from boards import keys
from boards.api.operations import OPERATIONS
from boards.models import AgentKey, Event, Member, Scope
from tests import cast
from tests.api.cast import EVERYTHING, Answered, Caller, Desk, shape_faults
from tests.api.work_cast import Worker, put_outside, work_of

pytestmark = pytest.mark.django_db

OK, GONE = "ok", "gone"  # done; or told as of what is not there
Make = Callable[[Desk], tuple[str, Any]]


@dataclass(frozen=True)
class Route:
    """`make`: a subject on Anna's desk, and the path and body that act on it. `viewer`: what a viewer is answered.

    `one`: whether the address names one thing, so that whoever may not see it is told that it is not there.
    """

    make: Make
    viewer: Any
    one: bool = True


def _on_task(verb: str, body: Any = None, of: str = "filed", **fields: Any) -> Make:
    def make(desk: Desk) -> tuple[str, Any]:
        task = getattr(desk, of)(**fields)
        return f"/boards/desk/tasks/{task.public_id}{verb}", body

    return make


def _on_hold(verb: str) -> Make:
    def make(desk: Desk) -> tuple[str, Any]:
        hold = desk.asked()
        body = {"choice": "approve", "shown_hash": hold.draft_hash} if verb == "/answer" else None
        return f"/holds/{hold.pk}{verb}", body

    return make


def _flow(path: str, body: Any = None) -> Make:
    def make(desk: Desk) -> tuple[str, Any]:
        desk.run()
        return path, body

    return make


def _under_ticket(verb: str, **body: Any) -> Make:
    """With the ticket of a key of Anna's, which is not the one that knocks."""

    def make(desk: Desk) -> tuple[str, Any]:
        put_outside(desk.board)
        work_of(desk)
        return f"/work/{verb}", {"ticket": Worker(desk, "holder").begins(), **body}

    return make


def _to_claim(desk: Desk) -> tuple[str, Any]:
    put_outside(desk.board)
    work_of(desk)
    return "/work/claim", {"board": "desk"}


ROUTES: dict[str, Route] = {
    "list_boards": Route(lambda desk: ("/boards", None), OK, one=False),
    "create_task": Route(lambda desk: ("/boards/desk/tasks", {"goal": "New"}), 403),
    "create_tasks": Route(lambda desk: ("/boards/desk/batch", {"tasks": [{"goal": "New"}]}), 403),
    "list_tasks": Route(lambda desk: ("/boards/desk/tasks", None), OK),
    "get_task": Route(_on_task(""), OK),
    "update_task": Route(_on_task("", {"priority": 5}), 403),
    "cancel_task": Route(_on_task("/cancel"), 403),
    "release_task": Route(_on_task("/release", held=True), 403),
    "retry_task": Route(_on_task("/retry", of="stuck"), 403),
    "accept_task": Route(_on_task("/accept", of="handed_in"), 403),
    "send_back_task": Route(_on_task("/send_back", {"words": "More"}, of="handed_in"), 403),
    "list_waiting": Route(lambda desk: ("/waiting", None), OK, one=False),
    "get_hold": Route(_on_hold(""), OK),
    "answer_hold": Route(_on_hold("/answer"), GONE),
    "dismiss_hold": Route(_on_hold("/dismiss"), GONE),
    "list_flows": Route(_flow("/flows"), OK, one=False),
    "start_flow": Route(_flow("/flows/cards/runs", {}), 403),
    "list_runs": Route(_flow("/flows/cards/runs"), OK),
    "get_run": Route(_flow("/flows/cards/runs/1"), OK),
    "move_run": Route(_flow("/flows/cards/runs/1/move", {"step": "doing"}), 403),
    "claim": Route(_to_claim, 403),
    "start": Route(_under_ticket("start"), 403),
    "renew": Route(_under_ticket("renew"), 403),
    "output": Route(_under_ticket("output", items=[{"text": "x"}]), 403),
    "progress": Route(_under_ticket("progress", note="x"), 403),
    "ask": Route(_under_ticket("ask", prompt="x?"), 403),
    "file_task": Route(_under_ticket("file_task", filing={"goal": "More"}), 403),
    "complete_step": Route(_under_ticket("complete_step", summary="Done"), 403),
    "suspend": Route(_under_ticket("suspend"), 403),
    "complete": Route(_under_ticket("complete", output=1), 403),
    "fail": Route(_under_ticket("fail", error="x"), 403),
    "hand_back": Route(_under_ticket("hand_back"), 403),
    "spend": Route(_under_ticket("spend", spend={"input_tokens": 1}), 403),
}
BY_NAME = {each.name: each for each in OPERATIONS}


def _gone_key(desk: Desk, how: str) -> Caller:
    key, secret = desk.key(*EVERYTHING)
    if how == "revoked":
        keys.revoke(desk.chain, key)
    elif how == "expired":
        AgentKey.objects.filter(pk=key.pk).update(expires_at=Now() - timedelta(milliseconds=1))
    elif how == "rotated":
        keys.rotate(desk.chain, key, keep_old=False)
    elif how == "of one who left":
        Member.objects.filter(pk=desk.anna.pk).delete()
        desk.anna = desk.ben
    elif how == "of one switched off":
        desk.anna.user.is_active = False
        desk.anna.user.save(update_fields=["is_active"])
    return Caller(secret)


def _stranger(desk: Desk) -> Caller:
    user = cast.make_member(desk.space, "nemo").user
    caller = Caller(member=Member.objects.get(user=user))
    Member.objects.filter(user=user).delete()
    return caller


KNOCKS: dict[str, Callable[[Desk], Caller]] = {
    "nobody": lambda desk: Caller(),
    "somebody of no space": _stranger,
    "a viewer": lambda desk: desk.signed_in(desk.vera),
    "a member": lambda desk: desk.signed_in(desk.ben),
    "an operator": lambda desk: desk.signed_in(desk.olga),
    "an operator of another space": lambda desk: desk.signed_in(desk.mallory),
    **{f"a key that may {scope}": lambda desk, s=scope: desk.by_key(s) for scope in Scope.values},
    "a key for everything": lambda desk: desk.by_key(*EVERYTHING),
    "a key for everything on another board": lambda desk: desk.by_key(*EVERYTHING, boards=[desk.attic]),
    "a key that works on another board": lambda desk: desk.by_key("work", boards=[desk.attic]),
    "a key that works in another space": lambda desk: desk.by_key("work", of=desk.mallory),
    "a key for everything of another space": lambda desk: desk.by_key(*EVERYTHING, of=desk.mallory),
    "a revoked key": lambda desk: _gone_key(desk, "revoked"),
    "an expired key": lambda desk: _gone_key(desk, "expired"),
    "a key that was replaced": lambda desk: _gone_key(desk, "rotated"),
    "a key of one switched off": lambda desk: _gone_key(desk, "of one switched off"),
    "a key that was made up": lambda desk: Caller("ork_" + "x" * 43),
}


def expected(who: str, name: str) -> Any:
    """OK, GONE, or the status of the refusal."""
    route, operation = ROUTES[name], BY_NAME[name]
    if who == "nobody" or who in {
        "a revoked key",
        "an expired key",
        "a key that was replaced",
        "a key of one switched off",
        "a key that was made up",
    }:
        return 401
    if who == "somebody of no space":
        return 403
    if operation.scope == Scope.WORK:
        # A key alone works: one for it claims, and another's ticket is as none.
        if not who.startswith(("a key that may work", "a key that works")):
            return 403
        return OK if name == "claim" and who == "a key that may work" else GONE
    if who.startswith("a key that works"):
        return 403
    if who == "a viewer":
        return route.viewer
    if who.startswith("a key that may "):
        scope = who.removeprefix("a key that may ")
        if operation.scope != scope:
            return 403
        # What Anna herself filed is not this key's own; a check and an answer are anybody's who decides.
        of_others = {"update_task", "cancel_task", "release_task", "retry_task", "move_run"}
        return 403 if name in of_others else OK
    if "another" in who:
        return GONE if route.one else OK
    return OK


@pytest.mark.parametrize("name", ROUTES)
@pytest.mark.parametrize("who", KNOCKS)
def test_who_may_do_what(desk: Desk, who: str, name: str) -> None:
    path, body = ROUTES[name].make(desk)
    knock = KNOCKS[who](desk)
    before = Event.objects.count()
    answer = knock(BY_NAME[name].method, path, body)
    wanted = expected(who, name)
    if wanted == OK:
        assert answer.status == BY_NAME[name].status, answer.body
        assert not shape_faults(BY_NAME[name], answer.body)
        _shows_nothing_of_others(who, answer)
        return
    assert answer.status == (404 if wanted == GONE else wanted), answer.body
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert Event.objects.count() == before  # nothing was written
    if wanted == GONE:
        assert answer.body == _absent(knock, name, path, body)
    if wanted == 401:
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def _shows_nothing_of_others(who: str, answer: Answered) -> None:
    if "another" in who:
        (rows,) = [rows for name, rows in answer.body.items() if isinstance(rows, list)]
        assert all(row.get("slug") == "attic" for row in rows), rows


def _absent(knock: Caller, name: str, path: str, body: Any) -> Any:
    """What the same caller is told of a thing that is not there."""
    for there in ("/boards/desk", "/flows/cards"):
        if path.startswith(there):
            return knock(BY_NAME[name].method, path.replace(there, there[:-3] + "zzz"), body).body
    if path == "/work/claim":
        return knock("POST", path, {"board": "zzz"}).body
    if path.startswith("/work/"):
        return knock("POST", path, body | {"ticket": "orkt_1-1-" + "x" * 43}).body
    hold = path.split("/")[2]
    return knock(BY_NAME[name].method, path.replace(hold, "99999999"), body).body


def test_the_table_has_every_route() -> None:
    assert ROUTES.keys() == BY_NAME.keys()


def test_a_key_never_does_more_than_its_member(desk: Desk) -> None:
    """A member who is made a viewer keeps the key, and the key then reads only."""
    caller = desk.by_key(*EVERYTHING)
    path, body = ROUTES["accept_task"].make(desk)
    Member.objects.filter(pk=desk.anna.pk).update(role="viewer")
    assert caller("POST", path, body).status == 403
    assert caller("POST", "/boards/desk/tasks", {"goal": "New"}).status == 403
    assert caller("GET", "/boards/desk/tasks").status == 200


def test_one_who_left_the_space_takes_the_keys_along(desk: Desk) -> None:
    caller = _gone_key(desk, "of one who left")
    assert caller("GET", "/boards").code == "key_refused"


def test_a_board_that_is_deleted_leaves_its_key_with_none(desk: Desk) -> None:
    caller = desk.by_key(*EVERYTHING, boards=[desk.attic])
    desk.attic.delete()
    assert caller("GET", "/boards").body["boards"] == []
    assert caller("POST", "/boards/desk/tasks", {"goal": "New"}).code == "no_delegation_board"


def test_a_page_of_another_site_writes_nothing_with_a_members_session(desk: Desk) -> None:
    caller = desk.signed_in()
    token = caller.headers.pop("X-CSRFToken")
    answer = caller("POST", "/boards/desk/tasks", {"goal": "New"})
    assert (answer.status, answer.code) == (403, "csrf_failed")
    form = caller("POST", "/boards/desk/tasks", raw=b"goal=New", content_type="application/x-www-form-urlencoded")
    assert (form.status, form.code) == (415, "not_json")
    caller.headers["X-CSRFToken"] = token
    assert caller("POST", "/boards/desk/tasks", {"goal": "New"}).status == 201


def test_a_key_in_the_address_is_none(desk: Desk) -> None:
    _, secret = desk.key("read")
    assert Caller()("GET", f"/boards?key={secret}").status == 401
    assert Caller()("GET", f"/boards?access_token={secret}").status == 401
