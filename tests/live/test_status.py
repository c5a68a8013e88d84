"""What a page asks when its socket was refused: am I signed out, may I still see this?"""

from __future__ import annotations

import pytest
from django.test import Client

from tests.live.cast import Cast


@pytest.mark.parametrize(
    ("who", "query", "signed_in", "allowed"),
    [
        ("", "board={own}", False, False),
        ("anna", "board={own}&lang=en", True, True),
        ("anna", "", True, True),
        ("anna", "board={other}", True, False),
        ("stranger", "board={own}", True, False),
    ],
)
def test_it_says_what_the_socket_would(cast: Cast, who: str, query: str, signed_in: bool, allowed: bool) -> None:
    client = Client()
    if who:
        client.force_login(getattr(cast, who), "django.contrib.auth.backends.ModelBackend")
    answer = client.get(f"/live/status?{query.format(own=cast.board.pk, other=cast.elsewhere.pk)}")
    assert answer.json() == {"ok": True, "signed_in": signed_in, "allowed": allowed}
    assert "no-cache" in answer["Cache-Control"]
