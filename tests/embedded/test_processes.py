"""Who starts the embedded server, who stops it, and what a killed process leaves behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from .conftest import PROGRAM, Place, until


def test_twelve_processes_start_at_once_and_the_last_one_stops_the_server(new_place: Place) -> None:
    holders = [new_place.open() for _ in range(12)]
    for holder in holders:
        holder.ready().ask()
    random.shuffle(holders)
    for holder in holders[:-1]:
        holder.leave()
    holders[-1].ask()
    holders[-1].leave()
    assert new_place.is_down()


@pytest.mark.crash
def test_processes_that_come_go_and_are_killed_at_random_are_all_served(each_place: Place) -> None:
    living = []
    for _ in range(16):
        living.append(each_place.open())
        if len(living) > 4:
            gone = living.pop(random.randrange(len(living)))
            if random.random() < 0.4:
                gone.kill()  # wherever it is, in the middle of a start too
            else:
                gone.ready().ask()
                gone.leave()
    for holder in living:
        holder.ready().ask()
    for holder in living:
        holder.leave()
    assert each_place.is_down()


@pytest.mark.crash
def test_a_killed_process_leaves_the_others_served_and_the_last_still_stops_the_server(place: Place) -> None:
    first, second = place.open().ready(), place.open().ready()
    first.kill()
    second.ask()
    second.leave()
    assert place.is_down()


@pytest.mark.crash
def test_after_all_were_killed_the_next_one_joins_the_running_server_and_stops_it(place: Place) -> None:
    holders = [place.open().ready(), place.open().ready()]
    server = place.postmaster
    for holder in holders:
        holder.kill()
    last = place.open().ready()
    assert place.postmaster == server
    last.ask()
    last.leave()
    assert place.is_down()


@pytest.mark.crash
@pytest.mark.parametrize("sign", ["initdb-*", "data", "data/postmaster.pid"])
def test_a_process_killed_in_the_first_start_leaves_nothing_that_stops_the_next(new_place: Place, sign: str) -> None:
    first = new_place.open()
    until(lambda: any(new_place.home.glob(sign)))
    first.kill()
    last = new_place.open().ready()
    last.ask()
    last.leave()
    until(new_place.is_down)


@pytest.mark.crash
def test_a_server_that_died_is_started_again_by_the_next_process_and_by_a_second_call(place: Place) -> None:
    first = place.open().ready()
    os.kill(place.postmaster, signal.SIGKILL)
    second = place.open().ready()
    first.ask()
    os.kill(place.postmaster, signal.SIGKILL)
    first.ask("ensure")
    second.leave()
    first.leave()
    assert place.is_down()


def _name(stranger: subprocess.Popen, place: Place) -> None:
    """Put the stranger's id into the files that PostgreSQL believes."""
    lines = [stranger.pid, place.home / "data", 1, 5432, place.home / "run", "", "  5432001  0", "ready   "]
    for path in (place.home / "data" / "postmaster.pid", place.home / "run" / ".s.PGSQL.5432.lock"):
        path.write_text("".join(f"{line}\n" for line in lines))
        path.chmod(0o644)


def test_a_stale_pid_file_that_names_a_stranger_does_not_hinder_the_start(
    each_place: Place, stranger: subprocess.Popen
) -> None:
    each_place.open().ready().leave()
    _name(stranger, each_place)
    holder = each_place.open().ready()
    holder.ask()
    assert each_place.postmaster != stranger.pid
    holder.leave()
    assert each_place.is_down()
    assert stranger.poll() is None


@pytest.mark.crash
def test_the_stop_does_not_hurt_a_stranger_whom_the_pid_file_names(
    each_place: Place, stranger: subprocess.Popen
) -> None:
    holder = each_place.open().ready()
    os.kill(each_place.postmaster, signal.SIGKILL)
    until(lambda: not each_place.servers())
    _name(stranger, each_place)
    holder.leave()
    assert stranger.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_plain_signal_ends_the_process_and_stops_the_server(place: Place, number: signal.Signals) -> None:
    holder = place.open().ready()
    holder.send_signal(number)
    assert holder.wait(60) == 128 + number
    assert place.is_down()


def _spawn(place: Place, **given: object) -> subprocess.Popen:
    """The program of the holders, started the ordinary way."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(PROGRAM, **({"env": place.env()} | pipes | given))
    assert process.stdout.readline() == "ready\n"
    return process


def test_ctrl_c_reaches_the_process_and_not_the_server(place: Place) -> None:
    with _spawn(place, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        other, server = place.open().ready(), place.postmaster
        assert os.getsid(server) == server
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) != 0
    other.ask()
    assert place.postmaster == server
    other.leave()
    assert place.is_down()


def test_a_forked_child_is_a_user_of_its_own(place: Place) -> None:
    waits, ends = os.pipe()
    env = place.env() | {"CHILD_WAITS_FOR": str(waits)}
    with _spawn(place, env=env, pass_fds=[waits]) as parent:
        os.close(waits)
        parent.stdin.write("fork\n")
        parent.stdin.close()
        assert parent.wait(60) == 0
        place.open().ready().leave()
        assert place.servers()
        os.close(ends)
        until(place.is_down)


def test_the_data_outlive_the_server(place: Place) -> None:
    place.open().ready().leave()
    made = (place.home / "data" / "PG_VERSION").stat().st_mtime_ns
    place.open().ready().leave()
    assert (place.home / "data" / "PG_VERSION").stat().st_mtime_ns == made


def test_the_server_listens_on_a_private_socket_only(place: Place) -> None:
    holder = place.open().ready()
    socket = place.home / "run" / ".s.PGSQL.5432"
    assert socket.stat().st_mode & 0o777 == 0o700
    assert socket.parent.stat().st_mode & 0o777 == 0o700
    # The sixth line of the file is the TCP address.
    assert (place.home / "data" / "postmaster.pid").read_text().splitlines()[5] == ""
    assert not _tcp_sockets(place.postmaster)
    holder.leave()


def _tcp_sockets(pid: int) -> set[str]:
    inodes = {os.readlink(path)[8:-1] for path in Path(f"/proc/{pid}/fd").iterdir()}
    tables = (Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6"))
    return inodes & {line.split()[9] for table in tables for line in table}
