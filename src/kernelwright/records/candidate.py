"""What a writer proposes."""

from dataclasses import dataclass, field
from functools import cached_property

from kernelwright.records.digest import digest


@dataclass(frozen=True)
class SourceFile:
    """A text file of a candidate. The first one of a candidate is Python and defines the entry class."""

    path: str
    """Relative, without folders: "model.py", "softmax.cpp"."""
    text: str


@dataclass(frozen=True)
class Candidate:
    """Python text that defines the entry class, with kernel files beside it.

    The entry class is an nn.Module with the reference's constructor and `forward`. It takes its weights by
    `load_state_dict` and may define `prepare()`, which is called after every change of weights. A file `name.py`
    of the candidate can be imported as `name`; the text of a file `name.cpp` is `kernelwright.source("name.cpp")`.
    """

    writer: str
    target: str
    """language@device, as "cpp@cpu"."""
    sources: tuple[SourceFile, ...]
    entry: str = "ModelNew"
    label: str = ""
    """What distinguishes it among its writer's candidates, in a word or two: "max-autotune", "vec=16"."""
    parents: tuple[str, ...] = ()
    """Digests of the candidates it was made from."""
    note: str = ""
    """What was done, for people and for the next writer."""
    baseline: bool = field(default=False)
    """Whether it is the user's own code run by a stock tool, against which others are measured."""

    algorithmic: bool = False
    """Whether exact algebra leaves most of the reference's arithmetic undone: its verdicts are labelled so."""

    @cached_property
    def digest(self) -> str:
        """Names the content: sources, entry and target, whoever wrote it."""
        return digest("candidate", self.target, self.sources, self.entry)

    @property
    def title(self) -> str:
        """Writer and label, as tables show it."""
        return f"{self.writer} {self.label}".strip()
