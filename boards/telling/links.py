"""The link in a message: it leads one member to one thing, and decides nothing (spec: 04 section 4).

It names a delivery under a signature. Whoever holds it must be signed in as the member who was told; it ends with the
question, and with the row of the delivery.
"""

from __future__ import annotations

from typing import Final

from django.core.signing import BadSignature, Signer
from django.urls import reverse

from boards.models import Delivery

_signer: Final = Signer(salt="boards.telling.link", sep=".")


def path_of(delivery: Delivery) -> str:
    return reverse("web:told_link", args=[_signer.sign(str(delivery.pk))])


def delivery_of(token: str) -> Delivery | None:
    """What the link leads to, or None for one that we did not make or whose delivery is gone."""
    try:
        pk = int(_signer.unsign(token))
    except (BadSignature, ValueError):
        return None
    rows = Delivery.objects.select_related("task__board", "run__flow", "hold")
    return rows.filter(pk=pk).first()


def common_paths() -> dict[str, str]:
    """Where every message points to besides: the list, and what the member is told."""
    return {"all": reverse("web:needs_you"), "settings": reverse("web:notifications")}
