"""Keys in the admin: operators see whose they are and revoke them; a secret or its hash is nowhere."""

from __future__ import annotations

from django.urls import reverse

from boards import keys
from boards.models import AgentKey
from tests.admin.conftest import Cast
from tests.cast import chain_of

LIST = reverse("admin:boards_agentkey_changelist")


def test_an_operator_revokes_a_members_key(cast: Cast) -> None:
    key, secret = keys.make(chain_of(cast.member), keys.KeyFields("ghostwriter", ["read"]))
    operator = cast.client(cast.operator)
    page = operator.get(LIST).content.decode()
    assert "ghostwriter" in page
    shown = operator.get(reverse("admin:boards_agentkey_change", args=[key.pk])).content.decode()
    assert key.prefix in shown
    for each in (page, shown):
        assert secret not in each
        assert key.secret_hash not in each
    form = {"action": "revoke", "_selected_action": [key.pk], "confirmed": "yes"}
    done = b"".join(operator.post(LIST, form).streaming_content).decode()
    assert "1 done" in done
    assert keys.find(secret) is None
    assert AgentKey.objects.get().revoked_by_name == "Olga"


def test_an_operator_of_another_space_sees_none(cast: Cast) -> None:
    key, _ = keys.make(chain_of(cast.member), keys.KeyFields("ghostwriter", ["read"]))
    stranger = cast.client(cast.stranger)
    assert "ghostwriter" not in stranger.get(LIST).content.decode()
    address = reverse("admin:boards_agentkey_change", args=[key.pk])
    assert "ghostwriter" not in stranger.get(address, follow=True).content.decode()


def test_nothing_is_made_or_changed_there(cast: Cast) -> None:
    operator = cast.client(cast.operator)
    assert operator.get(reverse("admin:boards_agentkey_add")).status_code == 403
