"""`manage.py up`: the whole product on one machine as one process tree.

It prepares (migrations, first space), then hands the children to `boards.supervising` and says where to look. It
serves no request and works no task itself. The web child is given a socket that is bound here, so that a port of 0 is
known before, and a restart of the child refuses nobody. `manage.py` has put `--data-dir` into the environment before
the settings were read.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection, connections
from django.db.migrations.executor import MigrationExecutor
from rich.console import Console

from boards import console, supervising
from boards.demo import first_space
from boards.signin import make_signin_link
from orchestra import embedded
from orchestra.pgwheel import EmbeddedError

STOPPED, GAVE_UP, NOT_CLEAN = 0, 1, 3
START_PATIENCE_S = 180.0  # while web lives; one that keeps dying ends it sooner
DATABASE_LOOK_S = 3.0
SWEEPER_DELAY_S = 2.0  # nothing is due in the first seconds, and two processors serve the page sooner without it
ONE_AT_A_TIME = 0x0B0B  # advisory lock: two starts at once must not both migrate and both make the first space


class Command(BaseCommand):
    help = "Start database, web, drain and sweeper on this machine as one process tree. Ctrl-C stops all of it."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=_port, default=8000, help="0: any free one, which is then printed.")
        parser.add_argument("--host", default="127.0.0.1", help="Address to listen on (default: this machine only).")
        parser.add_argument("--no-demo", action="store_true", help="Start with an empty space.")
        parser.add_argument("--data-dir", help="Where data is kept (default: .orchestra in the checkout).")
        parser.add_argument(
            "--print-link", action="store_true", help="Print a sign-in link even if this is no terminal."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        screen = console.Screen(highlight=False, no_color=options["no_color"] or None)
        site = Site(options["host"], options["port"])
        try:
            prepare(demo=not options["no_demo"], say=screen.print)
        except DatabaseError as error:
            raise CommandError(f"The database cannot be prepared: {error}") from error
        finally:
            connections.close_all()
        shows_link = prints_link(asked=options["print_link"], terminal=sys.stdout.isatty(), loopback=site.is_loopback)
        say = console.Prefixed(screen, ("web", "drain", "sweeper", "up"))
        tree = supervising.Tree(programs(site), say, settings.DRAIN_GRACE_MS / 1000)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: tree.stop())
        watch = Watch(site, lambda: announce(screen, site, shows_link))
        try:
            trouble = tree.run(watch.tend)
        except BaseException:
            tree.end()
            raise
        sys.exit(_end(tree, say, trouble))


def _end(tree: supervising.Tree, say: supervising.Say, trouble: str) -> int:
    """Stop the children; answers the exit code, whose reason is the last line that was said."""
    grace = f"{settings.DRAIN_GRACE_MS / 1000:g} s"
    say("up", trouble or f"Stopping: running tasks get {grace} to finish, then they are handed back. Again: at once.")
    killed = tree.end()
    if killed:
        say("up", f"Stopped, but {', '.join(killed)} did not end when asked and had to be killed.")
    elif trouble:
        say("up", "Stopped everything because of that.")
    else:
        say("up", "Stopped. Nothing is lost; the next start goes on from here.")
    return GAVE_UP if trouble else NOT_CLEAN if killed else STOPPED


class Site:
    """The address that is served: a bound socket and what follows from it. Raises CommandError in words."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.socket = _listen(host, port)
        self.port: int = self.socket.getsockname()[1]
        self.address: str = self.socket.getsockname()[0]

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.address).is_loopback

    @property
    def is_every_address(self) -> bool:
        return ipaddress.ip_address(self.address).is_unspecified

    @property
    def url(self) -> str:
        """What a browser opens; SITE_URL says it where a proxy stands in front."""
        host = socket.gethostname() if self.is_every_address else self.host
        return settings.SITE_URL.rstrip("/") or f"http://{_in_url(host)}:{self.port}"

    def environment(self) -> dict[str, str]:
        """What the children need to know beyond our own environment."""
        hosts = [*settings.ALLOWED_HOSTS, _in_url(self.host), _in_url(self.address)]
        hosts += [socket.gethostname()] if self.is_every_address else []
        here = {
            "DATA_DIR": str(settings.DATA_DIR),
            "DJANGO_SETTINGS_MODULE": os.environ["DJANGO_SETTINGS_MODULE"],
            "ALLOWED_HOSTS": ",".join(dict.fromkeys(hosts)),
            "SITE_URL": self.url,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(settings.BASE_DIR), os.environ.get("PYTHONPATH", "")])),
            "PYTHONUNBUFFERED": "1",
        }
        # Plain HTTP never leaves a loopback address. DEBUG stays off: error pages with settings are for nobody.
        usual = {"INSECURE_HTTP": "1"} if self.is_loopback else {}
        # A collected folder may be older than this checkout, so files are served from where they lie.
        return usual | {"HASHED_STATIC": "0"} | os.environ | here

    def daphne_words(self) -> list[str]:
        """-v 0: its access log would hold sign-in links."""
        words = ["daphne", "-v", "0", "--no-server-name"]
        if self.socket.family == socket.AF_INET6:  # daphne reads a handed-down socket as IPv4, and its peers wrongly
            self.socket.close()
            return [*words, "-b", self.address, "-p", str(self.port), "orchestra.asgi:application"]
        return [*words, "--fd", str(self.socket.fileno()), "orchestra.asgi:application"]


def programs(site: Site) -> list[supervising.Program]:
    env = site.environment()
    manage = str(Path(settings.BASE_DIR) / "manage.py")
    words = site.daphne_words()
    handed = (site.socket.fileno(),) if "--fd" in words else ()
    return [
        supervising.Program("web", words, env, handed),
        supervising.Program("drain", [manage, "drain"], env),
        supervising.Program("sweeper", [manage, "sweeper"], env, delay_s=SWEEPER_DELAY_S),
    ]


def prepare(*, demo: bool, say: Callable[[str], None]) -> None:
    """Bring the database to this version and make the first space where there is none; one process at a time."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_lock(%s)", [ONE_AT_A_TIME])
        try:
            executor = MigrationExecutor(connection)
            if executor.migration_plan(executor.loader.graph.leaf_nodes()):
                say("Preparing the database …")
                call_command("migrate", verbosity=0, interactive=False)
            first_space.make_if_empty(demo=demo, say=say)
        finally:
            cursor.execute("select pg_advisory_unlock(%s)", [ONE_AT_A_TIME])


class Watch:
    """What is done at every look: announce the page once it is served, and keep the embedded database running."""

    def __init__(self, site: Site, announce: Callable[[], None]) -> None:
        self._site, self._announce = site, announce
        self._announced = False
        self._started = time.monotonic()
        self._next_look = self._started + DATABASE_LOOK_S

    def tend(self) -> str:
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + DATABASE_LOOK_S
            if trouble := _database_trouble():
                return trouble
        if self._announced:
            return ""
        if _answers(self._site) and self._has_announced():
            self._announced = True
        elif now - self._started > START_PATIENCE_S:
            return f"The pages are not served after {START_PATIENCE_S:g} s; the lines of web above say why."
        return ""

    def _has_announced(self) -> bool:
        """False where the database went away just now: there is another look."""
        try:
            self._announce()
        except DatabaseError:
            return False
        finally:
            connections.close_all()  # only the children keep using the database
        return True


def _database_trouble() -> str:
    """Start the embedded server again if somebody ended it; the children wait for it and go on by themselves."""
    try:
        embedded.ensure()
    except EmbeddedError as error:
        return str(error)
    return ""


def _answers(site: Site) -> bool:
    """Whether the health page is served, asked the way a browser on this machine would."""
    host = ("::1" if ":" in site.address else "127.0.0.1") if site.is_every_address else site.address
    asked = HTTPConnection(host, site.port, timeout=3)
    try:
        asked.request("GET", "/healthz", headers={"Host": _in_url(site.address)})
        return asked.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        asked.close()


def prints_link(*, asked: bool, terminal: bool, loopback: bool) -> bool:
    """A link that signs in goes to eyes only: a terminal, and an address that this machine alone reaches (09, 3)."""
    return asked or (terminal and loopback)


def announce(screen: Console, site: Site, shows_link: bool) -> None:
    (Path(settings.DATA_DIR) / "address").write_text(site.url + "\n")  # for `manage.py signin`
    lines = ["", f"Orchestra is at {site.url}/", *_how_to_sign_in(site, shows_link)]
    if not site.is_loopback and not os.environ.get("INSECURE_HTTP"):
        lines.append("Other machines reach it through a proxy that adds HTTPS; docs/deploy.md says how.")
    lines += ["Ctrl-C stops it and loses nothing.", ""]
    screen.print("\n".join(lines), markup=False, soft_wrap=True)


def _how_to_sign_in(site: Site, shows_link: bool) -> list[str]:
    operator = first_space.first_operator()
    if operator is None or operator.has_usable_password():
        return ["Sign in with your user name and password."]
    if not shows_link:
        elsewhere = f" --data-dir {settings.DATA_DIR}" if os.environ.get("DATA_DIR") else ""
        return [f"For a sign-in link, run: uv run manage.py signin{elsewhere}"]
    return [f"Sign in (works once, for 15 minutes): {site.url}{make_signin_link(operator)}"]


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise CommandError(f"{host} is no address of this machine: {error.strerror}.") from error
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise CommandError(
            f"Cannot listen on {host} port {port} ({error.strerror}). If Orchestra runs there already, open it; "
            f"else choose another port, or any free one with --port 0."
        ) from error
    return listener


def _in_url(host: str) -> str:
    return f"[{host.strip('[]')}]" if ":" in host else host


def _port(word: str) -> int:
    port = int(word)
    if not 0 <= port <= 65535:
        raise ValueError(word)
    return port
