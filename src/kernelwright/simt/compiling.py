"""Compiles the entries of a Unit for a host, once for each content."""

import re
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from kernelwright.errors import MissingError, UnknownNameError, UsageError
from kernelwright.records import digest, digest_bytes
from kernelwright.simt import assembly, glue, matrices, regions, sites, store
from kernelwright.simt.library import Library, sized
from kernelwright.simt.unit import Entry, Unit
from kernelwright.toolchain import clang
from kernelwright.toolchain.features import arch, features, flags

RUNTIME = Path(__file__).parent / "runtime"

FLAGS = (
    "-std=gnu++20",
    "-O3",
    "-ffreestanding",
    "-fPIC",
    "-nostdinc",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fno-ident",
    "-fno-color-diagnostics",
    "-ferror-limit=12",
    "-Werror=date-time",
    "-mllvm",
    "-inline-threshold=5000",  # as GPU compilers do: a call would keep matrices in memory
)
"""Of every compilation here. Contraction over statements is what GPU compilers do; a Unit's own flags come after."""

_KERNEL_FLAGS = ("-fno-gnu-inline-asm",)
_FRAME_BYTES = 80 << 10
"""What a function may need of a fiber's stack: 128 KiB, less where it starts (fibers.cpp) and what it calls."""
# Where lanes meet for a product is the return address of a call, so no call may be copied into two branches. In LLVM's
# assembly "convergent" sees to that; the code generator doesn't know the word.
_NO_COPIES = tuple(
    word
    for option in ("-disable-tail-duplicate", "-disable-early-taildup", "-tail-dup-placement=false")
    for word in ("-mllvm", option)
)
_BEFORE_CUTTING = ("-fno-vectorize", "-fno-slp-vectorize", "-mllvm", "-sink-common-insts=false")
"""Vector code is made of loops over lanes, once there are some; loads of neighbours stay together for it."""
_PASSES = ("assembly", "compiling", "control_flow", "layout", "matrices", "pieces", "regions", "sites", "steps")
"""The files here that decide what code is made."""
_RUNTIME_FLAGS = ("-fomit-frame-pointer", "-fno-strict-aliasing", "-w")


def build(
    unit: Unit,
    entry_names: Iterable[str],
    *,
    host: Literal["cpu", "cuda"] = "cpu",
    check: bool = False,
    count: bool = False,
) -> Library:
    """The named entries of `unit`, compiled for `host`. Raises CompileError, MissingError, UnknownNameError."""
    if host not in ("cpu", "cuda"):
        raise UsageError(f"no host is called {host!r}; there are cpu and cuda")
    known = {entry.name: entry for entry in unit.entries}
    names = sorted(set(entry_names))
    for name in names:
        if name not in known:
            raise UnknownNameError("kernel", name, known)
    entries = tuple(known[name] for name in names)
    if check or count:
        from kernelwright.simt.check_build import build_watched

        if host != "cpu":
            raise UsageError("check and count run on the CPU; use host='cpu'")
        return build_watched(unit, entries, check=check, count=count)
    if host == "cuda":
        from kernelwright.simt import cuda

        return cuda.build(unit, entries)
    return _build_cpu(unit, entries)


def _build_cpu(unit: Unit, entries: Sequence[Entry]) -> Library:
    from kernelwright.simt import cpu

    reason = clang.missing()
    if reason:
        raise MissingError(reason)
    key = digest("simt", "cpu", unit.digest, glue.cpu(entries), machine())

    def make(folder: Path) -> tuple[dict, Iterable[Path]]:
        start = time.monotonic()
        text, log, read = assemble(unit, entries, folder)
        group_memory = assembly.group_memory(text, len(entries))
        calls = assembly.references(text)
        waiting = {i for i in _range(entries) if assembly.waits(assembly.reached(calls, f"simt_loop_{i}"))}
        text = assembly.without(text, [f"simt_{'loop' if i in waiting else 'fiber'}_{i}" for i in _range(entries)])
        done = set[int]()
        if waiting:
            text = matrices.joined(optimised(assembly.enclosed(text), folder, _BEFORE_CUTTING))
            text, done = regions.cut(text, waiting, unit.simd_width)
        if done != waiting:
            text = sites.numbered(text)
        modes = ["regions" if i in done else "fiber" if i in waiting else "loop" for i in _range(entries)]
        runtime = runtime_objects(unit.simd_width) if waiting else ()
        object_file = to_object(text, folder, fibers="fiber" in modes)
        clang.link(object_file, folder / "library.so", system=sys.platform, arch=arch(), others=runtime)
        for path in folder.iterdir():
            if path.name != "library.so":
                path.unlink()
        took = round(time.monotonic() - start, 3)
        return {"modes": modes, "group_memory": group_memory, "log": log, "seconds": took}, read

    stored = store.recall_or(key, make)
    return cpu.library(stored.folder / "library.so", entries, stored)


def measured(unit: Unit, entry_names: Iterable[str] | None = None) -> tuple[Entry, ...]:
    """The entries of these names, all by default, with the bytes of their group variables; no code is made.

    Kept by content: the first time it costs what verify() costs, or twice that. Raises CompileError.
    """
    wanted = None if entry_names is None else set(entry_names)
    entries = [entry for entry in unit.entries if wanted is None or entry.name in wanted]

    def make(folder: Path) -> tuple[dict, Iterable[Path]]:
        text, _, read = assemble(unit, entries, folder)
        for path in folder.iterdir():
            path.unlink()
        return {"group_memory": assembly.group_memory(text, len(entries))}, read

    key = digest("simt", "measured", unit.digest, glue.cpu(entries), machine())
    return sized(entries, store.recall_or(key, make).record["group_memory"])


def _range(entries: Sequence[Entry]) -> range:
    return range(len(entries))


def verify(unit: Unit, entry_names: Iterable[str] | None = None) -> str:
    """Compiles entries as far as every template in them is formed and checked, all by default; returns the warnings.

    No code is made. Raises CompileError.
    """
    wanted = None if entry_names is None else set(entry_names)
    entries = [entry for entry in unit.entries if wanted is None or entry.name in wanted]
    with tempfile.TemporaryDirectory(prefix="kernelwright-simt-") as scratch:
        return _front(unit, entries, Path(scratch).resolve(), ("-fsyntax-only", "-DSIMT_VERIFY"))


def assemble(
    unit: Unit, entries: Sequence[Entry], folder: Path, more: Sequence[str] = ()
) -> tuple[str, str, list[Path]]:
    """The unit with its glue as LLVM assembly before any optimisation; the warnings; the files it includes."""
    result, reads = folder / "raw.ll", folder / "raw.d"
    output = ("-Xclang", "-disable-llvm-passes", "-emit-llvm", "-S", "-MD", "-MF", str(reads), "-o", str(result))
    log = _front(unit, entries, folder, (*more, *output))
    return result.read_text(), log, included(reads.read_text())


def _front(unit: Unit, entries: Sequence[Entry], folder: Path, more: Sequence[str]) -> str:
    arguments = [*_platform(), *FLAGS, *_KERNEL_FLAGS, f"-DSIMT_WIDTH={unit.simd_width}", *unit.flags]
    arguments.append(f"-Wframe-larger-than={_FRAME_BYTES}")
    arguments += [f"-I{RUNTIME}", *(f"-I{path}" for path in unit.include_dirs)]
    text = unit.text + '\n# 1 "entries" 3\n#include "simt.hpp"\n' + glue.cpu(entries)
    readable = [RUNTIME, *map(Path, unit.include_dirs)]
    return clang.run([*arguments, *more, "-x", "c++", "-"], folder, text, readable=readable)


def to_object(text: str, folder: Path, *, fibers: bool = False, as_it_is: bool = False) -> Path:
    """Optimises LLVM assembly, unless it is to be taken as it is, and makes an object file of it.

    On `fibers` a function that needs too much stack is refused.
    """
    result = folder / "kernel.o"
    more = ["-Xclang", "-disable-llvm-passes"] if as_it_is else []
    more.append("-Werror=frame-larger-than" if fibers else "-w")
    clang.run([*_platform(), *FLAGS, *_NO_COPIES, *more, "-x", "ir", "-c", "-", "-o", str(result)], folder, text)
    return result


def optimised(text: str, folder: Path, more: Sequence[str] = ()) -> str:
    """LLVM assembly after all passes that don't depend on a machine's code."""
    result = folder / "optimised.ll"
    arguments = [*_platform(), *FLAGS, *more, "-w", "-x", "ir", "-emit-llvm", "-S", "-", "-o", str(result)]
    clang.run(arguments, folder, text)
    return result.read_text()


@cache
def runtime_objects(width: int, *, watched: bool = False) -> tuple[Path, ...]:
    """The compiled fibers and matrix products, for SIMD groups of `width`; for watched builds what they call, too."""
    names = ("fibers", "products", "check") if watched else ("fibers", "regions", "products")
    flags = (f"-DSIMT_WIDTH={width}", *(["-DSIMT_WATCH"] if watched else []))

    def make(folder: Path) -> tuple[dict, Iterable[Path]]:
        for name in names:
            _compile_runtime(name, folder, flags)
        return {}, ()

    folder = store.recall_or(digest("simt", "runtime", flags, machine()), make).folder
    return tuple(folder / f"{name}.o" for name in names)


@cache
def pool_library() -> Path:
    """The shared library of worker threads."""

    def make(folder: Path) -> tuple[dict, Iterable[Path]]:
        _compile_runtime("pool", folder, ())
        clang.link(folder / "pool.o", folder / "pool.so", system=sys.platform, arch=arch())
        return {}, ()

    return store.recall_or(digest("simt", "pool", machine()), make).folder / "pool.so"


def _compile_runtime(name: str, folder: Path, more: Sequence[str]) -> None:
    arguments = [*_platform(), *FLAGS, *_RUNTIME_FLAGS, *more, f"-I{RUNTIME}", "-x", "c++", "-c", "-"]
    if arch() == "x86_64":
        arguments.append("-mno-red-zone")  # fibers.cpp pushes below what the compiler believes is the top
    text = (RUNTIME / f"{name}.cpp").read_text()
    clang.run([*arguments, "-o", str(folder / f"{name}.o")], folder, text, readable=[RUNTIME])


def _platform() -> list[str]:
    words = ["-target", clang.triple(sys.platform, arch()), *flags(arch(), features())]
    if arch() == "x86_64" and sys.platform == "linux":
        words.append("-mtls-dialect=gnu2")  # else group variables need static thread space, of which dlopen has little
    return words


@cache
def machine() -> str:
    """Names everything beside the unit that decides what comes out."""
    own = [Path(__file__).with_name(f"{name}.py").read_text() for name in _PASSES]
    return digest(clang.compiler(), sys.platform, arch(), features(), FLAGS, runtime_digest(), own)


@cache
def runtime_digest() -> str:
    """Names the content of runtime/."""
    files = sorted(path for path in RUNTIME.iterdir() if path.is_file())
    return digest(*((path.name, digest_bytes(path.read_bytes())) for path in files))


def included(makefile: str) -> list[Path]:
    """The files named in a dependency file, ours left out: runtime_digest names those."""
    words = re.findall(r"(?:\\ |[^\s\\])+", makefile.partition(":")[2])
    paths = [Path(word.replace("\\ ", " ")) for word in words if word != "-"]
    return [path for path in paths if path.is_file() and RUNTIME not in path.resolve().parents]
