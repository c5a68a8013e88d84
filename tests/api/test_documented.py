"""The examples of docs/api.md, run by curl against a server as they stand."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from boards import errors
from boards.api import problems
from tests.api.cast import Desk

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_every_example_does_what_it_says(desk: Desk, live_server: LiveServer) -> None:
    assert shutil.which("curl"), "curl is needed: the examples are run as they stand"
    handed_in = desk.handed_in()
    hold = desk.asked()
    desk.flow()
    _, secret = desk.key("read", "file", "decide", name="release-bot")
    given = {"ORCHESTRA": live_server.url, "KEY": secret, "HANDED_IN": handed_in.public_id}
    given |= {"HOLD": str(hold.pk), "DRAFT_HASH": hold.draft_hash}
    told = [run(example, given) for example in EXAMPLES]
    assert len(told) == len(re.findall(r"\bcurl -sS", TEXT)) == 14
    by_name: dict[str, list[Any]] = {}
    for answer in told:
        assert "code" not in answer, answer
        by_name.setdefault(next(iter(answer)), []).append(answer)
    task = next(each["task"] for each in told if each.get("task", {}).get("id") == "notes")
    assert (task["filed_by"], task["labels"]) == ("release-bot for Anna", ["release"])
    results = [(each["result"], each["task"]["status"]) for each in by_name["result"]]
    assert results == [
        ("recorded", "pending"),
        ("recorded", "pending"),
        ("recorded", "cancelled"),
        ("recorded", "completed"),
    ]
    assert [each["hold"]["state"] for each in by_name["hold"]] == ["open", "answered"]
    assert [each["run"]["step"] for each in by_name["run"]] == ["todo", "todo", "doing"]


def run(example: str, given: dict[str, str]) -> Any:
    done = subprocess.run(
        ["bash", "-euc", example],
        env=given | {"PATH": "/usr/bin:/bin", "no_proxy": "*"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (example, done.stderr)
    return json.loads(done.stdout)


def test_its_table_of_codes_has_those_of_the_api() -> None:
    rows = {
        code
        for row in re.findall(r"^\| [\d, ]+ \| (.*) \|$", TEXT, re.MULTILINE)
        for code in re.findall(r"`(\w+)`", row)
    }
    own = {each.code for each in vars(problems).values() if isinstance(each, type) and issubclass(each, errors.Refusal)}
    assert own - {"refused"} <= rows
