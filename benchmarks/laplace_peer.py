"""laplace-torch, where it can be imported.

By way of torchmetrics it imports torchvision, of which it uses nothing. A torchvision that was built for another build
of torch than the one at hand cannot be imported; empty modules take its place then.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Empty(ModuleType):
    """A module that has whatever is imported from it, and nothing that can be used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _EmptyModules(MetaPathFinder, Loader):
    """Finds empty modules for all that torchvision has."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Of torchvision and what is in it."""
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "torchvision" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty one."""
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to do."""


def package() -> Any:
    """The package ``laplace``."""
    try:
        import torchvision  # noqa: F401
    except ModuleNotFoundError:
        pass
    except (ImportError, OSError, RuntimeError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        sys.meta_path.insert(0, _EmptyModules())
    import laplace

    return laplace
