"""A file that a step of a run wrote, shown as plain text (spec: 09 section 3).

Served only where an output of that very run names the path, and only from the folder of published files: what a
worker says is never enough to read anything else. The browser shows it as text and runs nothing of it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import quote

from django.conf import settings
from django.http import Http404, HttpResponse
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from boards.queries.runs import file_paths, find_run
from boards.web.members import MemberRequest, member_page

FOLDER: Final = "published"
MOST: Final = 20_000_000  # bytes
_MARKDOWN: Final = {".md", ".markdown"}


@require_safe
@member_page
def run_file(request: MemberRequest, key: str, number: int, path: str) -> HttpResponse:
    found = find_run(request.member, key, number)
    if found is None or path not in file_paths(found):
        raise Http404("There is no such file.")
    place = published(path)
    if place is None:
        raise Http404("There is no such file.")
    if place.stat().st_size > MOST:
        return HttpResponse(
            "This file is too large to show here.", status=413, content_type="text/plain; charset=utf-8"
        )
    kind = "text/markdown" if place.suffix.lower() in _MARKDOWN else "text/plain"
    response = HttpResponse(place.read_bytes(), content_type=f"{kind}; charset=utf-8")
    response["Content-Disposition"] = f"inline; filename*=UTF-8''{quote(place.name, safe='')}"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    patch_cache_control(response, private=True, no_cache=True)
    return response


def published(path: str) -> Path | None:
    """The file of that name below the folder of published files, or None; links that lead out of it count as none.

    A path counts from the data folder, or from the folder itself.
    """
    root = (Path(settings.DATA_DIR) / FOLDER).resolve()
    parts = PurePosixPath(path).parts
    if not parts or "\0" in path or PurePosixPath(path).is_absolute() or ".." in parts:
        return None
    for base in (root.parent, root):
        with contextlib.suppress(OSError):  # a name that is too long, a folder that may not be read
            place = (base / path).resolve()
            if place.is_relative_to(root) and place.is_file():
                return place
    return None
