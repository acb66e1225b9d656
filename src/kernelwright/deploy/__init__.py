"""The best into a model: a drop-in module, a torch.compile backend, a saved artifact."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.deploy.loading import load as load
    from kernelwright.deploy.module import Deployed as Deployed
    from kernelwright.deploy.module import drop_in as drop_in

from kernelwright.deploy.artifact import read_artifact, save_artifact

__all__ = ["Deployed", "drop_in", "load", "read_artifact", "save_artifact"]

_FILES = {"Deployed": "module", "drop_in": "module", "load": "loading"}


def __getattr__(name: str) -> Any:
    if name in _FILES:
        from importlib import import_module

        return getattr(import_module(f"kernelwright.deploy.{_FILES[name]}"), name)
    raise AttributeError(f"module 'kernelwright.deploy' has no attribute {name!r}")
