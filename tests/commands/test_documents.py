"""README and docs/deploy.md say what is true."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from boards.states import TRANSITIONS, Status, Verb, matrix
from boards.workers.protocol import WORKERS, Answer, Suspended, SyncWorkerTask, TaskFacts
from tests.workers.conftest import RecordingPort

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
DEPLOY = (ROOT / "docs" / "deploy.md").read_text()
SETTINGS = (ROOT / "orchestra" / "settings.py").read_text()


def test_the_table_of_settings_names_each_and_no_other() -> None:
    read = set(re.findall(r'env_\w+\(\s*"(\w+)"', SETTINGS)) | {"DATA_DIR"}
    table = README[README.index("## Settings") : README.index("## Dependencies")]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == read


def test_the_picture_of_the_states_has_exactly_the_moves_there_are() -> None:
    names = {str(status.label): status for status in Status} | {"Check": Status.NEEDS_CHECK}
    drawn = {(names[one], names[other]) for one, other in re.findall(r"^    (\w+) --> (\w+):", README, re.MULTILINE)}
    moves = {(one, other) for verb in TRANSITIONS.values() for one, to in verb.items() for other in to}
    assert drawn == moves - {(Status.ERRORED, Status.ERRORED)}


def test_the_matrix_of_verbs_and_statuses_is_the_table_that_the_code_uses() -> None:
    assert matrix() in ARCHITECTURE
    lines = matrix().splitlines()
    assert [re.findall(r"`(\w+)`", line) for line in lines[2:]] == [[verb] for verb in Verb if verb != Verb.FILE]
    assert all(line.count("|") == len(Status) + 2 for line in lines)
    retry = next(line for line in lines if line.startswith("| `retry`"))
    assert retry == "| `retry` | refused | refused | refused | refused | final | **Ready** | **Ready** |"


def test_the_table_of_dependencies_names_each() -> None:
    declared = re.search(r"^dependencies = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)
    assert declared
    table = README[README.index("## Dependencies") :]
    for name in re.findall(r'"([a-z0-9-]+)[\[>]', declared[1]):
        assert name in table, name


@pytest.mark.parametrize("word", ["drain", "sweeper", "up", "signin", "doctor", "flow", "retention"])
def test_the_commands_it_names_are_there(word: str) -> None:
    assert (ROOT / "boards" / "management" / "commands" / f"{word}.py").exists()
    assert f"`{word}" in README


def test_every_folder_it_names_is_there() -> None:
    table = README[README.index("## Folders") : README.index("## How a task moves")]
    for path in re.findall(r"`([\w/]+(?:/|\.py))`", table):
        assert (ROOT / path).exists(), path


def test_the_worker_it_shows_runs_as_shown(tmp_path: Path) -> None:
    code = README.partition("```python\n")[2].partition("```")[0]
    page = tmp_path / "page"
    page.write_text("Tides are high at noon.")
    port, before = RecordingPort(), dict(WORKERS)
    try:
        (tmp_path / "workers.py").write_text(code)
        runpy.run_path(str(tmp_path / "workers.py"))
        work = WORKERS["summarise"].function
        with pytest.raises(Suspended):
            work(SyncWorkerTask(TaskFacts("t1", page.as_uri()), port))
        asked = port.asked[-1]
        port.answers[asked.key] = Answer("approval", asked.key, "approve", draft=asked.draft)
        told = TaskFacts("t1", "Summarise it", input={"url": page.as_uri()})
        assert work(SyncWorkerTask(told, port)) == {"summary": "Tides are high at noon."}
    finally:
        WORKERS.clear()
        WORKERS.update(before)


def test_the_documented_production_settings_pass_djangos_deploy_check(tmp_path: Path) -> None:
    block = re.search(r"```ini\n(DATABASE_URL=.*?)```", DEPLOY, re.DOTALL)
    assert block
    told = dict(line.split("=", 1) for line in block[1].split())
    told |= {"DATA_DIR": str(tmp_path), "STATIC_ROOT": str(tmp_path / "static")}
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    call = [sys.executable, str(ROOT / "manage.py"), "check", "--deploy", "--fail-level", "WARNING"]
    checked = subprocess.run(call, env=env | told, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stderr
    assert "no issues" in checked.stdout


def test_production_without_a_secret_key_is_refused_in_words(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "DATABASE_URL": "postgresql://db.example.org/x", "DATA_DIR": str(tmp_path)}
    call = [sys.executable, str(ROOT / "manage.py"), "check"]
    checked = subprocess.run(call, env=env, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 1
    assert checked.stderr.startswith("Set SECRET_KEY:")
