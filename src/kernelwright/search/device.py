"""Which device a search is for."""

from collections.abc import Sequence

from kernelwright.errors import MissingError, UnknownNameError, UsageError
from kernelwright.plugins import members
from kernelwright.writers import Writer

PREFERENCE = ("cuda", "mps", "cpu", "metal")
"""Fastest first; the last is Metal by a host, for what is written in it. A device that is not listed, as "null", is
taken only by name."""


def choose_device(name: str = "auto", *, writers: Sequence[Writer] = (), language: str = "") -> str:
    """The device called `name`, or for "auto" the best that is here.

    "auto" is one that a program in `language` runs on, if there is any, and that one of `writers` proposes for, if any
    does for any. Raises UsageError and MissingError.
    """
    reasons: dict[str, list[str]] = {}
    able: dict[str, set[str]] = {}
    for target in (kind() for kind in members("targets", "Target").values()):
        why = target.missing()
        reasons.setdefault(target.device, []).extend([why] if why else [])
        if why is None:
            able.setdefault(target.device, set()).add(target.language)
    if name == "auto":
        found = [device for device in PREFERENCE if device in able]
        if not found:
            every = [why for whys in reasons.values() for why in whys]
            raise MissingError(f"no device can run here: {'; '.join(every) or 'no target is installed'}")
        found = [device for device in found if language in able[device]] or found
        proposing = [writer for writer in writers if not writer.baseline]
        found = [device for device in found if any(writer.missing(device) is None for writer in proposing)] or found
        return found[0]
    if "@" in name and name.split("@")[1] in reasons:
        device = name.split("@")[1]
        raise UsageError(f"{name!r} names a language too; a search is for a device: write {device!r}")
    if name not in reasons:
        raise UnknownNameError("device", name, [*reasons, "auto"])
    if name not in able:
        raise MissingError(f"{name} cannot run here: {'; '.join(reasons[name])}")
    return name
