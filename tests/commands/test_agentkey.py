"""`manage.py agentkey`: make, list and revoke keys from the shell."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from boards import keys
from boards.models import AgentKey
from tests.api.cast import Desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(db: None) -> Desk:
    return Desk()


def said(*args: str) -> str:
    out = StringIO()
    call_command("agentkey", *args, stdout=out)
    return out.getvalue()


def told(*args: str) -> Any:
    return json.loads(said(*args, "--json"))


def test_a_key_is_printed_once(desk: Desk) -> None:
    text = said("create", "bot", "--scope", "read", "--scope", "file", "--board", "desk", "--user", "anna")
    secret = text.splitlines()[-1]
    key = keys.find(secret)
    assert key is not None
    assert (key.member, key.scopes, list(key.boards.all())) == (desk.anna, ["read", "file"], [desk.board])
    assert text.startswith("bot acts for Anna and may: read, file.")
    assert secret not in said("list")
    assert f"{key.pk}  {key.prefix}…  bot  of anna in halyard  read,file  desk  no end" in said("list")


def test_as_json(desk: Desk) -> None:
    made = told("create", "bot", "--user", "anna", "--expires", "2999-01-01T00:00+00:00")
    assert (made["scopes"], made["boards"], made["expires_at"]) == (["read"], None, "2999-01-01T00:00:00+00:00")
    assert keys.find(made.pop("key")) is not None
    (listed,) = told("list", "--user", "anna")
    assert listed == made | {"last_used_at": listed["last_used_at"]}
    assert told("revoke", made["prefix"]) == {"number": made["number"], "revoked": True}
    assert told("revoke", str(made["number"])) == {"number": made["number"], "revoked": False}
    assert AgentKey.objects.get().revoked_by_name == "Anna"


def test_without_a_name_it_is_the_operators(desk: Desk) -> None:
    assert told("create", "bot", "--space", "halyard")["member"] == "olga"


def test_a_key_of_one_who_is_a_viewer_now_is_revoked_all_the_same(desk: Desk) -> None:
    made = told("create", "bot", "--user", "anna")
    desk.anna.role = "viewer"
    desk.anna.save(update_fields=["role"])
    assert told("revoke", str(made["number"]))["revoked"]
    assert AgentKey.objects.get().revoked_by_name == "Olga"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["create", "bot", "--user", "nobody"], "Nobody called nobody"),
        (["create", "bot", "--user", "anna", "--board", "cellar"], 'There is no board "cellar"'),
        (["create", "bot", "--user", "anna", "--expires", "soon"], "Write --expires"),
        (["create", "bot", "--user", "anna", "--expires", "2020-01-01T00:00+00:00"], "lies ahead"),
        (["create", "bot", "--user", "anna", "--scope", "work", "--scope", "decide"], "decides nothing"),
        (["create", "bot", "--user", "vera"], "may not do this"),
        (["create", "bot"], "Name the space"),
        (["revoke", "17"], "There is no key 17"),
        (["revoke", "ork_nothing"], "There is no key"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(desk: Desk, args: list[str], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        said(*args)
    assert not AgentKey.objects.exists()
