"""Runs programs: an argument list, never a shell, in a process group of its own under the launcher.

One thread per program reads what it prints and hands each line on at once. No Django here; the lines, and
the result, go where the port and `on_end` take them (spec: 03 section 2, 09 section 3).
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from boards.workers.adapters import Ending, Failed, Finished, Job, OnEnd, Running, StoppedEarly
from boards.workers.adapters.output import (
    MAX_RAW,
    MAX_RESULT,
    Allowance,
    Lines,
    NotAnObject,
    ResultLine,
    cut_result,
    parse,
)

LAUNCHER: Final = Path(__file__).with_name("launcher.py")
INHERITED: Final = ("PATH", "HOME", "LANG")
LAST_WORDS_S: Final = 2.0  # for pipes that are still open when the launcher has left
AFTERWARDS_S: Final = 15.0  # for the launcher to clear up and leave, once it said that the program ended


@dataclass(frozen=True)
class Place:
    """Where programs run on this host: the folder under which they work, and what they may import of the
    product.
    """

    root: Path
    python_path: Path
    grace_ms: int = 5_000


class CommandAdapter:
    def __init__(self, place: Place) -> None:
        self._place = place

    def can_run(self, config: Mapping[str, Any]) -> bool:
        argv = arguments(config)
        return bool(argv) and (os.sep in argv[0] or shutil.which(argv[0]) is not None)

    def start(self, job: Job, on_end: OnEnd) -> Running:
        program = _Program(self._place, job, on_end)
        threading.Thread(target=program.run, name=f"program {job.facts.id}", daemon=True).start()
        return program

    def close(self) -> None:
        """Each program has its own thread, which ends with it."""


def arguments(config: Mapping[str, Any]) -> list[str]:
    """The argument list of a roster entry; `{python}` is the interpreter that runs the drain."""
    return [sys.executable if word == "{python}" else str(word) for word in config.get("argv") or ()]


def folder_for(root: Path, job: Job) -> Path:
    """The working folder, made if it is missing. Raises ValueError where it would lie outside the root."""
    named = str(job.config.get("cwd") or job.folder)
    folder = (root / named).resolve()
    if not folder.is_relative_to(root.resolve()):
        raise ValueError(f"The working folder {named!r} leads out of {root}. Name one below it.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def environment(job: Job, place: Place, scratch: Path) -> dict[str, str]:
    """What the program sees of our environment: the allow-list and the names that its roster entry adds."""
    names = (*INHERITED, *map(str, job.config.get("env") or ()))
    allowed = {name: os.environ[name] for name in names if name in os.environ}
    own = {
        "PYTHONPATH": str(place.python_path),
        "PYTHONUNBUFFERED": "1",  # lines are shown as they are printed
        "ORCHESTRA_TASK": str(scratch / "task.json"),
        "ORCHESTRA_RESULT": str(scratch / "result.json"),
    }
    return allowed | own


@dataclass
class _Seen:
    """What the launcher said, and what the program printed, so far."""

    pid: int = 0
    error: str = ""
    code: int | None = None
    last_complaint: str = ""
    result: ResultLine = field(default_factory=ResultLine)
    timed_out: bool = False


class _Program:
    """One program from its start to the moment when nothing of it runs any more."""

    can_be_killed = True
    shares_loop = False

    def __init__(self, place: Place, job: Job, on_end: OnEnd) -> None:
        self._place, self._job, self._on_end = place, job, on_end
        self._argv = arguments(job.config)
        self._seen = _Seen()
        self._lock = threading.Lock()
        self._control = -1
        self._orders = b""
        self._launcher: subprocess.Popen[bytes] | None = None

    def cancel(self) -> None:
        self._order(b"t")

    def kill(self) -> None:
        self._order(b"k")

    def run(self) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="orchestra-", ignore_cleanup_errors=True) as scratch:
                ending = self._run_in(Path(scratch))
        except Exception as error:
            ending = Failed(f"The program could not be run: {error}")
        self._on_end(ending)

    def _run_in(self, scratch: Path) -> Ending:
        if not self._argv:
            return Failed('This roster entry names no program. Give it an argument list: {"argv": ["program"]}.')
        folder = folder_for(self._place.root, self._job)
        facts = json.dumps(self._job.facts.wire()).encode()
        (scratch / "task.json").write_bytes(facts)
        try:
            self._supervise(facts, folder, scratch)
        finally:
            with contextlib.suppress(OSError):
                folder.rmdir()  # only where it was left empty
        return self._ending(scratch / "result.json")

    def _supervise(self, facts: bytes, folder: Path, scratch: Path) -> None:
        control_end, control = os.pipe()
        status, status_end = os.pipe()
        grace_ms = str(self._place.grace_ms)
        words = [str(LAUNCHER), str(control_end), str(status_end), grace_ms, *self._argv]
        try:
            launcher = self._launcher = subprocess.Popen(
                [sys.executable, "-I", "-S", *words],
                cwd=folder,
                env=environment(self._job, self._place, scratch),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(control_end, status_end),
                start_new_session=True,
                bufsize=0,
            )
        except BaseException:
            os.close(control)
            os.close(status)
            raise
        finally:
            os.close(control_end)
            os.close(status_end)
        self._open_control(control)
        try:
            _Reader(self, launcher, status, facts).read_all()
        finally:
            self._close_control()
            os.close(status)
            self._finish(launcher)

    def _finish(self, launcher: subprocess.Popen[bytes]) -> None:
        """The launcher leaves when nothing of the program lives."""
        try:
            launcher.wait(AFTERWARDS_S)
        except subprocess.TimeoutExpired:
            launcher.kill()
            launcher.wait()
            self.launcher_left()

    def _order(self, order: bytes) -> None:
        with self._lock:
            self._orders += order
            if self._control >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._control, order)

    def _open_control(self, control: int) -> None:
        with self._lock:
            self._control = control
            if self._orders:  # told to stop before it had started
                os.write(control, self._orders)

    def _close_control(self) -> None:
        with self._lock:
            os.close(self._control)
            self._control = -1

    # What the reader reports.

    def said(self, news: Mapping[str, Any]) -> None:
        self._seen.pid = int(news.get("pid", self._seen.pid))
        self._seen.error = str(news.get("error", self._seen.error))
        self._seen.code = news.get("code", self._seen.code)

    def launcher_left(self) -> None:
        """One that was killed could not see to it that nothing of the program lives."""
        if self._seen.code is None and self._seen.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._seen.pid, signal.SIGKILL)

    def complained(self, text: str) -> None:
        self._seen.last_complaint = text.strip() or self._seen.last_complaint

    def ran_too_long(self) -> None:
        self._seen.timed_out = True
        self.cancel()

    @property
    def time_limit_s(self) -> float | None:
        limit = self._job.config.get("time_limit_ms")
        return None if limit is None else int(limit) / 1000

    @property
    def job(self) -> Job:
        return self._job

    @property
    def result_line(self) -> ResultLine:
        return self._seen.result

    def _ending(self, result_file: Path) -> Ending:
        seen = self._seen
        if seen.error:
            return Failed(f"The program “{self._argv[0]}” could not be started: {seen.error}.")
        if seen.timed_out:
            limit = int(self._job.config["time_limit_ms"])
            return Failed(f"The program ran longer than its time limit of {limit / 1000:g} s and was stopped.")
        if seen.code is None:
            return Failed("The launcher of the program was killed, and the program with it.")
        if seen.code != 0:
            return StoppedEarly() if self._orders else Failed(_exit_words(seen.code, seen.last_complaint))
        return _result(result_file, seen.result)


class _Reader:
    """Reads the pipes of one program until the launcher has said how it ended and every pipe is at its end."""

    def __init__(self, program: _Program, launcher: subprocess.Popen[bytes], status: int, facts: bytes) -> None:
        self._program, self._status = program, status
        self._selector = selectors.DefaultSelector()
        self._news = b""
        self._launcher_left = False
        limit = program.time_limit_s
        self._ends_at = None if limit is None else time.monotonic() + limit
        say = program.job.port.say
        self._allowance = Allowance(lambda text: say(text, "status"))
        self._streams: dict[int, Lines] = {}
        assert launcher.stdin
        assert launcher.stdout
        assert launcher.stderr
        self._stdin, self._to_write = launcher.stdin, memoryview(facts + b"\n")
        self._files: Sequence[Any] = (launcher.stdout, launcher.stderr)
        self._streams[launcher.stdout.fileno()] = Lines(self._printed, program.result_line.look)
        self._streams[launcher.stderr.fileno()] = Lines(self._complained)
        for reading in (*self._streams, status):
            self._selector.register(reading, selectors.EVENT_READ)
        os.set_blocking(self._stdin.fileno(), False)
        self._selector.register(self._stdin.fileno(), selectors.EVENT_WRITE)

    def read_all(self) -> None:
        try:
            while self._open_pipes():
                timeout = None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())
                for key, _ in self._selector.select(timeout):
                    self._serve(key.fd)
                if self._ends_at is not None and time.monotonic() >= self._ends_at and not self._time_is_up():
                    return
        finally:
            self._close()

    def _time_is_up(self) -> bool:
        """The time limit, or the end of the wait for pipes that somebody outside the group still holds."""
        self._ends_at = None
        if self._launcher_left:
            return False
        self._program.ran_too_long()
        return True

    def _open_pipes(self) -> bool:
        watched = set(self._selector.get_map())
        return bool(watched - {self._stdin.fileno()} if not self._stdin.closed else watched)

    def _serve(self, handle: int) -> None:
        if not self._stdin.closed and handle == self._stdin.fileno():
            self._write()
        elif handle == self._status:
            self._read_status()
        else:
            self._read_stream(handle)

    def _write(self) -> None:
        try:
            self._to_write = self._to_write[os.write(self._stdin.fileno(), self._to_write[:65_536]) :]
        except BlockingIOError:
            return
        except OSError:  # it does not read its input, which is its right
            self._to_write = self._to_write[:0]
        if not self._to_write:
            self._selector.unregister(self._stdin.fileno())
            self._stdin.close()

    def _read_status(self) -> None:
        chunk = os.read(self._status, 65_536)
        self._news += chunk
        *lines, self._news = self._news.split(b"\n")
        for line in lines:
            self._program.said(json.loads(line))
        if not chunk:
            self._selector.unregister(self._status)
            self._launcher_left = True
            self._ends_at = time.monotonic() + LAST_WORDS_S
            self._program.launcher_left()

    def _read_stream(self, handle: int) -> None:
        chunk = os.read(handle, 65_536)
        if chunk:
            self._streams[handle].feed(chunk)
        else:
            self._streams[handle].close()
            self._selector.unregister(handle)

    def _printed(self, text: str) -> None:
        if self._allowance.admits(text):
            self._program.job.port.say(text, "output")

    def _complained(self, text: str) -> None:
        self._program.complained(text)
        if self._allowance.admits(text):
            self._program.job.port.say(text, "output", {"stream": "stderr"})

    def _close(self) -> None:
        self._selector.close()
        for file in (self._stdin, *self._files):
            file.close()


def _exit_words(code: int, complaint: str) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return _with(f"The program was ended by {signal.Signals(-code).name}", complaint)
        return _with(f"The program was ended by signal {-code}", complaint)
    return _with(f"The program ended with exit code {code}", complaint)


def _with(sentence: str, complaint: str) -> str:
    return f"{sentence}: {complaint[:2000]}" if complaint else f"{sentence}."


def _result(file: Path, line: ResultLine) -> Ending:
    """The result file where there is one, else the last JSON object that was printed, else nothing."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_RAW + 1)
    except FileNotFoundError:
        return Finished(line.output, has_result=line.found)
    if not raw.strip():
        return Finished(line.output, has_result=line.found)
    if len(raw) > MAX_RAW:
        return Finished(cut_result(raw[: 4 * MAX_RESULT].decode("utf-8", "replace")))
    try:
        return Finished(parse(raw.decode("utf-8", "replace")))
    except NotAnObject as error:
        return Failed(f"The program's result file is not JSON: {error}.")
