"""A small git repository for the tests, made by git itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SUBJECTS = (
    "feat(board): show the age of a lane",
    "Fix the order of two answers at once",
    "docs: explain how a flow is written",
    "chore: bump the linter",
    "perf: claim in batches of 50",
    "feat!: rename the board's key",
)


class Repository:
    """A folder under git. Nobody's configuration plays a part."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Ada Lovelace",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada Lovelace",
            "GIT_COMMITTER_EMAIL": "ada@example.org",
        }
        done = subprocess.run(["git", *words], cwd=self.folder, env=env, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, subject: str, body: str = "", author: str = "Ada Lovelace <ada@example.org>") -> str:
        words = ["commit", "--quiet", "--allow-empty", "--cleanup=verbatim", f"--author={author}", "-m", subject]
        self.git(*words, *(["-m", body] if body else []))
        return self.git("rev-parse", "HEAD")


def small_repository(folder: Path) -> Repository:
    """One commit tagged v1.0, and six after it."""
    made = Repository(folder)
    made.commit("Begin")
    made.git("tag", "v1.0")
    for subject in SUBJECTS:
        made.commit(subject)
    return made
