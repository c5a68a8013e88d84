"""Which commands ask for the embedded server, and how a signal is turned into an orderly end."""

from __future__ import annotations

import signal

import pytest

from orchestra import embedded


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("", False),
        ("help", False),
        ("help drain", False),
        ("--version", False),
        ("version", False),
        ("migrate --help", False),
        ("collectstatic --noinput", False),
        ("makemessages -a", False),
        ("check", False),
        ("check --deploy --fail-level WARNING", False),
        ("check --database default", True),
        ("check --database=default", True),
        ("migrate", True),
        ("makemigrations --check --dry-run", True),
        ("up --port 8001", True),
        ("drain", True),
        ("sweeper", True),
        ("shell", True),
    ],
)
def test_only_commands_that_work_with_the_database_want_the_server(line: str, wanted: bool) -> None:
    assert embedded.wanted_by(["manage.py", *line.split()]) is wanted


@pytest.mark.parametrize("standing", [signal.SIG_IGN, lambda number, frame: None])
def test_a_signal_handler_that_stands_already_stays(standing: object) -> None:
    before = signal.signal(signal.SIGTERM, standing)
    try:
        embedded.exit_on_sigterm()
        assert signal.getsignal(signal.SIGTERM) is standing
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_with_no_handler_becomes_an_orderly_end() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        embedded.exit_on_sigterm()
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(signal.SIGTERM)
        assert ended.value.code == 143
    finally:
        signal.signal(signal.SIGTERM, before)
