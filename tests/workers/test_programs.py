"""Programs: what they print, how they end, and that nothing of them is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boards.workers.adapters import Failed, Finished, StoppedEarly
from boards.workers.adapters.command import LAUNCHER, CommandAdapter, Place
from boards.workers.adapters.output import CUT_NOTE, MAX_LINE, MAX_RESULT, cut_result
from tests.waiting import lives, until
from tests.workers.conftest import CHECKOUT, RecordingPort, Run


@pytest.fixture
def program(command_adapter: CommandAdapter, begin: Callable[..., Run]) -> Callable[..., Run]:
    """Run Python code as a program: `program("print(1)", time_limit_ms=…)`."""

    def start(code: str, facts: dict[str, Any] | None = None, **config: Any) -> Run:
        return begin(command_adapter, {"argv": ["{python}", "-c", code], **config}, **(facts or {}))

    return start


@pytest.fixture
def patient_program(begin: Callable[..., Run], tmp_path: Path) -> Callable[[str], Run]:
    """Run Python code as a program that has an hour's grace when it is told to end."""
    adapter = CommandAdapter(Place(tmp_path / "work", CHECKOUT, grace_ms=3_600_000))
    return lambda code: begin(adapter, {"argv": ["{python}", "-c", code]})


def finished(run: Run) -> Any:
    ending = run.ending()
    assert isinstance(ending, Finished), ending
    return ending.output


def error(run: Run) -> str:
    ending = run.ending()
    assert isinstance(ending, Failed), ending
    return ending.error


def test_the_last_json_object_that_was_printed_is_the_output(program: Callable[..., Run]) -> None:
    assert finished(program("print('{\"a\": 1}'); print('[2]'); print('{\"a\": 3}'); print('done.')")) == {"a": 3}


@pytest.mark.parametrize("line", ["{not json}", '{"a": NaN}', "{" * 100_000 + "}", '["list"]', "7"])
def test_a_line_that_is_no_json_object_is_no_output(program: Callable[..., Run], line: str) -> None:
    run = program(f"print({line!r})") if len(line) < 100 else program("print('{' * 100_000 + '}')")
    ending = run.ending()
    assert ending == Finished(None, has_result=False)


def test_the_result_file_comes_before_what_was_printed(program: Callable[..., Run]) -> None:
    code = "import os; open(os.environ['ORCHESTRA_RESULT'], 'w').write('[1, 2]'); print('{\"a\": 1}')"
    assert finished(program(code)) == [1, 2]


def test_a_result_file_that_is_no_json_fails_in_a_sentence(program: Callable[..., Run]) -> None:
    code = "import os; open(os.environ['ORCHESTRA_RESULT'], 'w').write('{')"
    assert "result file is not JSON" in error(program(code))


def test_a_result_file_that_is_a_pipe_holds_nobody_up(program: Callable[..., Run]) -> None:
    script = "import os; os.mkfifo(os.environ['ORCHESTRA_RESULT'])"
    assert "it is no plain file" in error(program(script))


def test_the_task_is_in_a_file_as_well(program: Callable[..., Run]) -> None:
    code = "import json, os; print(json.dumps({'goal': json.load(open(os.environ['ORCHESTRA_TASK']))['goal']}))"
    assert finished(program(code, {"goal": "Count"})) == {"goal": "Count"}


def test_a_program_that_never_reads_its_input_is_no_trouble(program: Callable[..., Run]) -> None:
    assert finished(program("print('{}')", {"input": {"large": "x" * 3_000_000}})) == {}


def test_the_last_complaint_is_the_error_and_the_exit_code_is_its_detail(program: Callable[..., Run]) -> None:
    code = "import sys; print('one', file=sys.stderr); print('two\\n\\n', file=sys.stderr); sys.exit(4)"
    assert program(code).ending() == Failed("two", detail="The program ended with exit code 4.")


def test_a_program_that_fails_without_a_word_is_told_by_its_exit_code(program: Callable[..., Run]) -> None:
    assert error(program("raise SystemExit(4)")) == "The program ended with exit code 4."


def test_a_signal_is_told_by_its_name(program: Callable[..., Run]) -> None:
    assert error(program("import os; os.kill(os.getpid(), 9)")) == "The program was ended by SIGKILL."


def test_five_megabytes_on_one_line_are_cut_with_a_note(program: Callable[..., Run]) -> None:
    run = program("import sys; sys.stdout.write('x' * 5_000_000)")
    run.ending()
    assert len(run.port.said) == 1
    assert run.port.said[0] == "x" * MAX_LINE + CUT_NOTE


def test_a_result_of_many_megabytes_is_cut_with_a_note(program: Callable[..., Run]) -> None:
    output = finished(program("print('{\"a\": \"' + 'x' * 20_000_000 + '\"}')"))
    assert output["cut"] is True
    assert output["text"].startswith('{"a": "xxx')
    assert len(output["text"]) < 1_100_000


@pytest.mark.parametrize("signs", ["x", '"', "\\", "\n", "ü"])
def test_what_is_cut_stays_within_the_limit_as_json(signs: str) -> None:
    assert 500_000 < len(json.dumps(cut_result(signs * 3_000_000), ensure_ascii=False)) <= MAX_RESULT


def test_output_without_end_is_kept_up_to_a_limit(program: Callable[..., Run]) -> None:
    run = program("for n in range(30_000): print(n)")
    run.ending()
    assert 20_000 <= len(run.port.said) <= 20_001
    assert "too long" in run.port.said[-1]


def test_a_progress_bar_is_shown_in_its_last_state(program: Callable[..., Run]) -> None:
    run = program("print('10 %\\r20 %\\r30 %\\r\\n', end='')")
    run.ending()
    assert run.port.said == ["30 %"]


def test_only_listed_variables_are_handed_down(program: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "hidden")
    monkeypatch.setenv("WANTED", "shown")
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    seen = finished(program(code, env=["WANTED", "NOT_SET"]))
    assert seen["WANTED"] == "shown"
    allowed = {"PATH", "HOME", "LANG", "LC_CTYPE", "WANTED", "PYTHONPATH", "PYTHONUNBUFFERED"}
    assert set(seen) <= allowed | {"ORCHESTRA_TASK", "ORCHESTRA_RESULT"}


def test_programs_of_the_product_can_be_run_as_modules(program: Callable[..., Run]) -> None:
    assert finished(program("import boards.workers.protocol as p; print('{}')")) == {}


def test_it_works_in_a_folder_under_the_root(program: Callable[..., Run], tmp_path: Path) -> None:
    code = "import json, os; print(json.dumps({'cwd': os.getcwd()}))"
    assert finished(program(code)) == {"cwd": str(tmp_path / "work/board/t1")}
    assert not (tmp_path / "work/board/t1").exists(), "an empty folder is removed"
    assert finished(program(code, cwd="shared")) == {"cwd": str(tmp_path / "work/shared")}


@pytest.mark.parametrize("cwd", ["..", "/etc", "a/../../b"])
def test_a_folder_outside_the_root_is_refused(program: Callable[..., Run], cwd: str) -> None:
    assert "leads out of" in error(program("print(1)", cwd=cwd))


def test_a_file_that_cannot_be_executed_fails_in_a_sentence(
    command_adapter: CommandAdapter, begin: Callable[..., Run], tmp_path: Path
) -> None:
    (tmp_path / "plain").write_text("no program")
    said = error(begin(command_adapter, {"argv": [str(tmp_path / "plain")]}))
    assert "could not be started" in said
    assert "Permission denied" in said


def test_a_time_limit_ends_it(program: Callable[..., Run]) -> None:
    run = program("import time; print('on'); time.sleep(60)", time_limit_ms=700)
    assert error(run) == "The program ran longer than its time limit of 0.7 s and was stopped."


def test_a_result_that_comes_after_the_signal_counts(patient_program: Callable[[str], Run]) -> None:
    code = """
import signal, sys, time
def leave(number, frame):
    print('{"saved": true}'); sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print('ready'); time.sleep(60)
"""
    run = patient_program(code)
    until(lambda: run.port.said == ["ready"])
    run.running.cancel()
    assert finished(run) == {"saved": True}


DEAF = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
children = [
    subprocess.Popen([sys.executable, "-c", code]),
    subprocess.Popen([sys.executable, "-c", code], start_new_session=True),
]
print(os.getpid(), *[child.pid for child in children])
time.sleep(60)
"""


def family(port: RecordingPort) -> list[int]:
    """The process ids that `DEAF` printed."""
    line = until(lambda: port.said and port.said[0])
    return [int(word) for word in line.split()]


def test_a_cancel_ends_children_too_even_deaf_ones_in_other_sessions(program: Callable[..., Run]) -> None:
    run = program(DEAF)
    pids = family(run.port)
    assert all(map(lives, pids))
    run.running.cancel()
    assert run.ending() == StoppedEarly()
    assert not any(map(lives, pids))


def test_a_kill_does_not_wait_for_the_grace(patient_program: Callable[[str], Run]) -> None:
    run = patient_program(DEAF)
    pids = family(run.port)
    run.running.kill()
    assert run.ending() == StoppedEarly()
    assert not any(map(lives, pids))


def test_what_a_program_left_running_ends_with_it(program: Callable[..., Run]) -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '60'], start_new_session=True).pid)"
    run = program(code)
    assert isinstance(run.ending(), Finished)
    assert not lives(int(run.port.said[0]))


def test_a_killed_launcher_takes_the_program_with_it(program: Callable[..., Run]) -> None:
    run = program(DEAF)
    pids = family(run.port)
    os.kill(parent_of(pids[0]), signal.SIGKILL)
    assert "launcher" in error(run)
    until(lambda: not lives(pids[0]) and not lives(pids[1]))
    with_own_session = pids[2]
    if lives(with_own_session):  # without its launcher only the group is known
        os.kill(with_own_session, signal.SIGKILL)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


PARENT = f"""
import os, subprocess, sys, time
control_end, control = os.pipe()
status, status_end = os.pipe()
words = [str(control_end), str(status_end), "300", sys.executable, "-u", "-c", sys.argv[1]]
subprocess.Popen([sys.executable, "-I", "-S", {str(LAUNCHER)!r}, *words], pass_fds=(control_end, status_end),
                 start_new_session=True)
time.sleep(60)
"""


def test_the_launcher_ends_everything_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, DEAF], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    launcher = parent_of(pids[0])
    assert all(map(lives, pids))
    parent.kill()
    parent.wait()
    until(lambda: not any(map(lives, [*pids, launcher])))
    parent.stdout.close()


READS_ON = """
import json, sys
task = json.loads(sys.stdin.readline())
print("ready", task["messages"])
for line in sys.stdin:
    print("told", json.loads(line)["message"])
    if "stop" in line: break
print(json.dumps({"ended": True}))
"""


def test_messages_reach_a_program_that_reads_its_input_while_it_runs(program: Callable[..., Run]) -> None:
    run = program(READS_ON, {"steers": ["be short"]}, messages="stdin")
    until(lambda: "ready ['be short']" in run.port.said)
    run.port.waiting.append("in blue, “please”")
    until(lambda: "told in blue, “please”" in run.port.said)
    run.port.waiting += ["once more\nand again", "stop"]
    assert finished(run) == {"ended": True}
    assert "told stop" in run.port.said
    assert "told once more" in run.port.said


def test_without_it_the_input_ends_after_the_task(program: Callable[..., Run]) -> None:
    run = program("import sys; print(len(sys.stdin.read().splitlines())); print('{}')")
    assert finished(run) == {}
    assert "1" in run.port.said


def test_a_program_that_reads_nothing_is_told_nothing_and_ends(program: Callable[..., Run]) -> None:
    run = program("import os, time; os.close(0); print('closed'); time.sleep(1.5); print('{}')", messages="stdin")
    until(lambda: "closed" in run.port.said)
    run.port.waiting += ["x" * 200_000]
    assert finished(run) == {}
