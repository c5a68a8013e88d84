"""Signed webhooks: who is let in, what a message does, repeats, rotation and hostile payloads (spec: 05, 7; 09, 3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.http import HttpResponse
from django.test import Client

from boards import errors, flows, sweeping
from boards.flows import WebhookFields, clock
from boards.models import Event, FlowRun, KeptEvent, Member, Role, Webhook, WebhookCall
from boards.outbound import new_secret, signed_headers
from boards.web import hooks
from tests import cast
from tests.flows.cast import REVIEWED, Stage, fresh, place, settle
from tests.flows.kinds_cast import define, output

pytestmark = pytest.mark.django_db

TYPED = REVIEWED + "    count: {type: integer}\n    tags: {type: array}\n"
MAPPING = {"topic": "{{ payload.issue.title }}", "count": "{{ payload.n }}"}


@pytest.fixture(autouse=True)
def counts() -> Iterator[None]:
    """Nobody has sent anything yet."""
    hooks.LET_IN.clear()
    hooks.TURNED_AWAY.clear()
    yield
    hooks.LET_IN.clear()
    hooks.TURNED_AWAY.clear()


class Sender:
    """A program that posts to a webhook and signs with the key that it was given."""

    def __init__(self, webhook: Webhook, secret: str) -> None:
        self.webhook, self.secret = webhook, secret
        self.client = Client(enforce_csrf_checks=True)

    def post(self, payload: Any, ident: str = "msg_1", **headers: str) -> HttpResponse:
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        signed = signed_headers(ident, self.secret, body) | headers
        return self.send(body, signed)

    def send(self, body: bytes, headers: dict[str, str], public_id: str = "", kind: str = "application/json") -> Any:
        address = f"/hooks/{public_id or self.webhook.public_id}"
        return self.client.post(address, body, content_type=kind, headers=headers)


def sender(stage: Stage, text: str = TYPED, **fields: Any) -> Sender:
    told = WebhookFields(**{"name": "Tracker", "mapping": MAPPING, "name_template": "Issue {{ payload.n }}", **fields})
    return Sender(*flows.add_webhook(stage.olga, stage.flow(text), "start", told))


PAYLOAD = {"issue": {"title": "Cats"}, "n": 3}


class TestStarting:
    def test_a_signed_message_starts_a_run_with_the_inputs_that_the_templates_make(self, stage: Stage) -> None:
        answer = sender(stage).post(PAYLOAD)
        settle()
        run = FlowRun.objects.get()
        assert (answer.status_code, answer.json()) == (200, {"run": run.number})
        assert (run.inputs, run.name) == ({"topic": "Cats", "count": 3}, "Issue 3")
        assert run.started_by == stage.operator.user
        chain = Event.objects.get(kind="run.started").chain
        assert [hop["name"] for hop in chain] == ["Olga", "webhook"]

    def test_a_repeat_of_its_id_answers_the_first_result_also_with_another_body(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        first = from_tracker.post(PAYLOAD)
        again = from_tracker.post({"issue": {"title": "Dogs"}, "n": 4})
        assert (again.status_code, again.json()) == (200, first.json())
        assert FlowRun.objects.count() == 1
        assert from_tracker.post(PAYLOAD, "msg_2").json() != first.json()

    def test_what_was_refused_may_be_sent_again_under_its_id(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        refused = from_tracker.post({"n": 3})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
        assert "issue" in refused.json()["error"]
        from_tracker.webhook.refresh_from_db()
        assert from_tracker.webhook.error == refused.json()["error"]
        assert from_tracker.post(PAYLOAD).status_code == 200
        from_tracker.webhook.refresh_from_db()
        assert from_tracker.webhook.error == ""

    def test_values_that_do_not_fit_are_refused_in_words_and_start_nothing(self, stage: Stage) -> None:
        refused = sender(stage).post({"issue": {"title": "Cats"}, "n": "three"})
        assert (refused.status_code, refused.json()["error"]) == (422, "count: 'three' is not of type 'integer'.")
        assert not FlowRun.objects.exists()
        assert not WebhookCall.objects.exists()

    def test_an_author_who_lost_the_right_stops_it_without_telling_the_sender_who(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        Member.objects.filter(pk=stage.operator.pk).update(role=Role.VIEWER)
        refused = from_tracker.post(PAYLOAD)
        assert (refused.status_code, refused.json()["code"]) == (409, "stopped")
        assert "Olga" not in refused.content.decode()
        from_tracker.webhook.refresh_from_db()
        assert not from_tracker.webhook.enabled
        assert "Olga" in from_tracker.webhook.error

    def test_paused_it_starts_nothing_and_resumed_it_does(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        flows.pause_webhook(stage.olga, from_tracker.webhook)
        assert from_tracker.post(PAYLOAD).json()["code"] == "stopped"
        flows.resume_webhook(stage.olga, from_tracker.webhook)
        assert from_tracker.post(PAYLOAD).status_code == 200


class TestSignatures:
    def refused(self, answer: Any) -> None:
        assert (answer.status_code, answer.json()["code"]) == (401, "not_signed")
        assert not FlowRun.objects.exists()

    def test_a_wrong_key_is_turned_away(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        from_tracker.secret = new_secret()
        self.refused(from_tracker.post(PAYLOAD))

    @pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
    def test_a_message_without_one_of_the_headers_is_turned_away(self, stage: Stage, name: str) -> None:
        self.refused(sender(stage).post(PAYLOAD, **{name: ""}))

    @pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp"])
    def test_an_id_or_a_time_that_was_not_signed_is_turned_away(self, stage: Stage, name: str) -> None:
        self.refused(sender(stage).post(PAYLOAD, **{name: "1790000000"}))

    def test_another_body_under_the_same_signature_is_turned_away(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        headers = signed_headers("msg_1", from_tracker.secret, b"{}")
        self.refused(from_tracker.send(b'{"n": 1}', headers))

    @pytest.mark.parametrize("signature", ["v1,", "v1,!!!", "v2,abc", "ü", "v1a,abc", "v1," + "A" * 44])
    def test_what_is_no_signature_is_turned_away(self, stage: Stage, signature: str) -> None:
        self.refused(sender(stage).post(PAYLOAD, **{"webhook-signature": signature}))

    def test_one_right_signature_among_several_is_enough(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        body = json.dumps(PAYLOAD).encode()
        headers = signed_headers("msg_1", from_tracker.secret, body)
        headers["webhook-signature"] = f"v1a,xyz v1,AAAA {headers['webhook-signature']}"
        assert from_tracker.send(body, headers).status_code == 200

    @pytest.mark.parametrize(("ago", "status"), [(301 + 5, 401), (280, 200), (-280, 200), (-301 - 5, 401)])
    def test_five_minutes_is_as_old_as_a_message_may_be(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch, ago: int, status: int
    ) -> None:
        from_tracker = sender(stage)
        now = clock.now().timestamp()
        monkeypatch.setattr("boards.outbound.time.time", lambda: now - ago)
        answer = from_tracker.post(PAYLOAD)
        assert answer.status_code == status
        if status == 401:
            assert answer.json()["code"] == "too_old"
            assert not FlowRun.objects.exists()

    def test_an_unknown_address_and_a_wrong_key_are_answered_alike(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        body = json.dumps(PAYLOAD).encode()
        headers = signed_headers("msg_1", new_secret(), body)
        answers = [from_tracker.send(body, headers, public_id) for public_id in ("", "nobody", "x" * 300, "%00", "ü")]
        assert {(each.status_code, each.content) for each in answers} == {(401, answers[0].content)}

    def test_a_new_key_goes_and_the_old_one_for_a_day(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        old = from_tracker.secret
        from_tracker.secret = flows.rotate_secret(stage.olga, from_tracker.webhook, keep_old=True)
        assert from_tracker.post(PAYLOAD, "new").status_code == 200
        from_tracker.secret = old
        assert from_tracker.post(PAYLOAD, "old").status_code == 200
        Webhook.objects.update(old_until=Now())
        assert from_tracker.post(PAYLOAD, "late").status_code == 401

    def test_a_new_key_may_end_the_old_one_at_once(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        flows.rotate_secret(stage.olga, from_tracker.webhook, keep_old=False)
        self.refused(from_tracker.post(PAYLOAD))


class TestTheDoor:
    def test_only_posts_of_json_are_taken(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        address = f"/hooks/{from_tracker.webhook.public_id}"
        assert from_tracker.client.get(address).status_code == 405
        assert from_tracker.send(b"{}", {}, kind="text/plain").status_code == 415
        assert from_tracker.client.post(address, {"a": "b"}).status_code == 415

    def test_what_is_larger_than_256_kb_is_refused_unread(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        assert from_tracker.post({"x": "y" * hooks.MAX_BODY}).status_code == 413
        fits = json.dumps(PAYLOAD | {"x": ""}).encode()
        fits = json.dumps(PAYLOAD | {"x": "y" * (hooks.MAX_BODY - len(fits))}).encode()
        assert len(fits) == hooks.MAX_BODY
        assert from_tracker.post(fits).status_code == 200

    @pytest.mark.parametrize(
        "body", [b" ", b"{", b"[1]", b"7", b'"x"', b"null", b'{"n": NaN}', b"\xff", b"[" * 100_000]
    )
    def test_what_is_no_json_object_is_refused(self, stage: Stage, body: bytes) -> None:
        answer = sender(stage).post(body)
        assert (answer.status_code, answer.json()) == (
            400,
            {"code": "not_json", "error": "The message must be a JSON object."},
        )

    def test_who_is_turned_away_too_often_has_to_wait_and_others_need_not(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        right, from_tracker.secret = from_tracker.secret, new_secret()
        answers = [from_tracker.post(PAYLOAD).status_code for _ in range(31)]
        assert answers == [401] * 30 + [429]
        from_tracker.secret = right
        blocked = from_tracker.post(PAYLOAD)
        assert (blocked.status_code, blocked.json()["code"]) == (429, "too_many")
        assert 1 <= int(blocked["Retry-After"]) <= 60
        from_tracker.client = Client(enforce_csrf_checks=True, REMOTE_ADDR="10.0.0.9")
        assert from_tracker.post(PAYLOAD).status_code == 200

    def test_a_webhook_that_gets_too_many_messages_takes_no_more_for_a_while(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hooks.LET_IN, "limit", 2)
        from_tracker = sender(stage)
        answers = [from_tracker.post(PAYLOAD, f"msg_{n}").status_code for n in range(3)]
        assert answers == [200, 200, 429]


class TestHostilePayloads:
    def test_a_template_in_it_is_text(self, stage: Stage) -> None:
        sender(stage, name_template="{{ payload.issue.title }}").post({"issue": {"title": "{{ 7 * 7 }}"}, "n": 3})
        settle()
        run = FlowRun.objects.get()
        assert (run.inputs["topic"], run.name) == ("{{ 7 * 7 }}", "{{ 7 * 7 }}")

    def test_nul_surrogates_and_marks_are_stored_as_they_can_be(self, stage: Stage) -> None:
        body = b'{"issue": {"title": "a\\u0000b\\ud800c \\u202e<script>"}, "n": 3}'
        assert sender(stage, name_template="{{ payload.issue.title }}").post(body).status_code == 200
        assert FlowRun.objects.get().inputs["topic"] == "a\ufffdb\ufffdc \u202e<script>"

    def test_a_name_of_many_lines_is_one_and_short(self, stage: Stage) -> None:
        from_tracker = sender(stage, name_template="{{ payload.issue.title }}")
        assert from_tracker.post({"issue": {"title": "word\n" * 1000}, "n": 3}).status_code == 200
        assert FlowRun.objects.get().name == ("word " * 1000)[:200].strip()

    def test_a_template_that_grows_out_of_bounds_is_refused(self, stage: Stage) -> None:
        from_tracker = sender(stage, mapping={"topic": "{% for a in payload.x %}{{ payload.x }}{% endfor %}"})
        answer = from_tracker.post({"x": ["y" * 1000] * 100})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")

    def test_the_python_behind_a_value_is_out_of_reach(self, stage: Stage) -> None:
        from_tracker = sender(stage, mapping={"topic": "{{ payload.__class__.__mro__ }}"})
        assert from_tracker.post(PAYLOAD).status_code == 422


WAIT = """
- {key: pause, kind: wait, event: "paid {{ input.order }}", duration_ms: 3600000}
- {key: go, kind: agent, assignee: writer, prompt: Go.}
"""


class TestEvents:
    def sender(self, stage: Stage) -> Sender:
        told = WebhookFields("Till", key="paid {{ payload.order }}")
        return Sender(*flows.add_webhook(stage.olga, define(stage, WAIT), "event", told))

    def test_it_ends_the_wait_of_its_key(self, stage: Stage) -> None:
        from_till = self.sender(stage)
        run = flows.start(stage.anna, from_till.webhook.flow, {"order": "7"})
        settle()
        assert place(run) == "pause active"
        answer = from_till.post({"order": 7, "sum": "12"})
        settle()
        assert answer.json() == {"event": "paid 7"}
        assert place(run) == "go active"
        assert output(run, "pause") == {"order": 7, "sum": "12"}

    def test_it_is_kept_for_the_step_that_is_not_entered_yet_and_once_under_its_id(self, stage: Stage) -> None:
        from_till = self.sender(stage)
        answers = [from_till.post({"order": 7}).json() for _ in range(2)]
        assert answers == [{"event": "paid 7"}] * 2
        assert KeptEvent.objects.count() == 1
        run = flows.start(stage.anna, from_till.webhook.flow, {"order": "7"})
        settle()
        assert place(fresh(run)) == "go active"

    def test_a_payload_without_its_key_is_refused(self, stage: Stage) -> None:
        answer = self.sender(stage).post({"sum": "12"})
        assert answer.status_code == 422
        assert "order" in answer.json()["error"]


class TestEditing:
    def test_only_those_who_may_edit_flows_set_one_up(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        with pytest.raises(errors.Forbidden):
            flows.add_webhook(stage.anna, from_tracker.webhook.flow, "start", WebhookFields("Mine"))
        for verb in (flows.pause_webhook, flows.resume_webhook, flows.remove_webhook):
            with pytest.raises(errors.Forbidden):
                verb(stage.anna, from_tracker.webhook)
        with pytest.raises(errors.Forbidden):
            flows.rotate_secret(stage.anna, from_tracker.webhook, keep_old=True)
        stranger = cast.make_member(cast.make_space("other"), "otto", Role.OPERATOR)
        with pytest.raises(errors.NotFound):
            flows.remove_webhook(cast.chain_of(stranger), from_tracker.webhook)

    @pytest.mark.parametrize(
        ("kind", "fields", "field"),
        [
            ("start", {"name": ""}, "name"),
            ("start", {"mapping": {"size": "3"}}, "mapping"),
            ("start", {"mapping": {"topic": "{{ secret }}"}}, "topic"),
            ("start", {"mapping": {"topic": "{{ payload."}}, "topic"),
            ("start", {"name_template": "{{ nothing }}"}, "name_template"),
            ("event", {"key": " "}, "key"),
            ("event", {"key": "{{ nothing }}"}, "key"),
            ("other", {}, "kind"),
        ],
    )
    def test_what_cannot_work_is_refused_with_its_field(
        self, stage: Stage, kind: str, fields: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(errors.InvalidInput) as refused:
            flows.add_webhook(stage.olga, stage.flow(), kind, WebhookFields(**{"name": "Tracker", **fields}))
        assert refused.value.facts["field"] == field
        assert not Webhook.objects.exists()

    def test_removed_its_address_is_unknown(self, stage: Stage) -> None:
        from_tracker = sender(stage)
        flows.remove_webhook(stage.olga, from_tracker.webhook)
        assert from_tracker.post(PAYLOAD).status_code == 401

    def test_messages_are_forgotten_after_seven_days(self, stage: Stage) -> None:
        sender(stage).post(PAYLOAD)
        WebhookCall.objects.update(at=Now() - timedelta(days=7, seconds=1))
        assert sweeping.sweep_once().done["old webhook messages forgotten"] == 1
