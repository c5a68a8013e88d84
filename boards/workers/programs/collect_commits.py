"""Lists the commits between two refs of a git repository, for the flow `release-notes`.

A program of its own, standard library only: it reads the task JSON, prints a line per commit as it goes and hands in
a JSON object at the end. It changes nothing, and runs nothing but `git`, with what could start other programs switched
off.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

MAX_COMMITS = 2_000
MAX_RESULT_BYTES = 500_000  # the result becomes part of later tasks' input, which is limited to 1 MiB in all
MAX_SUBJECT, MAX_BODY, MAX_AUTHOR = 300, 600, 100
FIELDS = "%H%x00%an%x00%aI%x00%s%x00%b"

# A repository's own configuration can name programs that git would start.
SAFE_OPTIONS = [
    "--no-pager",
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "log.showSignature=false",
    "-c", "diff.external=",
]  # fmt: skip

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Unusable(Exception):
    """The input cannot be used; the message is the one sentence that people read on the card."""


def main() -> int:
    try:
        result = collect(**_inputs(_read_task()))
    except Unusable as error:
        sys.stderr.write(f"{error}\n")
        return 2
    _hand_in(result)
    return 0


def collect(repo: str, start: str = "", end: str = "") -> dict[str, Any]:
    """{"repo", "from", "to", "commits": [{"sha", "subject", "body", "author", "date"}], "note"?}, newest first.

    `start` defaults to the last tag before `end`, or to the first commit (then included); `end` to HEAD. Raises
    Unusable with a sentence.
    """
    git = Git(_folder(repo))
    git.check()
    end = end or "HEAD"
    tip = git.commit(end)
    if not start:
        start = git.last_tag(tip)
    if start:
        base = git.commit(start)
        commits, note = _listed(git, [f"{base}..{tip}"])
    else:
        commits, note = _listed(git, [tip])
        start = commits[-1]["sha"][:7] if commits else "the first commit"
    if not commits:
        raise Unusable(f"There are no commits between {start} and {end}. Name an earlier start or a later end.")
    result: dict[str, Any] = {"repo": str(git.folder), "from": start, "to": end, "commits": commits}
    if note:
        _say(note)
        result["note"] = note
    return result


def _read_task() -> dict[str, Any]:
    """The task JSON from standard input, or from the file that ORCHESTRA_TASK names."""
    text = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
    if not text.strip() and (path := os.environ.get("ORCHESTRA_TASK")):
        text = Path(path).read_text(encoding="utf-8")
    try:
        task = json.loads(text)
    except ValueError:
        raise Unusable("This program reads a task as JSON on its standard input, and there was none.") from None
    return task if isinstance(task, dict) else {}


def _hand_in(result: dict[str, Any]) -> None:
    """Into the result file where the caller names one, which keeps it out of the transcript; else printed last."""
    text = json.dumps(result, ensure_ascii=False)
    if path := os.environ.get("ORCHESTRA_RESULT"):
        Path(path).write_text(text, encoding="utf-8", errors="replace")
        count = len(result["commits"])
        _say(f"{count:,} {'commit' if count == 1 else 'commits'} from {result['from']} to {result['to']}")
    else:
        _say(text)


def _inputs(task: dict[str, Any]) -> dict[str, str]:
    given = task.get("input") or {}
    told = given.get("inputs", given) if isinstance(given, dict) else {}
    words = {name: told.get(key) or "" for name, key in (("repo", "repo"), ("start", "from"), ("end", "to"))}
    for name, value in words.items():
        if not isinstance(value, str) or "\0" in value:
            raise Unusable(f'The input "{name}" must be text.')
    return {name: value.strip() for name, value in words.items()}


def _folder(repo: str) -> Path:
    if not repo:
        raise Unusable("No repository was named. Give the path of a checkout.")
    try:
        folder = Path(repo).expanduser()
    except RuntimeError:
        raise Unusable(f"There is no home folder for {repo}. Give the full path of a checkout.") from None
    if not folder.is_absolute():
        raise Unusable(f"{repo} is not a full path. Give the path of a checkout from / or ~ on.")
    if not folder.is_dir():
        raise Unusable(f"There is no git repository at {folder}. Give the path of a checkout.")
    return folder


class Git:
    """The few questions that are asked of one repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        # Answers in English, and no question, lock or download by the way.
        self._env |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}

    def check(self) -> None:
        """Raise Unusable unless the folder lies in a repository that this user may read."""
        try:
            answer = self._ask("rev-parse", "--git-dir")
        except FileNotFoundError:
            raise Unusable("The program git is not installed where this worker runs. Install it there.") from None
        except PermissionError:
            raise Unusable(
                f"The user that runs the workers may not read {self.folder}. Give it the right to."
            ) from None
        if answer.returncode == 0:
            return
        if "dubious ownership" in answer.stderr:
            raise Unusable(
                f"The repository at {self.folder} belongs to another user than the one that runs the workers. "
                f"Allow it there with: git config --global --add safe.directory {self.folder}"
            )
        if "not a git repository" in answer.stderr:
            raise Unusable(f"There is no git repository at {self.folder}. Give the path of a checkout.")
        raise Unusable(f"git cannot read {self.folder}: {_last_line(answer.stderr)}")

    def commit(self, ref: str) -> str:
        """The full id of the commit that `ref` names. Raises Unusable."""
        # --end-of-options: a ref is never an option, whatever it begins with.
        answer = self._ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        if answer.returncode == 0 and re.fullmatch(r"[0-9a-f]{40,64}", answer.stdout.strip()):
            return answer.stdout.strip()
        if ref == "HEAD":
            raise Unusable(f"The repository at {self.folder} has no commits yet.")
        raise Unusable(
            f'The ref "{_clean(ref)[:200]}" does not exist in {self.folder}. Name a tag, a branch or a commit.'
        )

    def last_tag(self, tip: str) -> str:
        """The nearest tag before the commit `tip`, or ""; a tag on `tip` itself would leave nothing to list."""
        for start in (tip, f"{tip}^"):
            answer = self._ask("describe", "--tags", "--abbrev=0", start)
            tag = answer.stdout.strip()
            if answer.returncode == 0 and tag and self.commit(tag) != tip:
                return tag
        return ""

    def count(self, revisions: list[str]) -> int:
        answer = self._ask("rev-list", "--count", "--no-merges", *revisions)
        return int(answer.stdout.strip() or 0) if answer.returncode == 0 else 0

    def log(self, revisions: list[str], limit: int) -> Iterator[list[str]]:
        """sha, author, date, subject and body of each commit, newest first, as git finds them."""
        command = ["log", "-z", "--no-merges", "--no-color", "--encoding=UTF-8", f"-n{limit}", f"--format={FIELDS}"]
        running = subprocess.Popen(
            self._command(*command, *revisions, "--"),
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert running.stdout is not None
        assert running.stderr is not None
        with running:
            yield from _records(running.stdout, len(FIELDS.split("%x00")))
            told = running.stderr.read().decode("utf-8", "replace")
        if running.returncode != 0:
            raise Unusable(f"git could not list the commits of {self.folder}: {_last_line(told)}")

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(*words),
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )

    def _command(self, *words: str) -> list[str]:
        return ["git", *SAFE_OPTIONS, "-C", str(self.folder), *words]


def _records(stream: IO[bytes], width: int) -> Iterator[list[str]]:
    """Groups of `width` fields out of a stream in which NUL ends each; a commit message cannot hold one."""
    waiting = b""
    fields: list[str] = []
    while chunk := stream.read1(65_536):  # type: ignore[attr-defined]
        *whole, waiting = (waiting + chunk).split(b"\0")
        for field in whole:
            fields.append(field.decode("utf-8", "replace"))
            if len(fields) == width:
                yield fields
                fields = []


def _listed(git: Git, revisions: list[str]) -> tuple[list[dict[str, str]], str]:
    """The commits, each printed as it comes, and a note where not all are listed."""
    commits: list[dict[str, str]] = []
    size = 0
    for sha, author, date, subject, body in git.log(revisions, MAX_COMMITS + 1):
        commit = {
            "sha": sha,
            "subject": _clean(subject)[:MAX_SUBJECT],
            "body": _clean(body).strip()[:MAX_BODY],
            "author": _clean(author)[:MAX_AUTHOR],
            "date": date,
        }
        size += len(json.dumps(commit, ensure_ascii=False).encode("utf-8", "replace"))
        if len(commits) == MAX_COMMITS or size > MAX_RESULT_BYTES:
            return commits, f"Only the newest {len(commits):,} of {git.count(revisions):,} commits are listed."
        commits.append(commit)
        _say(f"{sha[:7]} {commit['subject']}")
    return commits, ""


def _say(line: str) -> None:
    """One line of the transcript, shown as soon as it is printed."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _clean(text: str) -> str:
    """Without control characters, which a terminal or a page would obey."""
    return _CONTROL.sub("", text)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it gave no reason"])[-1].strip()


if __name__ == "__main__":
    sys.exit(main())
