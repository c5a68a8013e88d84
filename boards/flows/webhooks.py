"""Incoming webhooks: who sets them up, and what a signed message does (spec: 05 section 7; 09 section 3).

A message is one transaction: the row of the sender's id, which a twin waits for, and the start or the kept event. What
is refused leaves no row, so that the sender may send it again once the cause is gone. The payload is data throughout:
templates of ours read it, and nothing in it is ever read as a template.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, NoReturn

from django.db.models.functions import Now

from boards import policy
from boards.actors import Chain, service
from boards.errors import Forbidden, InvalidInput, NotFound, Refusal
from boards.event_log import Entry, record
from boards.flows import clock, events, input_templates, signatures, templating
from boards.flows.authors import acting_for
from boards.flows.schedules import schema_of
from boards.flows.starting import MAX_NAME, start
from boards.flows.templating import Known, TemplatingError
from boards.locks import Rank, engine_transaction, taking
from boards.models import Flow, Webhook, WebhookCall
from boards.outbound import new_secret
from boards.stored_text import clean_text
from boards.tasks import cleaning

OLD_SECRET_LASTS: Final = timedelta(hours=24)
CALLS_KEPT: Final = timedelta(days=7)
_KNOWN: Final = Known(frozenset({"payload"}), frozenset())
_MAX_TEMPLATE: Final = 10_000
_MAX_KEY_TEMPLATE: Final = 500
_MAX_ERROR: Final = 1_000
# What an unknown address is compared with, so that it takes as long as a known one.
_NOBODYS: Final = new_secret()


class NotSigned(Refusal):
    """There is no such webhook, or the message is not signed with its key."""

    code, http_status = "not_signed", 401


class TooOld(Refusal):
    """The message was signed more than five minutes ago, or ahead of time. Sign it anew, and set your clock."""

    code, http_status = "too_old", 401


class NotJson(Refusal):
    """The message must be a JSON object."""

    code, http_status = "not_json", 400


class WebhookStopped(Refusal):
    """This webhook is stopped. Ask whoever gave you its address; nothing was done."""

    code, http_status = "stopped", 409


@dataclass(frozen=True, slots=True)
class WebhookFields:
    """What a person says of a webhook. `mapping`: input -> template over `payload`; `key`: of an event, likewise."""

    name: str
    mapping: Mapping[str, str] = field(default_factory=dict)
    name_template: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """What came in: the three headers as they were sent, and the body."""

    id: str
    timestamp: str
    signature: str
    body: bytes


@engine_transaction
def add_webhook(chain: Chain, flow: Flow, kind: str, told: WebhookFields) -> tuple[Webhook, str]:
    """A new webhook, which acts for whoever adds it, and its key, to be shown once. Raises InvalidInput, Forbidden."""
    _require(chain, flow)
    if kind not in Webhook.Kind.values:
        raise InvalidInput("Say whether it starts a run or brings an event.", field="kind")
    secret = new_secret()
    made = Webhook.objects.create(
        flow=flow,
        public_id=secrets.token_urlsafe(18),
        kind=kind,
        secret=secret,
        author_id=chain.user_id,
        **_checked(flow, kind, told),
    )
    _note(chain, "webhook.added", made)
    return made, secret


@engine_transaction
def change_webhook(chain: Chain, webhook: Webhook, told: WebhookFields) -> None:
    """Change what it says; from now on it acts for whoever changed it."""
    _require(chain, webhook.flow)
    fields = _checked(webhook.flow, webhook.kind, told) | {"author_id": chain.user_id, "error": ""}
    Webhook.objects.filter(pk=webhook.pk).update(**fields)
    _note(chain, "webhook.changed", webhook)


@engine_transaction
def rotate_secret(chain: Chain, webhook: Webhook, *, keep_old: bool) -> str:
    """A new key, to be shown once; the old one goes on for a day where it is kept, else it ends now."""
    _require(chain, webhook.flow)
    secret = new_secret()
    until = clock.now() + OLD_SECRET_LASTS if keep_old else None
    held = Webhook.objects.select_for_update(no_key=True).get(pk=webhook.pk)
    old = held.secret if keep_old else ""
    Webhook.objects.filter(pk=webhook.pk).update(secret=secret, old_secret=old, old_until=until)
    _note(chain, "webhook.rotated", webhook, keeps_old=keep_old)
    return secret


@engine_transaction
def pause_webhook(chain: Chain, webhook: Webhook) -> None:
    """Refuse every message until it is resumed; pausing twice is once."""
    _require(chain, webhook.flow)
    if Webhook.objects.filter(pk=webhook.pk, enabled=True).update(enabled=False):
        _note(chain, "webhook.paused", webhook)


@engine_transaction
def resume_webhook(chain: Chain, webhook: Webhook) -> None:
    _require(chain, webhook.flow)
    fields = {"enabled": True, "error": "", "author_id": chain.user_id}
    if Webhook.objects.filter(pk=webhook.pk, enabled=False).update(**fields):
        _note(chain, "webhook.resumed", webhook)


@engine_transaction
def remove_webhook(chain: Chain, webhook: Webhook) -> None:
    """Its address is gone for good; the runs that it started, and the events that it brought, stay."""
    _require(chain, webhook.flow)
    _note(chain, "webhook.removed", webhook)
    Webhook.objects.filter(pk=webhook.pk).delete()


def take_message(public_id: str, message: Message, proven: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Do what a message asks for; a repeat of its id answers the first result. {"run": number} or {"event": key}.

    `proven` is called once the signature is found right, and may raise what the door wants to answer instead. Raises
    NotSigned alike for an unknown address and a wrong signature, and else a Refusal with a sentence.
    """
    now = clock.now()
    webhook = Webhook.objects.filter(public_id=public_id[:40]).first()
    keys = [_NOBODYS] if webhook is None else _keys(webhook, now)
    signed = signatures.is_signed(keys, message.id, message.timestamp, message.signature, message.body)
    if webhook is None or not signed:
        raise NotSigned
    proven()
    if not signatures.is_timely(message.timestamp, now):
        raise TooOld
    payload = _payload(message.body)
    try:
        return _take(webhook.pk, message.id, payload)
    except Forbidden as refusal:
        _stop(webhook.pk, refusal.sentence)
        raise WebhookStopped from None
    except TemplatingError as error:
        _failed(webhook.pk, InvalidInput(str(error)))
    except (InvalidInput, NotFound) as refusal:
        _failed(webhook.pk, refusal)


def forget_calls(limit: int) -> int:
    """A repeat is answered for seven days."""
    old = WebhookCall.objects.filter(at__lt=Now() - CALLS_KEPT).order_by("at").values("pk")[:limit]
    return WebhookCall.objects.filter(pk__in=old).delete()[0]


def _keys(webhook: Webhook, now: Any) -> list[str]:
    is_kept = webhook.old_secret and webhook.old_until is not None and webhook.old_until > now
    return [webhook.secret, webhook.old_secret] if is_kept else [webhook.secret]


def _payload(body: bytes) -> dict[str, Any]:
    """Raises NotJson. An object: a body that begins with a digit could be taken for a part of what is signed."""
    try:
        payload = cleaning.clean_json(json.loads(body, parse_constant=_no_number), "payload")
    except (ValueError, RecursionError, InvalidInput):
        raise NotJson from None
    if not isinstance(payload, dict):
        raise NotJson
    return payload


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number.")


@engine_transaction
def _take(key: int, message_id: str, payload: dict[str, Any]) -> dict[str, Any]:
    webhook = Webhook.objects.filter(pk=key).select_related("flow__space", "flow__board").first()
    if webhook is None:
        raise NotSigned
    taking(Rank.IDEMPOTENCY)
    call, is_first = WebhookCall.objects.get_or_create(webhook=webhook, message_id=message_id)
    if not is_first:
        return dict(call.result or {})
    if not webhook.enabled:
        raise WebhookStopped
    act = _start if webhook.kind == Webhook.Kind.START else _keep
    told = act(webhook, payload, call)
    WebhookCall.objects.filter(pk=call.pk).update(result=told, run=call.run)
    Webhook.objects.filter(pk=key).update(last_at=Now(), error="")
    return told


def _start(webhook: Webhook, payload: dict[str, Any], call: WebhookCall) -> dict[str, Any]:
    chain = acting_for(webhook.author_id, webhook.flow, "flows.start", "webhook")
    known = {"payload": payload}
    made = input_templates.rendered(webhook.mapping, schema_of(webhook.flow), known)
    # A template that makes nothing leaves its input out, so that what is needed is missed in words.
    inputs = {name: value for name, value in made.items() if value != ""}
    name = " ".join(clean_text(templating.render(webhook.name_template, known)).split())[:MAX_NAME]
    run = call.run = start(chain, webhook.flow, inputs, name)
    told = {"webhook": webhook.pk, "name": webhook.name, "message": call.message_id}
    record(Entry("webhook.started", chain, board_id=webhook.flow.board_id, run_id=run.pk, data=told))
    return {"run": run.number}


def _keep(webhook: Webhook, payload: dict[str, Any], call: WebhookCall) -> dict[str, Any]:
    chain = acting_for(webhook.author_id, webhook.flow, "flows.move", "webhook")
    event = events.keep(chain, webhook.flow, templating.render(webhook.key, {"payload": payload}), payload, webhook)
    return {"event": event.key}


@engine_transaction
def _stop(key: int, why: str) -> None:
    webhook = Webhook.objects.select_related("flow").filter(pk=key).first()
    if webhook and Webhook.objects.filter(pk=key, enabled=True).update(enabled=False, error=why[:_MAX_ERROR]):
        _note(service("flows", webhook.flow.space_id), "webhook.stopped", webhook, why=why)


def _failed(key: int, refusal: Refusal) -> NoReturn:
    """The page says what was wrong with the last message, and so does the answer."""
    Webhook.objects.filter(pk=key).update(error=clean_text(refusal.sentence)[:_MAX_ERROR])
    raise refusal


def _checked(flow: Flow, kind: str, told: WebhookFields) -> dict[str, Any]:
    name = " ".join(told.name.split())
    if not 1 <= len(name) <= MAX_NAME:
        raise InvalidInput(f"A webhook needs a name of 1 to {MAX_NAME} characters.", field="name")
    if kind == Webhook.Kind.EVENT:
        if not told.key.strip():
            raise InvalidInput("Say where the key of the event stands, such as {{ payload.id }}.", field="key")
        return {"name": name, "key": _template("key", told.key.strip(), _MAX_KEY_TEMPLATE)}
    properties = schema_of(flow).get("properties") or {}
    mapping = {each: _template(each, text, _MAX_TEMPLATE) for each, text in told.mapping.items() if text.strip()}
    for each in mapping:
        if properties and each not in properties:
            raise InvalidInput(f'There is no input "{each}". There is {", ".join(properties)}.', field="mapping")
    return {
        "name": name,
        "mapping": mapping,
        "name_template": _template("name_template", told.name_template.strip(), MAX_NAME),
    }


def _template(name: str, text: str, most: int) -> str:
    if len(text) > most:
        raise InvalidInput(f"This template has at most {most:,} characters.", field=name, fields={name: "Too long."})
    for fault in templating.template_faults(text, _KNOWN):
        raise InvalidInput(f"{name}: {fault}", field=name, fields={name: fault})
    return text


def _require(chain: Chain, flow: Flow) -> None:
    if flow.space_id != chain.space_id:
        raise NotFound("There is no such flow.")
    policy.require(chain, "flows.edit", flow.space_id)


def _note(chain: Chain, kind: str, row: Webhook, **told: Any) -> None:
    data = {"webhook": row.pk, "name": row.name, "flow": row.flow.key} | told
    record(Entry(kind, chain, board_id=row.flow.board_id, data=data))
