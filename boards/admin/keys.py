"""Keys of agents: whose they are, what they may, when they were used; operators revoke them, and see no secret."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from boards import keys
from boards.actors import Chain
from boards.admin.acting import Act, Answered
from boards.admin.window import OfMySpaces, Window
from boards.models import AgentKey


def _revoke(chain: Chain, key: AgentKey, words: str) -> Any:
    return None if keys.revoke(chain, key) else Answered(True, str(_("it was so already")))


@admin.register(AgentKey)
class AgentKeyPage(Window):
    space_path = "member__space"
    list_display = ("name", "prefix", "member", "scopes", "every_board", "last_used_at", "expires_at", "revoked_at")
    list_filter = ("every_board", ("member__space", OfMySpaces), "last_used_at", "revoked_at")
    list_select_related = ("member__user", "member__space")
    search_fields = ("name", "prefix", "member__user__username")
    ordering = ("-id",)
    exclude = ("secret_hash", "old_hash")
    acts = (Act("revoke", _("Revoke"), _revoke),)
