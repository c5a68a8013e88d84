"""The embedded PostgreSQL: started by the first process that needs it, stopped by the last.

It owns one folder with the cluster, its log, its socket and two lock files; the programs come from a wheel
(`orchestra.pgwheel`). It knows nothing of Django: the settings ask for an address, and `manage.py`, `asgi.py`
and the tests call `ensure` (spec: engineering-notes, section 1).
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import pwd
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

import psycopg

from orchestra import pgwheel
from orchestra.pgwheel import MAJOR, OWN_SERVER, EmbeddedError

NAME = USER = "orchestra"
PORT = "5432"  # with no TCP it is only the end of the socket's file name
PATIENCE = 60  # seconds for a server to come up, to go down, or to leave a state in between
SOCKET_PATH_BYTES = 107 if sys.platform == "linux" else 103  # what `sockaddr_un` holds
OPTIONS = ("listen_addresses=", "unix_socket_permissions=0700", "max_connections=200", "shared_buffers=128MB")
LOCALE = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
HELP = {"-h", "--help", "--version"}
SERVERLESS = {"help", "version", "check", "collectstatic", "findstatic", "makemessages", "compilemessages"}
SERVERLESS |= {"diffsettings", "startapp", "startproject"} | HELP


def data_dir() -> Path:
    """The folder for what the product keeps on this machine: DATA_DIR, else `.orchestra` in the checkout."""
    given = os.environ.get("DATA_DIR", "").strip()
    return Path(given or Path(__file__).resolve().parent.parent / ".orchestra").expanduser().absolute()


def home(data_dir: Path) -> Path:
    """The folder of the cluster and its locks: `postgres` in the data folder.

    For root a folder of its own: the server runs as a system user then, and the data folder may lie in a
    private home, which is never opened.
    """
    return Path(f"/var/lib/orchestra-{_hash(data_dir)}") if os.geteuid() == 0 else data_dir / "postgres"


def address(data_dir: Path) -> dict[str, str]:
    """Where the server of this data folder listens, as Django's HOST, PORT, USER, NAME. Starts nothing."""
    return {"HOST": str(_socket_folder(home(data_dir))), "PORT": PORT, "USER": USER, "NAME": NAME}


def wanted_by(argv: list[str]) -> bool:
    """Whether this `manage.py` call works with the database, or may (an unknown command does)."""
    command, rest = (argv[1:2] or ["help"])[0], argv[2:]
    if command == "check" and any(word.startswith("--database") for word in rest):
        return True
    return command not in SERVERLESS and not HELP & set(rest)


def ensure() -> None:
    """Start or join the server and be one of its users until this process ends. With DATABASE_URL: nothing.

    A second call only looks whether the server still runs, and starts it again if it does not. A child made
    by fork is a user of its own. Raises EmbeddedError.
    """
    global _held
    if os.environ.get("DATABASE_URL", "").strip():
        return
    exit_on_sigterm()
    cluster = _held[0] if _held else _Cluster.of(data_dir())
    try:
        cluster.make_folders()
        with _lock(cluster.home / "start", fcntl.LOCK_EX):
            if _held is None:
                atexit.register(stop_if_last)
                _held = cluster, _locked(cluster.home / "users", fcntl.LOCK_SH)
            _bring_up(cluster)
    except (OSError, psycopg.Error) as error:
        stop_if_last()
        raise EmbeddedError(
            f"The embedded PostgreSQL in {cluster.home} cannot start ({error}): name another folder in DATA_DIR, "
            f"or {OWN_SERVER}."
        ) from error
    except BaseException:
        stop_if_last()
        raise


def stop_if_last() -> None:
    """Give up this process's use of the server, and stop it when nobody else uses it. Runs at exit."""
    global _held
    if _held is None:
        return
    (cluster, users), _held = _held, None
    try:
        with _lock(cluster.home / "start", fcntl.LOCK_EX), contextlib.suppress(BlockingIOError):
            os.close(users)  # not LOCK_UN: that would also take the lock from a forked child that shares it
            with _lock(cluster.home / "users", fcntl.LOCK_EX | fcntl.LOCK_NB):
                _stop(cluster)
    except FileNotFoundError:  # the folder was removed: nobody can join any more
        _stop(cluster)


def exit_on_sigterm() -> None:
    """Let SIGTERM and SIGHUP end this process by SystemExit, so that exit handlers run.

    A handler that stands already stays, `nohup` included. Outside the main thread it does nothing.
    """
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


@dataclass(frozen=True)
class _Cluster:
    """Where one cluster lies, and the system user that runs it (None: the user of this process)."""

    home: Path
    sockets: Path
    owner: pwd.struct_passwd | None

    @classmethod
    def of(cls, data_dir: Path) -> _Cluster:
        place = home(data_dir)
        return cls(place, _socket_folder(place), pgwheel.system_user())

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def mark(self) -> str:
        """Stands in the title of every process of this server (`cluster_name`)."""
        return f"orchestra-{_hash(self.home)}"

    def servers(self) -> set[int]:
        """The process ids of this cluster's server: the postmaster and what it started."""
        return pgwheel.servers(self.mark, f"\0{self.data}\0")

    def make_folders(self) -> None:
        """Folders of our own only. Root keeps the upper one: the server may not touch locks and programs."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o711 if self.owner else 0o700)
        self.run.mkdir(exist_ok=True)
        self.give(self.run)
        if self.sockets != self.run:
            with contextlib.suppress(FileExistsError):
                self.sockets.mkdir(mode=0o700)
            found = self.sockets.lstat()  # it lies in /tmp, where anyone may have put something of that name
            if found.st_uid != os.geteuid() or found.st_mode != 0o40700:
                raise EmbeddedError(f"{self.sockets} is not a private folder of this user: remove it.")

    def give(self, folder: Path) -> None:
        folder.chmod(0o700)
        if self.owner:
            os.chown(folder, self.owner.pw_uid, self.owner.pw_gid)


_held: tuple[_Cluster, int] | None = None  # what this process uses, and its open lock file


def _hash(path: Path) -> str:
    return hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:12]


def _socket_folder(home: Path) -> Path:
    """A private folder in /tmp for a path too long for a socket, or with signs that mean a list of paths."""
    text = str(home / "run")
    if len(os.fsencode(f"{text}/.s.PGSQL.{PORT}")) <= SOCKET_PATH_BYTES and not set(text) & set(',"'):
        return Path(text)
    # Not TMPDIR: every process has to come to the same address. `make_folders` checks whose it is.
    return Path(f"/tmp/orchestra-{os.geteuid()}-{_hash(home)}")  # noqa: S108


def _locked(path: Path, kind: int) -> int:
    """An open lock file; the kernel releases it with the last process that holds it, however that ends."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, kind)
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextlib.contextmanager
def _lock(path: Path, kind: int) -> Iterator[None]:
    handle = _locked(path, kind)
    try:
        yield
    finally:
        os.close(handle)


def _bring_up(cluster: _Cluster) -> None:
    """Under the start lock: a cluster, its server and the database, each made or started if it is missing."""
    _check_version(cluster)
    deadline = time.monotonic() + PATIENCE
    while not _answers(cluster):
        if not (living := cluster.servers()):
            _start(cluster)
        elif not (cluster.data / "PG_VERSION").exists():  # it serves a folder that was removed
            _stop(cluster)
        elif time.monotonic() > deadline:
            pids = " ".join(map(str, sorted(living)))
            raise EmbeddedError(f"The PostgreSQL of {cluster.data} does not answer: end it (`kill {pids}`).")
        else:  # left in between by a killed process: it comes up, or goes away
            time.sleep(0.05)
    with _connect(cluster) as connection:
        if not connection.execute("select 1 from pg_database where datname = %s", [NAME]).fetchone():
            connection.execute(f"create database {NAME}")


def _check_version(cluster: _Cluster) -> None:
    version = cluster.data / "PG_VERSION"
    found = version.read_text().strip() if version.exists() else None
    if found is None and cluster.data.exists() and any(cluster.data.iterdir()):
        raise EmbeddedError(f"{cluster.data} holds something else than a PostgreSQL cluster: move it away.")
    if found not in {None, str(MAJOR)}:
        raise EmbeddedError(
            f"{cluster.data} was made by PostgreSQL {found}, and the embedded one is {MAJOR}. Nothing was "
            f"changed. Start that folder with PostgreSQL {found} and save it with pg_dump, move the folder "
            f"away, and load the dump into the new one; or set DATABASE_URL to a server of that version."
        )


def _answers(cluster: _Cluster) -> bool:
    try:
        with _connect(cluster) as connection:
            row = connection.execute("show data_directory").fetchone()
    except psycopg.OperationalError:
        return False
    if not row or not os.path.samefile(row[0], cluster.data):
        raise EmbeddedError(f"Another PostgreSQL answers in {cluster.sockets}: stop it, or {OWN_SERVER}.")
    return True


def _connect(cluster: _Cluster) -> psycopg.Connection:
    return psycopg.connect(
        host=str(cluster.sockets),
        port=PORT,
        user=USER,
        dbname="postgres",
        connect_timeout=10,
        autocommit=True,
    )


def _start(cluster: _Cluster) -> None:
    """With no process of this cluster alive: clear what a dead one left, start, wait for connections."""
    binaries = pgwheel.binaries(cluster.home, cluster.owner)
    if not (cluster.data / "PG_VERSION").exists():
        _initdb(cluster, binaries)
    for left in (cluster.data / "postmaster.pid", cluster.sockets / f".s.PGSQL.{PORT}.lock"):
        left.unlink(missing_ok=True)  # PostgreSQL believes the process id in it, which may be anybody's by now
    log = cluster.run / "log"
    if log.exists() and log.stat().st_size > 5_000_000:
        log.replace(log.with_name("log.old"))
    settings = [f"-c{setting}" for setting in (*OPTIONS, f"cluster_name={cluster.mark}")]
    # pg_ctl hands a `-D` of its own to the shell without quoting it, hence PGDATA and the folder in here.
    options = shlex.join(["-D", str(cluster.data), "-k", str(cluster.sockets), *settings])
    words = ["-w", "-t", str(PATIENCE), "-l", "log", "-o", options, "start"]
    program, folder = binaries / "pg_ctl", cluster.run
    result = pgwheel.execute(program, *words, owner=cluster.owner, folder=folder, PGDATA=str(cluster.data))
    if result.returncode and not cluster.servers():  # one that lives was on its way before this try
        said = log.read_text(errors="replace") if log.exists() else result.stderr
        raise EmbeddedError(
            f"The embedded PostgreSQL cannot start: mend what {log} says, or {OWN_SERVER}. It ends with:\n{_tail(said)}"
        )


def _initdb(cluster: _Cluster, binaries: Path) -> None:
    """Under another name first: a process killed on the way leaves no half cluster behind."""
    for left in cluster.home.glob("initdb-*"):
        shutil.rmtree(left, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix="initdb-", dir=cluster.home))
    cluster.give(fresh)
    words = ["--username", USER, "--auth", "trust", *LOCALE, "--no-instructions", "--pgdata", str(fresh)]
    result = pgwheel.execute(binaries / "initdb", *words, owner=cluster.owner)
    if result.returncode:
        raise EmbeddedError(
            f"The embedded PostgreSQL cannot make {cluster.data}: mend what follows, or {OWN_SERVER}.\n"
            f"{_tail(result.stderr)}"
        )
    fresh.rename(cluster.data)
    if cluster.owner:
        who = f"user {cluster.owner.pw_name}"
        sys.stderr.write(f"The embedded PostgreSQL keeps its data in {cluster.home} ({who}).\n")


def _tail(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-8:])


def _stop(cluster: _Cluster) -> None:
    """What `pg_ctl -m fast stop` does, but to the process that is this server, whatever the pid file says."""
    for pid in pgwheel.servers(f"cluster_name={cluster.mark}"):  # the postmaster: the rest have titles instead
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + PATIENCE
    while cluster.servers() and time.monotonic() < deadline:
        time.sleep(0.02)
