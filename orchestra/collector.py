"""Spares Python's cycle collector what a long-lived process began with. Without it a full look goes over every loaded
module, which stops all threads for 15-40 ms.
"""

from __future__ import annotations

import gc
from typing import Final

COLLECTS: Final = (20_000, 20, 50)  # Python's own are (700, 10, 10)


def spare() -> None:
    """To be called once, when all is loaded. Dead cycles are looked for among what the process makes from now on,
    seldom, and never among what it began with: most of what it makes is freed by its count.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTS)
