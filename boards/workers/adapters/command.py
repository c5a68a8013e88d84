"""Runs programs: an argument list, never a shell, in a process group of its own under the launcher.

One thread per program reads what it prints and hands each line on at once. No Django here; the lines, and
the result, go where the port and `on_end` take them (spec: 03 section 2, 09 section 3).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from boards.workers.adapters import Ending, Failed, Finished, Job, OnEnd, Running, StoppedEarly
from boards.workers.adapters.output import MAX_RAW, MAX_RESULT, NotAnObject, ResultLine, cut_result, parse
from boards.workers.adapters.reading import Heard, Reader

LAUNCHER: Final = Path(__file__).with_name("launcher.py")
INHERITED: Final = ("PATH", "HOME", "LANG")
AFTERWARDS_S: Final = 15.0  # for the launcher to clear up and leave, once it said that the program ended


@dataclass(frozen=True)
class Place:
    """Where programs run on this host. `python_path`: what they may import of the product."""

    root: Path
    python_path: Path
    grace_ms: int = 5_000


class CommandAdapter:
    """`config`: {"argv": [...], "cwd": folder under the root, "env": [names], "time_limit_ms": int,
    "messages": "stdin"}.

    With `messages` standard input stays open after the task's line, and what people send to the task while the program
    runs comes there, as {"message": text} a line; a program that reads to the end of its input does not want that.
    """

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


class _Program:
    """One program from its start to the moment when nothing of it runs any more."""

    can_be_killed = True
    shares_loop = False

    def __init__(self, place: Place, job: Job, on_end: OnEnd) -> None:
        self._place, self._job, self._on_end = place, job, on_end
        self._argv = arguments(job.config)
        self._lock = threading.Lock()
        self._control = -1
        self._orders = b""  # what it was told from outside
        self._too_long = False
        self._heard = Heard()

    def cancel(self) -> None:
        self._order(b"t")

    def kill(self) -> None:
        self._order(b"k")

    def run(self) -> None:
        ending: Ending = Failed("The thread that watched the program has ended.")
        try:
            with tempfile.TemporaryDirectory(prefix="orchestra-", ignore_cleanup_errors=True) as scratch:
                ending = self._run_in(Path(scratch))
        except Exception as error:
            ending = Failed(f"The program could not be run: {error}")
        finally:
            self._on_end(ending)

    def _run_in(self, scratch: Path) -> Ending:
        if not self._argv:
            return Failed('This roster entry names no program. Give it an argument list: {"argv": ["program"]}.')
        folder = folder_for(self._place.root, self._job)
        task_json = json.dumps(self._job.facts.wire()).encode() + b"\n"
        (scratch / "task.json").write_bytes(task_json)
        try:
            self._supervise(task_json, folder, scratch)
        finally:
            if not self._job.config.get("cwd"):
                with contextlib.suppress(OSError):
                    folder.rmdir()  # only where it was left empty
        return self._ending(scratch / "result.json")

    def _supervise(self, task_json: bytes, folder: Path, scratch: Path) -> None:
        control_end, control = os.pipe()
        status, status_end = os.pipe()
        try:
            launcher = self._launch(control_end, status_end, folder, scratch)
        except BaseException:
            os.close(control)
            os.close(status)
            raise
        finally:
            os.close(control_end)
            os.close(status_end)
        self._open_control(control)
        try:
            follows = self._job.config.get("messages") == "stdin"
            reader = Reader(launcher, status, task_json, self._job.port, follows=follows)
            self._heard = reader.heard
            limit = self._job.config.get("time_limit_ms")
            reader.read_all(None if limit is None else int(limit) / 1000, self._ran_too_long, self._launcher_left)
        finally:
            self._close_control()
            os.close(status)
            self._finish(launcher)

    def _launch(self, control: int, status: int, folder: Path, scratch: Path) -> subprocess.Popen[bytes]:
        words = [str(LAUNCHER), str(control), str(status), str(self._place.grace_ms), *self._argv]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", *words],
            cwd=folder,
            env=environment(self._job, self._place, scratch),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(control, status),
            start_new_session=True,
            bufsize=0,
        )

    def _finish(self, launcher: subprocess.Popen[bytes]) -> None:
        """The launcher leaves when nothing of the program lives."""
        try:
            launcher.wait(AFTERWARDS_S)
        except subprocess.TimeoutExpired:
            launcher.kill()
            launcher.wait()
            self._launcher_left()

    def _launcher_left(self) -> None:
        """One that was killed could not see to it that nothing of the program lives."""
        if self._heard.code is None and self._heard.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._heard.pid, signal.SIGKILL)

    def _ran_too_long(self) -> None:
        self._too_long = True
        self.cancel()

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

    def _ending(self, result_file: Path) -> Ending:
        heard = self._heard
        if heard.error:
            return Failed(f"The program “{self._argv[0]}” could not be started: {heard.error}.")
        if self._too_long:
            limit = int(self._job.config["time_limit_ms"])
            return Failed(f"The program ran longer than its time limit of {limit / 1000:g} s and was stopped.")
        if heard.code is None:
            return Failed("The launcher of the program was killed, and the program with it.")
        if heard.code != 0:
            return StoppedEarly() if self._orders else _failed(heard.code, heard.last_complaint)
        return _result(result_file, heard.result)


def _failed(code: int, complaint: str) -> Failed:
    """A program that says why it failed is quoted; the exit code is for who reads the transcript."""
    if code >= 0:
        ended = f"The program ended with exit code {code}."
        return Failed(complaint[:2000], detail=ended) if complaint else Failed(ended)
    by = f"signal {-code}"
    with contextlib.suppress(ValueError):
        by = signal.Signals(-code).name
    return Failed(f"The program was ended by {by}" + (f": {complaint[:2000]}" if complaint else "."))


def _result(file: Path, line: ResultLine) -> Ending:
    """The result file where there is one, else the last JSON object that was printed, else nothing."""
    try:
        raw = _read(file)
    except FileNotFoundError:
        raw = b""
    except OSError as error:
        return Failed(f"The program's result file cannot be read: {error.strerror}.")
    if not raw.strip():
        return Finished(line.output, has_result=line.found)
    if len(raw) > MAX_RAW:
        return Finished(cut_result(raw[: 4 * MAX_RESULT].decode("utf-8", "replace")))
    try:
        return Finished(parse(raw.decode("utf-8", "replace")))
    except NotAnObject as error:
        return Failed(f"The program's result file is not JSON: {error}.")


def _read(file: Path) -> bytes:
    """The beginning of a plain file; a pipe or device that the program put there would never end, and is refused."""
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as opened:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file")
        return opened.read(MAX_RAW + 1)
