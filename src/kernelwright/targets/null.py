"""The device that is none: the whole house runs on it in seconds."""

from kernelwright.records import Facts


class NullTarget:
    """Runs nothing. What it reports never depends on a machine."""

    name = "null@null"
    language = "null"
    device = "null"
    native = False

    def missing(self) -> str | None:
        return None

    def facts(self) -> Facts:
        return Facts(device="null", name="null", arch="null")
