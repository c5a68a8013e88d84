"""The workers of `release-notes` by themselves: what they read out of commits and words, and where they write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from boards.workers.builtin import release_notes
from boards.workers.builtin.review_words import Wishes, read_wishes
from boards.workers.programs import collect_commits
from boards.workers.protocol import SyncWorkerTask, TaskFacts
from tests.flows.repository import Repository, small_repository
from tests.flows.tiny_drain import Said

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return small_repository(tmp_path / "checkout")


def collect(**inputs: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "boards.workers.programs.collect_commits"]
    told = json.dumps({"input": {"inputs": inputs}})
    return subprocess.run(argv, input=told, capture_output=True, text=True, check=False, cwd=ROOT)


class TestCollect:
    def test_it_prints_a_line_per_commit_and_the_result_last(self, repository: Repository) -> None:
        repository.commit("Add words", "A body.\n\nIn two parts.", "Mei Tanaka <mei@example.org>")
        ran = collect(repo=str(repository.folder))
        *lines, last = ran.stdout.splitlines()
        result = json.loads(last)
        assert (result["from"], result["to"], len(lines)) == ("v1.0", "HEAD", 7)
        first = result["commits"][0]
        assert lines[0] == f"{first['sha'][:7]} Add words"
        assert (first["author"], first["body"]) == ("Mei Tanaka", "A body.\n\nIn two parts.")
        assert first["date"][:2] == "20"

    def test_without_a_tag_it_begins_with_the_first_commit(self, tmp_path: Path) -> None:
        made = Repository(tmp_path / "plain")
        first = made.commit("Begin")
        made.commit("Go on")
        result = collect_commits.collect(str(made.folder))
        assert (result["from"], len(result["commits"])) == (first[:7], 2)

    def test_a_tag_on_the_newest_commit_is_not_where_it_begins(self, repository: Repository) -> None:
        repository.git("tag", "v2.0")
        result = collect_commits.collect(str(repository.folder))
        assert (result["from"], len(result["commits"])) == ("v1.0", 6)

    def test_merges_are_left_out(self, repository: Repository) -> None:
        repository.git("checkout", "--quiet", "-b", "side", "v1.0")
        repository.commit("Add a side")
        repository.git("merge", "--quiet", "--no-edit", "main")
        subjects = [c["subject"] for c in collect_commits.collect(str(repository.folder), "v1.0")["commits"]]
        assert "Add a side" in subjects
        assert not any(subject.startswith("Merge") for subject in subjects)

    def test_a_folder_without_commits_says_so(self, tmp_path: Path) -> None:
        made = Repository(tmp_path / "empty")
        ran = collect(repo=str(made.folder))
        assert (ran.returncode, ran.stderr.strip()) == (2, f"The repository at {made.folder} has no commits yet.")

    def test_it_lists_a_bounded_number_and_says_so(
        self, repository: Repository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(collect_commits, "MAX_COMMITS", 4)
        result = collect_commits.collect(str(repository.folder))
        assert len(result["commits"]) == 4
        assert result["note"] == "Only the newest 4 of 6 commits are listed."

    def test_hostile_words_are_cut_and_cleaned(self, repository: Repository) -> None:
        repository.commit("\x1b[31mred\x1b[0m " + "x" * 5000, "y" * 5000)
        first = collect_commits.collect(str(repository.folder))["commits"][0]
        assert first["subject"].startswith("[31mred[0m xxx")
        assert (len(first["subject"]), len(first["body"])) == (300, 600)

    def test_programs_named_in_the_repositorys_configuration_are_not_run(
        self, repository: Repository, tmp_path: Path
    ) -> None:
        trap, caught = tmp_path / "trap", tmp_path / "caught"
        trap.write_text(f"#!/bin/sh\ntouch {caught}\n")
        trap.chmod(0o755)
        for name in ("core.fsmonitor", "gpg.program", "core.pager", "diff.external"):
            repository.git("config", name, str(trap))
        repository.git("config", "log.showSignature", "true")
        assert len(collect_commits.collect(str(repository.folder))["commits"]) == 6
        assert not caught.exists()

    @pytest.mark.parametrize("told", ["", "[]", "nonsense", '{"input": {"inputs": {"repo": 3}}}'])
    def test_what_is_no_task_is_said_in_a_sentence(self, told: str) -> None:
        argv = [sys.executable, "-m", "boards.workers.programs.collect_commits"]
        ran = subprocess.run(argv, input=told, capture_output=True, text=True, check=False, cwd=ROOT)
        assert ran.returncode == 2
        assert len(ran.stderr.strip().splitlines()) == 1

    def test_the_task_may_come_in_a_file(self, repository: Repository, tmp_path: Path) -> None:
        told = tmp_path / "task.json"
        told.write_text(json.dumps({"input": {"inputs": {"repo": str(repository.folder)}}}))
        argv = [sys.executable, "-m", "boards.workers.programs.collect_commits"]
        ran = subprocess.run(
            argv, env={"ORCHESTRA_TASK": str(told), "PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
        assert len(json.loads(ran.stdout.splitlines()[-1])["commits"]) == 6


@pytest.mark.parametrize(
    ("subject", "kind", "told"),
    [
        ("feat(board): show ages.", "feat", "Show ages"),
        ("FIX: crash", "fix", "Crash"),
        ("docs: explain", "docs", "Explain"),
        ("perf!: faster", "perf", "Faster"),
        ("bugfix: the clock", "fix", "The clock"),
        ("Add a button", "feat", "Add a button"),
        ("Fixed a typo", "fix", "Fixed a typo"),
        ("Document the flows", "docs", "Document the flows"),
        ("Remove the old door", "refactor", "Remove the old door"),
        ("Bump the linter", "chore", "Bump the linter"),
        ("Whatever else", "other", "Whatever else"),
        ("日本語", "other", "日本語"),
        ("", "other", ""),
    ],
)
def test_a_commit_is_sorted_by_its_prefix_else_by_its_first_word(subject: str, kind: str, told: str) -> None:
    item = release_notes.sorted_commit({"subject": subject, "sha": "a" * 40})
    assert (item["type"], item["subject"], item["sha"]) == (kind, told, "aaaaaaa")


def test_breaking_changes_are_found_in_prefix_and_footer() -> None:
    assert release_notes.sorted_commit({"subject": "feat(x)!: y"})["breaking"]
    assert release_notes.sorted_commit({"subject": "feat: y", "body": "Why.\n\nBREAKING CHANGE: all"})["breaking"]
    assert not release_notes.sorted_commit({"subject": "feat: y!", "body": "no breaking change"})["breaking"]


@pytest.mark.parametrize(
    ("words", "wishes"),
    [
        ("No chores please.", Wishes(frozenset({"chore"}), honoured=("without chore",))),
        ("Shorter!", Wishes(short=True, honoured=("shorter",))),
        ("without docs and tests", Wishes(frozenset({"docs", "test"}), honoured=("without docs", "without test"))),
        ("title: Halyard 2.4", Wishes(title="Halyard 2.4", honoured=("the title “Halyard 2.4”",))),
        ("Mention Bob.", Wishes(unmet=("Mention Bob.",))),
        ("", Wishes()),
    ],
)
def test_a_reviewers_words_are_followed_or_shown(words: str, wishes: Wishes) -> None:
    assert read_wishes([words]) == wishes


def test_what_is_followed_only_in_part_is_shown_too() -> None:
    wishes = read_wishes(["Make it shorter and mention Bob."])
    assert wishes.short
    assert wishes.unmet == ("Make it shorter and mention Bob.",)


def grouped(*subjects: str) -> dict[str, Any]:
    collected = {
        "from": "a",
        "to": "b",
        "commits": [{"subject": s, "sha": "1234567", "author": "Ada"} for s in subjects],
    }
    facts = TaskFacts("t1", "Group", input={"steps": {"collect": {"output": collected}}})
    said = Said()
    answer: dict[str, Any] = release_notes.group(SyncWorkerTask(facts, said))
    assert said.notes == [f"{len(subjects)} of {len(subjects)} commits sorted"]
    return answer


def test_a_short_draft_shows_five_of_a_group_and_leaves_the_rest_out() -> None:
    told = grouped(*[f"feat: thing {n}" for n in range(8)], "whatever")
    text = release_notes.markdown("T", told, Wishes(short=True), today="1 May 2026")
    assert text.count("- Thing") == 5
    assert "- and 3 more" in text
    assert "Other" not in text
    assert "1 May 2026. 9 commits from `a` to `b`: 8 in Features." in text


def test_words_of_a_commit_stay_words_in_the_notes() -> None:
    told = grouped("feat: <img src=x onerror=alert(1)> [x](javascript:y) `code` # no heading\nx")
    text = release_notes.markdown("# <b>", told, Wishes())
    assert r"\<img src=x onerror=alert(1)\>" in text
    assert r"\[x\](javascript:y)" in text
    assert text.startswith("# \\# \\<b\\>\n")


RUN = {"space": "halyard", "flow": "release-notes", "number": 3}


def test_publishing_twice_leaves_one_whole_file(tmp_path: Path) -> None:
    for words in ("first", "second"):
        assert (
            release_notes.write_notes(tmp_path, RUN, "Halyard 2.4 — “big”", words)
            == "halyard/release-notes/3/halyard-2-4-big.md"
        )
    folder = tmp_path / "halyard" / "release-notes" / "3"
    assert [path.name for path in folder.iterdir()] == ["halyard-2-4-big.md"]
    assert (folder / "halyard-2-4-big.md").read_text() == "second"


@pytest.mark.parametrize("title", ["../../etc/passwd", "/etc/passwd", "日本語", "", "." * 300, "a\0b"])
def test_no_title_leads_out_of_the_folder(tmp_path: Path, title: str) -> None:
    path = tmp_path / release_notes.write_notes(tmp_path, RUN, title, "x")
    assert path.parent == tmp_path / "halyard" / "release-notes" / "3"
    assert len(path.name) <= 84


@pytest.mark.parametrize(
    "run",
    [
        RUN | {"flow": "../x"},
        RUN | {"flow": "a/b"},
        RUN | {"space": ".."},
        RUN | {"number": 0},
        {"flow": "ok", "number": 3},
        {},
    ],
)
def test_no_run_leads_out_of_the_folder(tmp_path: Path, run: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no space, key and number"):
        release_notes.write_notes(tmp_path, run, "x", "x")


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "published"
    outside.mkdir()
    root.mkdir()
    (root / "halyard").symlink_to(outside)
    with pytest.raises(ValueError, match="leads out"):
        release_notes.write_notes(root, RUN, "x", "x")
    assert not list(outside.rglob("*.md"))
