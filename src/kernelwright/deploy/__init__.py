"""The best into a model: a drop-in module, a torch.compile backend, a saved artifact."""

from typing import TYPE_CHECKING

from kernelwright.plugins import lazy

if TYPE_CHECKING:
    from kernelwright.deploy.loading import load as load
    from kernelwright.deploy.module import Deployed as Deployed
    from kernelwright.deploy.module import drop_in as drop_in

from kernelwright.deploy.artifact import read_artifact, save_artifact

__all__ = ["Deployed", "drop_in", "load", "read_artifact", "save_artifact"]

__getattr__ = lazy(__name__, {"Deployed": "module", "drop_in": "module", "load": "loading"})
