"""Says where a value is no plain JSON: what goes to a worker, and what comes from it, must survive JSON
unchanged.

Pure (spec: 03 section 2).
"""

from __future__ import annotations

import math
from typing import Any, Final

MAX_DEPTH: Final = 200


def problem(value: Any, name: str) -> str:
    """The first place that JSON would change or refuse, with the reason, as a sentence; "" where there is
    none.

    Examples: "input.when is a datetime, which JSON does not have.", "output[3] is NaN, which JSON does not
    have."
    """
    todo: list[tuple[str, Any, int]] = [(name, value, 0)]
    while todo:
        path, part, depth = todo.pop()
        if depth > MAX_DEPTH:
            return f"{name} is nested more than {MAX_DEPTH} levels deep."
        match part:
            case None | bool() | str() | int():
                if isinstance(part, int) and not isinstance(part, bool) and part.bit_length() > 10_000:
                    return f"{path} is a number with more digits than JSON can carry."
            case float():
                if not math.isfinite(part):
                    return f"{path} is {part}, which JSON does not have."
            case list():
                todo += [(f"{path}[{n}]", item, depth + 1) for n, item in enumerate(part)][::-1]
            case dict():
                for key in part:
                    if not isinstance(key, str):
                        return f"{path} has the key {key!r}, and a key in JSON is a text."
                todo += [(f"{path}.{key}", item, depth + 1) for key, item in part.items()][::-1]
            case _:
                return f"{path} is a {type(part).__name__}, which JSON does not have."
    return ""
