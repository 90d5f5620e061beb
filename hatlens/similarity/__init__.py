"""In-context learning against fine-tuning: `hatlens similarity`, from settings to report.

``hatlens.similarity(...)`` is a call and this package has the same name: so the package can be
called, whichever of the two was asked for first.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *given: Any, **named: Any) -> Any:
        """Run a comparison; see `hatlens.similarity.library.similarity`."""
        from hatlens.similarity.library import similarity

        return similarity(*given, **named)


sys.modules[__name__].__class__ = _Callable
