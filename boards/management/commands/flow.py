"""`manage.py flow`: start runs, and judge, import, export and look at flows, from the shell, one verb each."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from boards import actors, errors, flows
from boards.actors import Chain
from boards.flows import exporting, importing, library
from boards.flows.surroundings import NOTHING_KNOWN, surroundings_of
from boards.management.commands._flow_progress import Progress
from boards.models import Board, Flow, FlowRun, FlowVersion, Member, Role, Space

LOOK_EVERY_S = 0.3


class Command(BaseCommand):
    help = "Start a flow, or validate, import, export, list and show flows."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        start = acts.add_parser("start", help="start a run")
        start.add_argument("key", help="the flow's key, such as release-notes")
        start.add_argument(
            "--input", action="append", default=[], metavar="NAME=VALUE", help="an input of the run; may be repeated"
        )
        start.add_argument("--name", default="", help="what the run is called")
        start.add_argument("--step", default="", help="the step it begins in, where that is not the first")
        start.add_argument("--priority", type=int, default=0, help="higher ones are let into a full step first (0)")
        start.add_argument("--as", dest="username", default="", help="the member who starts it (the first operator)")
        start.add_argument("--follow", action="store_true", help="print progress until it ends or waits on a person")
        validate = acts.add_parser("validate", help="judge a file of flows")
        validate.add_argument("file", help="a YAML or JSON file; - reads standard input")
        brought = acts.add_parser("import", help="save the flows of a file: this format, or one of kandev's")
        brought.add_argument("file", help="a YAML or JSON file; - reads standard input")
        brought.add_argument("--board", default="", help="the board they go on (each one of its own)")
        brought.add_argument("--as", dest="username", default="", help="the member who saves them (the first operator)")
        given = acts.add_parser("export", help="write flows as a file that import reads")
        given.add_argument("keys", nargs="*", metavar="key", help="the flows' keys; none: all of the space")
        given.add_argument("--format", dest="form", choices=exporting.FORMATS, default="yaml")
        given.add_argument("--output", default="-", metavar="FILE", help="where to write it (standard output)")
        listed = acts.add_parser("list", help="list the flows")
        show = acts.add_parser("show", help="print a flow's newest version as YAML")
        show.add_argument("key")
        for each in (start, validate, brought, given, listed, show):
            each.add_argument("--space", default="", help="the space's slug, where there are several")

    def handle(self, *args: Any, act: str, **options: Any) -> None:
        try:
            getattr(self, f"_{act}")(**options)
        except errors.InvalidFlow as error:
            raise CommandError("\n".join(error.problems), returncode=1) from None
        except errors.Refusal as error:
            raise CommandError(error.sentence, returncode=1) from None

    def _start(self, key: str, space: str, username: str, name: str, follow: bool, **options: Any) -> None:
        flow = _flow(_space(space), key)
        version = FlowVersion.objects.filter(flow=flow).order_by("-number").first()
        schema = flows.load(version).inputs if version else {}
        inputs = dict(_input(pair, schema) for pair in options["input"])
        where = {"step": options["step"], "priority": options["priority"]}
        run = flows.start(_chain(flow.space, username), flow, inputs, name, **where)
        self.stdout.write(f"{run.name} started as run {run.number} of {flow.name}: {_address(run)}")
        if follow:
            self._follow(run)

    def _follow(self, run: FlowRun) -> None:
        progress = Progress(run, _address)
        try:
            sys.exit(self._until_settled(progress))
        except KeyboardInterrupt:
            raise CommandError(f"No longer followed; the run goes on: {_address(run)}", returncode=130) from None

    def _until_settled(self, progress: Progress) -> int:
        while True:
            lines, code = progress.look()
            for line in lines:
                self.stdout.write(line)
            self.stdout.flush()
            if code is not None:
                return code
            time.sleep(LOOK_EVERY_S)

    def _validate(self, file: str, space: str, **options: Any) -> None:
        """Judge a file by itself, or with `--space` also by the flows that are there."""
        around = surroundings_of(_space(space), None) if space else NOTHING_KNOWN
        read = importing.read_document(_text(file), around)
        for flow in read.document.flows:
            self.stdout.write(f"{flow.key}: valid, {len(flow.steps)} steps")
            for warning in flow.warnings:
                self.stdout.write(f"  warning: {warning}")
        for note in read.notes:
            self.stdout.write(f"note: {note}")

    def _import(self, file: str, space: str, board: str, username: str, **options: Any) -> None:
        place = _space(space)
        on = _board(place, board) if board else None
        done = importing.import_flows(_chain(place, username), place, _text(file), on)
        for flow in done.saved:
            self.stdout.write(f"{flow.key}: saved as version 1, on the board {flow.board.name}")
        for sentence in done.skipped:
            self.stdout.write(f"skipped {sentence}")
        for note in done.notes:
            self.stdout.write(f"note: {note}")

    def _export(self, keys: list[str], space: str, form: str, output: str, **options: Any) -> None:
        place = _space(space)
        known = list(Flow.objects.filter(space=place).order_by("key").values_list("key", flat=True))
        if missing := [key for key in keys if key not in known]:
            raise CommandError(
                f'There is no flow "{missing[0]}" in {place.name}. There is {", ".join(known) or "none"}.'
            )
        text = exporting.exported([library.newest(place, key) for key in keys or known], form)
        if output == "-":
            self.stdout.write(text, ending="")
            return
        try:
            Path(output).write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error}") from None
        self.stdout.write(f"{len(keys or known)} flows written to {output}")

    def _list(self, space: str, **options: Any) -> None:
        place = _space(space)
        for flow in Flow.objects.filter(space=place).order_by("key"):
            version = flow.versions.order_by("-number").first()
            number = version.number if version else 0
            runs = "1 run" if flow.last_run_number == 1 else f"{flow.last_run_number} runs"
            self.stdout.write(f"{flow.key}  {flow.name}, version {number}, {runs}")
        known = set(Flow.objects.filter(space=place).values_list("key", flat=True))
        for key in sorted(set(library.template_keys()) - known):
            self.stdout.write(f"{key}  ready template, not installed yet")

    def _show(self, key: str, space: str, **options: Any) -> None:
        flow = _flow(_space(space), key)
        self.stdout.write(exporting.exported([library.newest(flow.space, flow.key)]), ending="")


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from None


def _board(space: Space, slug: str) -> Board:
    board = Board.objects.filter(space=space, slug=slug).first()
    if board is None:
        names = ", ".join(Board.objects.filter(space=space).order_by("slug").values_list("slug", flat=True))
        raise CommandError(f'There is no board "{slug}" in {space.name}. There is {names or "none"}.')
    return board


def _space(slug: str) -> Space:
    spaces = list(Space.objects.filter(slug=slug) if slug else Space.objects.order_by("pk")[:2])
    if len(spaces) == 1:
        return spaces[0]
    names = ", ".join(Space.objects.order_by("slug").values_list("slug", flat=True))
    if not names:
        raise CommandError("There is no space yet. Run manage.py up once, or make one in the admin.")
    raise CommandError(f"Name the space with --space. There is {names}.")


def _flow(space: Space, key: str) -> Flow:
    """The space's flow; a ready template is installed on first use."""
    flow = Flow.objects.filter(space=space, key=key).select_related("space").first()
    if flow is not None:
        return flow
    if key in library.template_keys():
        return library.install(space, key)
    known = {*Flow.objects.filter(space=space).values_list("key", flat=True), *library.template_keys()}
    raise CommandError(f'There is no flow "{key}" in {space.name}. There is {", ".join(sorted(known))}.')


def _chain(space: Space, username: str) -> Chain:
    """Whoever runs the command acts as a member: the one named, else the space's first operator."""
    members = Member.objects.filter(space=space, user__is_active=True).select_related("user", "space")
    wanted = members.filter(user__username=username) if username else members.filter(role=Role.OPERATOR)
    member = wanted.order_by("pk").first()
    if member is not None:
        return actors.person(member)
    if username:
        raise CommandError(f'Nobody called "{username}" is a member of {space.name}.')
    return actors.service("demo", space.pk)


def _input(pair: str, schema: Any) -> tuple[str, Any]:
    """One NAME=VALUE as the schema means it: text stays text, a folder may be given from where the shell stands."""
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise CommandError(f'"{pair}" is no input. Write it as NAME=VALUE.')
    told = (schema.get("properties") or {}).get(name)
    meant = told if isinstance(told, dict) else {}
    if meant.get("format") == "folder" and value and not value.startswith("~"):
        return name, str(Path(value).resolve())
    if meant.get("type", "string") == "string":
        return name, value
    try:
        return name, json.loads(value)
    except ValueError:
        raise CommandError(f'The input "{name}" must be JSON of the type {meant["type"]}, not {value!r}.') from None


def _address(run: FlowRun) -> str:
    """The run's page: with SITE_URL to be opened as it is, else within the pages, wherever they are served."""
    site, path = settings.SITE_URL.rstrip("/"), f"/f/{run.flow.key}/r/{run.number}/"
    return f"{site}{path}" if site else f"on the pages at {path}"
