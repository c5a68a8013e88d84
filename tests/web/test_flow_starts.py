"""The page of what starts a flow: schedules and webhooks, who may change them, and a key that is shown once."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from boards import flows
from boards.flows import ScheduleFields, WebhookFields
from boards.models import FlowRun, Member, Role, Schedule, Webhook
from boards.outbound import signed_headers
from tests import cast
from tests.flows.cast import Stage, settle
from tests.flows.kinds_cast import define

pytestmark = pytest.mark.django_db
PAGE = "/f/reviewed/starts/"


def client(member: Member) -> Client:
    made = Client()
    made.force_login(member.user)
    return made


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def olga(stage: Stage) -> Client:
    stage.flow()
    return client(stage.operator)


def html(answer: Any) -> str:
    return answer.content.decode()


def posted(olga: Client, path: str, **form: Any) -> HttpResponse:
    return olga.post(PAGE + path, form)


WHEN = {"expression": "30 2 * * *", "zone": "Europe/Copenhagen"}


class TestSchedules:
    def test_one_is_added_and_shows_its_next_three_times_in_its_zone(self, olga: Client) -> None:
        answer = posted(olga, "schedule/", **WHEN, **{"in.topic": "Cats", "name_template": "{{ flow }} {{ date }}"})
        assert answer.status_code == 302
        row = Schedule.objects.get()
        assert (row.inputs, row.name_template) == ({"topic": "Cats"}, "{{ flow }} {{ date }}")
        text = html(olga.get(PAGE))
        assert "30 2 * * *" in text
        assert "Europe/Copenhagen" in text
        times = re.findall(r"<li>\w{3} \d+ \w{3} \d{4}, (\d\d:\d\d)", text)
        assert times == ["02:30"] * 3
        assert "Olga" in text

    def test_what_is_wrong_stands_beside_what_was_typed(self, olga: Client) -> None:
        answer = posted(olga, "schedule/", expression="61 * * * *", zone="UTC", name_template="Mine")
        assert answer.status_code == 422
        text = html(answer)
        assert "“61” is no minute." in text
        assert 'value="61 * * * *"' in text
        assert 'value="Mine"' in text
        assert not Schedule.objects.exists()

    def test_it_is_changed_paused_resumed_and_removed(self, stage: Stage, olga: Client) -> None:
        posted(olga, "schedule/", **WHEN)
        row = Schedule.objects.get()
        assert 'value="30 2 * * *"' in html(olga.get(f"{PAGE}schedule/{row.pk}/"))
        posted(olga, f"schedule/{row.pk}/", expression="0 4 * * *", zone="UTC")
        row.refresh_from_db()
        assert (row.expression, row.zone) == ("0 4 * * *", "UTC")
        posted(olga, f"schedule/{row.pk}/pause")
        assert "Paused" in html(olga.get(PAGE))
        posted(olga, f"schedule/{row.pk}/resume")
        row.refresh_from_db()
        assert row.enabled
        posted(olga, f"schedule/{row.pk}/remove")
        assert "No schedule yet" in html(olga.get(PAGE))

    def test_one_that_stopped_says_why_and_its_last_run_is_linked(self, stage: Stage, olga: Client) -> None:
        posted(olga, "schedule/", **WHEN)
        Schedule.objects.update(next_at=Now() - timedelta(minutes=1))
        assert flows.start_due(5) == 1
        other = client(cast.make_member(stage.space, "otto", Role.OPERATOR))
        assert f"/f/reviewed/r/{FlowRun.objects.get().number}/" in html(other.get(PAGE))
        stage.operator.delete()
        Schedule.objects.update(next_at=Now() - timedelta(minutes=1))
        flows.start_due(5)
        text = html(other.get(PAGE))
        assert "Stopped" in text
        assert "is no member of the space any more" in text

    def test_the_history_of_its_run_says_that_a_schedule_started_it(self, stage: Stage, olga: Client) -> None:
        posted(olga, "schedule/", **WHEN)
        Schedule.objects.update(next_at=Now() - timedelta(minutes=1))
        flows.start_due(5)
        settle()
        text = html(olga.get(f"/f/reviewed/r/{FlowRun.objects.get().number}/"))
        assert "A schedule started it" in text
        assert "Europe/Copenhagen" in text


class TestWebhooks:
    def test_its_key_is_shown_once_and_signs(self, stage: Stage, olga: Client) -> None:
        posted(olga, "webhook/start/", name="Tracker", **{"map.topic": "{{ payload.topic }}"})
        first = html(olga.get(PAGE))
        webhook = Webhook.objects.get()
        assert webhook.secret in first
        assert f"http://testserver/hooks/{webhook.public_id}" in first
        assert "whsec_" not in html(olga.get(PAGE))
        assert "whsec_" not in html(olga.get(f"{PAGE}webhook/{webhook.pk}/change"))
        body = json.dumps({"topic": "Cats"}).encode()
        headers = signed_headers("msg_1", webhook.secret, body)
        answer = Client().post(f"/hooks/{webhook.public_id}", body, content_type="application/json", headers=headers)
        assert answer.json() == {"run": 1}
        assert "/f/reviewed/r/1/" in html(olga.get(PAGE))
        assert "The webhook Tracker started it" in html(olga.get("/f/reviewed/r/1/"))

    def test_an_open_page_that_reads_its_list_again_leaves_the_key_to_the_page(self, olga: Client) -> None:
        posted(olga, "webhook/start/", name="Tracker", **{"map.topic": "{{ payload.title }}"})
        webhook = Webhook.objects.get()
        part = html(olga.get(PAGE, headers={"HX-Request": "true"}))
        assert part.lstrip().startswith('<div class="starts-now" id="starts-now" data-live-flow=')
        assert "Tracker" in part
        assert webhook.secret not in part
        assert webhook.secret in html(olga.get(PAGE))

    def test_a_new_key_is_shown_once_and_the_old_ones_end_is_told(self, olga: Client) -> None:
        posted(olga, "webhook/start/", name="Tracker")
        olga.get(PAGE)
        webhook = Webhook.objects.get()
        posted(olga, f"webhook/{webhook.pk}/do/rotate", keep_old="1")
        text = html(olga.get(PAGE))
        webhook.refresh_from_db()
        assert webhook.secret in text
        assert webhook.old_secret not in text
        assert "The old one ends" in text
        posted(olga, f"webhook/{webhook.pk}/do/rotate")
        assert "The old one ends" not in html(olga.get(PAGE))

    def test_what_is_wrong_with_a_template_stands_at_its_input(self, olga: Client) -> None:
        answer = posted(olga, "webhook/start/", name="Tracker", **{"map.topic": "{{ nothing }}"})
        assert answer.status_code == 422
        text = html(answer)
        assert "Unknown name" in text
        assert 'value="{{ nothing }}"' in text
        assert not Webhook.objects.exists()

    def test_it_is_changed_paused_resumed_and_removed(self, olga: Client) -> None:
        posted(olga, "webhook/event/", name="Till", key="{{ payload.id }}")
        webhook = Webhook.objects.get()
        posted(olga, f"webhook/{webhook.pk}/change", name="New till", key="{{ payload.order }}")
        webhook.refresh_from_db()
        assert (webhook.name, webhook.key) == ("New till", "{{ payload.order }}")
        posted(olga, f"webhook/{webhook.pk}/do/pause")
        assert "Paused" in html(olga.get(PAGE))
        posted(olga, f"webhook/{webhook.pk}/do/resume")
        posted(olga, f"webhook/{webhook.pk}/do/remove")
        assert "No webhook yet" in html(olga.get(PAGE))

    def test_the_admin_shows_it_without_its_keys(self, stage: Stage, olga: Client) -> None:
        type(stage.operator.user).objects.filter(pk=stage.operator.user_id).update(is_staff=True)
        posted(olga, "webhook/start/", name="Tracker")
        webhook = Webhook.objects.get()
        text = html(olga.get(reverse("admin:boards_webhook_change", args=[webhook.pk])))
        assert "Tracker" in text
        assert "whsec_" not in text
        for page in ("webhook", "schedule", "keptevent"):
            assert olga.get(reverse(f"admin:boards_{page}_changelist")).status_code == 200
            assert olga.get(reverse(f"admin:boards_{page}_add")).status_code == 403


class TestWho:
    @pytest.mark.parametrize("role", [Role.MEMBER, Role.VIEWER])
    def test_others_read_the_list_and_change_nothing(self, stage: Stage, role: str) -> None:
        flow = stage.flow()
        row = flows.add_schedule(stage.olga, flow, ScheduleFields("0 9 * * *"))
        webhook, _ = flows.add_webhook(stage.olga, flow, "start", WebhookFields("Tracker"))
        vera = client(cast.make_member(stage.space, "vera", role))
        text = html(vera.get(PAGE))
        assert "0 9 * * *" in text
        assert "Remove" not in text
        for path in ("schedule/", f"schedule/{row.pk}/", "webhook/start/", f"webhook/{webhook.pk}/change"):
            assert vera.get(PAGE + path).status_code == 404
            assert vera.post(PAGE + path, WHEN).status_code == 404
        for path in (f"schedule/{row.pk}/remove", f"webhook/{webhook.pk}/do/remove", f"webhook/{webhook.pk}/do/rotate"):
            vera.post(PAGE + path)
        assert Schedule.objects.filter(pk=row.pk).exists()
        assert Webhook.objects.get().secret == webhook.secret

    def test_what_belongs_to_another_flow_or_space_is_not_found(self, stage: Stage, olga: Client) -> None:
        other = flows.add_schedule(stage.olga, define(stage, "- {key: a, name: A}"), ScheduleFields("0 9 * * *"))
        assert olga.get(f"{PAGE}schedule/{other.pk}/").status_code == 404
        assert olga.post(f"{PAGE}schedule/{other.pk}/remove").status_code == 404
        stranger = client(cast.make_member(cast.make_space("other"), "otto", Role.OPERATOR))
        assert stranger.get(PAGE).status_code == 404
        assert olga.post(f"{PAGE}schedule/{other.pk}/explode").status_code == 404
        assert Client().get(PAGE).status_code == 302

    def test_hostile_text_is_shown_as_text(self, olga: Client) -> None:
        posted(olga, "webhook/start/", name="<script>alert(1)</script>")
        Webhook.objects.update(error="<b>no</b>")
        text = html(olga.get(PAGE))
        assert "<script>alert(1)" not in text
        assert "<b>no</b>" not in text

    def test_the_list_takes_as_many_queries_for_many_schedules_as_for_one(self, stage: Stage, olga: Client) -> None:
        flow = stage.flow()
        flows.add_schedule(stage.olga, flow, ScheduleFields("0 9 * * *"))
        olga.get(PAGE)
        with CaptureQueriesContext(connection) as one:
            olga.get(PAGE)
        for hour in range(5):
            flows.add_schedule(stage.olga, flow, ScheduleFields(f"0 {hour} * * *"))
        with CaptureQueriesContext(connection) as many:
            olga.get(PAGE)
        assert len(many) == len(one)


def test_a_run_that_waits_for_an_event_says_for_which(stage: Stage) -> None:
    steps = '- {key: pause, kind: wait, event: "paid <b>"}\n- {key: go, kind: agent, assignee: writer, prompt: Go.}'
    run = flows.start(stage.anna, define(stage, steps), {})
    settle()
    text = html(client(stage.member).get(f"/f/kinds/r/{run.number}/"))
    assert "The run waits for the event" in text
    assert "paid &lt;b&gt;" in text
    assert "Waits for an event" in text
    assert "A person moves the run on" not in text
