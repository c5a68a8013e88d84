"""Running work: the protocol that workers see, the adapters that start them, the runner and the drain's
loop.

Importing this package registers the product's own Python workers (`boards.workers.builtin`), so that it is
found as the `workers` module of this app like that of any other. They import the protocol and no Django when
they load.
"""

from __future__ import annotations

import importlib
import pkgutil

from boards.workers import builtin

for _module in pkgutil.iter_modules(builtin.__path__, f"{builtin.__name__}."):
    importlib.import_module(_module.name)
