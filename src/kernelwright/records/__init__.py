"""What flows through the house and is kept: frozen values, standard library only.

Test of entry: does it cross a process or reach the archive? Targets, writers and checks are behaviours; they live
in their own rooms.
"""

from kernelwright.records.brief import Beside, Brief, Parent, Picture, Reference, Section
from kernelwright.records.build import Build, BuildRequest
from kernelwright.records.call import Call
from kernelwright.records.candidate import Candidate, SourceFile
from kernelwright.records.digest import digest, digest_bytes
from kernelwright.records.encoding import decode, encode, strict
from kernelwright.records.facts import Environment, Facts
from kernelwright.records.nest import flatten, unflatten
from kernelwright.records.problem import (
    Case,
    Constant,
    Numerics,
    Problem,
    Range,
    Region,
    RegionInput,
    Signature,
    TensorSpec,
)
from kernelwright.records.run import Entry, Event, EventKind, Outcome
from kernelwright.records.verdict import Comparison, Finding, Stage, Status, Timing, Trial, Verdict, Weight

__all__ = [
    "Beside",
    "Brief",
    "Build",
    "BuildRequest",
    "Call",
    "Candidate",
    "Case",
    "Comparison",
    "Constant",
    "Entry",
    "Environment",
    "Event",
    "EventKind",
    "Facts",
    "Finding",
    "Numerics",
    "Outcome",
    "Parent",
    "Picture",
    "Problem",
    "Range",
    "Reference",
    "Region",
    "RegionInput",
    "Section",
    "Signature",
    "SourceFile",
    "Stage",
    "Status",
    "TensorSpec",
    "Timing",
    "Trial",
    "Verdict",
    "Weight",
    "decode",
    "digest",
    "digest_bytes",
    "encode",
    "flatten",
    "strict",
    "unflatten",
]
