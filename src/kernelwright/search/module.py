"""The one call for people who know nothing of kernels."""

import contextlib
import copy
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.archive import Archive, open_archive
from kernelwright.errors import CaptureError, UsageError
from kernelwright.records import Entry, Event
from kernelwright.search.budget import parse
from kernelwright.search.conduct import choose_writers, search
from kernelwright.search.device import choose_device
from kernelwright.search.journal import Watch
from kernelwright.writers import Writer

if TYPE_CHECKING:
    from torch import nn

_log = logging.getLogger("kernelwright")


def optimize(
    model: "nn.Module | str",
    example_inputs: Any = None,
    target: str = "auto",
    budget: str | float = "5m",
    writers: str | Sequence[str | Writer] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    archive: Archive | Path | str | None = None,
    training: bool = False,
    autocast: str | None = None,
    watch: Watch | None = None,
    again: bool = False,
) -> "nn.Module":
    """A drop-in for `model` that computes the same and is faster, or `model` itself where nothing was.

    `model` is a module or a reference that `kernelwright.problems.load` understands ("file.py:Class").
    `example_inputs` is the tensor, or the tuple or list of positional arguments, of a call; `kwargs` its keyword
    arguments. They are what is timed; their shapes are the contract, and other shapes run the original. `budget`:
    "90s", "5m", "1h". `writers`: names (a list, or one string with commas), or members of your own. `archive`: an
    Archive or a path; None is the user's own. `training` and `autocast` (a dtype's name) say how the module is run.
    What was searched to the end before is answered from the archive, unless `again`.

    Why the original is returned is said in a warning of the logger "kernelwright", which tells at level INFO what goes
    on; `watch` is called with it (an Event and the Entry it is about, if any). Raises UsageError for arguments
    that make no sense, MissingError for a device that is not here.
    """
    if isinstance(writers, str):
        writers = [name.strip() for name in writers.split(",") if name.strip()]
    device, budget_s = choose_device(target, writers=choose_writers(writers)), parse(budget)
    from torch import nn

    from kernelwright.deploy import drop_in
    from kernelwright.graph import build_reference
    from kernelwright.problems import from_module, load

    if isinstance(model, str):
        if example_inputs is not None or kwargs:
            raise UsageError(f"{model!r} is a reference by name, whose file gives the inputs: leave out example_inputs")
        problem, weights = load(model, training=training, autocast=autocast), None
        module = build_reference(problem)
    else:
        if not isinstance(model, nn.Module):
            kind = type(model).__name__
            raise UsageError(f'optimize takes an nn.Module or a reference as "file.py:Class", not a {kind}')
        module, given = model, (_arguments(example_inputs), dict(kwargs or {}))
        try:
            problem, weights = from_module(model, *given, training=training, autocast=autocast)
        except CaptureError as error:
            _refuse_inputs(model, *given)
            _log.warning("the original is returned: %s", error)
            return model
    with contextlib.ExitStack() as stack:
        store = archive if isinstance(archive, Archive) else stack.enter_context(open_archive(_path(archive)))
        outcome = search(
            problem,
            device,
            weights=weights,
            writers=writers,
            budget_s=budget_s,
            archive=store,
            watch=watch or _tell,
            again=again,
        )
    if outcome.best is None:
        _log.warning("the original is returned: %s", outcome.reason)
        return module
    _log.info("%s", outcome.reason)
    return drop_in(module, problem, outcome.best)


def _refuse_inputs(model: "nn.Module", args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Says so where the model itself does not take them; what it can do with them only we cannot capture."""
    import torch

    try:
        tried = copy.deepcopy(model)
    except Exception:  # some modules cannot be copied, and a call would change them: then nothing is said of the inputs
        return
    try:
        with torch.no_grad():
            tried(*args, **kwargs)
    except Exception as error:  # the user's code may raise anything
        what = "example_inputs" if args or kwargs else "a call without arguments: pass example_inputs"
        name = type(model).__name__
        raise UsageError(f"{name} does not take {what}: {type(error).__name__}: {error}") from error


def _tell(event: Event, _: Entry | None) -> None:
    _log.info("%.0f s, %s %s %s", event.at_s, event.kind.value, event.writer, event.message)


def _arguments(example_inputs: Any) -> tuple[Any, ...]:
    """What torch.export and torch.jit.trace take as well: a tuple or list of arguments, or the only argument."""
    if example_inputs is None:
        return ()
    return tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)


def _path(archive: Path | str | None) -> Path | None:
    return None if archive is None else Path(archive)
