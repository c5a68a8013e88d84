#!/usr/bin/env python
"""Runs a management command: `uv run manage.py COMMAND`."""

import os
import sys
from argparse import ArgumentParser

ONE_MACHINE = {"up", "signin", "doctor"}  # the commands of a person who runs the product on one machine


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orchestra.settings")
    if sys.argv[1:2] and sys.argv[1] in ONE_MACHINE:
        _choose_data_dir(sys.argv[2:])
        os.environ.setdefault("KEEP_SECRET_KEY", "1")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    from orchestra import embedded
    from orchestra.pgwheel import EmbeddedError

    try:
        if embedded.wanted_by(sys.argv):
            embedded.ensure()
        execute_from_command_line(sys.argv)
    except (ImproperlyConfigured, EmbeddedError) as error:
        sys.exit(f"{error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _choose_data_dir(words: list[str]) -> None:
    """`--data-dir` counts before the settings are read; the command's own parser checks the rest."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--data-dir", default="")
    if chosen := parser.parse_known_args(words)[0].data_dir:
        os.environ["DATA_DIR"] = os.path.abspath(os.path.expanduser(chosen))


if __name__ == "__main__":
    main()
