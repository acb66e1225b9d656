"""Which device a search is for."""

from kernelwright.errors import MissingError, UnknownNameError, UsageError
from kernelwright.plugins import members

PREFERENCE = ("cuda", "mps", "cpu")
"""Fastest first. A device that is not listed, as "null", is taken only by name."""


def choose_device(name: str = "auto") -> str:
    """The device called `name`, or for "auto" the best that is here. Raises UsageError and MissingError."""
    reasons: dict[str, list[str]] = {}
    able: set[str] = set()
    for target in (kind() for kind in members("targets", "Target").values()):
        why = target.missing()
        reasons.setdefault(target.device, []).extend([why] if why else [])
        if why is None:
            able.add(target.device)
    if name == "auto":
        found = [device for device in PREFERENCE if device in able]
        if not found:
            every = [why for whys in reasons.values() for why in whys]
            raise MissingError(f"no device can run here: {'; '.join(every) or 'no target is installed'}")
        return found[0]
    if "@" in name and name.split("@")[1] in reasons:
        device = name.split("@")[1]
        raise UsageError(f"{name!r} names a language too; a search is for a device: write {device!r}")
    if name not in reasons:
        raise UnknownNameError("device", name, [*reasons, "auto"])
    if name not in able:
        raise MissingError(f"{name} cannot run here: {'; '.join(reasons[name])}")
    return name
