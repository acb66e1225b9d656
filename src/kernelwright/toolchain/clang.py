"""The C++ compiler: bare clang and lld out of the `ziglang` wheel, so that no compiler of the system is needed.

`zig c++` is not used to compile: it brings headers, sanitizers and a cache of its own.
"""

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from kernelwright import sandbox
from kernelwright.errors import CompileError, MissingError, SandboxError
from kernelwright.toolchain.features import flags

LIMIT_S = 60
"""A kernel file that takes longer to compile is refused."""
_MEMORY_BYTES = 4 << 30
_LOG_CHARACTERS = 6000
_NOT_CONFINED = 125

# Nothing but the text decides the result: no header, no configuration file, no directive of the assembler (inline
# assembly is off), no date. Errno and traps go since they forbid vector code and no kernel reads them. Contraction is
# the language's own, within an expression: a fused multiply-add rounds once instead of twice. No fast-math.
FLAGS = (
    "--no-default-config",
    "-std=gnu++20",
    "-O3",
    "-ffreestanding",
    "-fPIC",
    "-nostdinc",
    "-fno-gnu-inline-asm",
    "-fno-cxx-modules",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=on",
    "-fno-ident",
    "-fno-color-diagnostics",
    "-ferror-limit=12",
    "-Werror=date-time",
)

# The compiler may open no file at all; the text comes through its standard input.
_NO_FILES = '{"version": 0, "redirecting-with": "redirect-only", "roots": []}'


def missing() -> str | None:
    """Why nothing can be compiled here, as a sentence; None if it can."""
    if sys.platform not in ("linux", "darwin"):
        return f"C++ kernels are built on Linux and macOS; this is {sys.platform}"
    if not _zig().is_file():
        return "the C++ compiler is not installed: pip install ziglang"
    return None


@cache
def compiler() -> str:
    """The compiler's name and version, as a key needs it."""
    try:
        return f"ziglang {version('ziglang')}"
    except PackageNotFoundError:
        raise MissingError("the C++ compiler is not installed: pip install ziglang") from None


def triple(system: str, arch: str) -> str:
    """Clang's name for a platform (`sys.platform`, "x86_64" or "arm64")."""
    if system == "darwin":
        return f"{arch}-apple-macosx11.0"
    return f"{'aarch64' if arch == 'arm64' else arch}-linux-gnu"


def compile_object(text: str, result: Path, *, system: str, arch: str, features: tuple[str, ...]) -> str:
    """Compiles `text` to the object file `result`; returns the warnings. Raises CompileError."""
    folder = result.parent
    overlay = folder / "files.yaml"
    overlay.write_text(_NO_FILES)
    command = [str(_zig()), "clang", "-target", triple(system, arch), *FLAGS, *flags(arch, features)]
    command += ["-ivfsoverlay", str(overlay), "-x", "c++", "-c", "-", "-o", str(result)]
    return _run(command, folder, text)


def run(arguments: Sequence[str], folder: Path, text: str = "", *, readable: Sequence[Path] = ()) -> str:
    """Runs clang with `arguments` on `text` (as its file "-"); returns the warnings. Raises CompileError.

    It writes only below `folder` and, where this machine has a sandbox, reads only there and below `readable`.
    """
    return _run([str(_zig()), "clang", "--no-default-config", *arguments], folder, text, readable)


def link(object_file: Path, result: Path, *, system: str, arch: str, others: Sequence[Path] = ()) -> None:
    """Makes a shared library of one object file, with `others` that lie elsewhere.

    Raises CompileError, as for a kernel without definition.
    """
    folder = result.parent
    objects = [str(object_file), *map(str, others)]
    if system == "darwin":  # lld's Mach-O linker is not in the wheel; Zig's own is, and it signs
        machine = "aarch64" if arch == "arm64" else arch
        command = [
            str(_zig()),
            "cc",
            "-target",
            f"{machine}-macos",
            "-shared",
            "-nostdlib",
            "-Wl,-undefined,dynamic_lookup",
        ]
        command += [*objects, "-o", str(result)]
    else:
        command = [str(_zig()), "ld.lld", "-shared", "-Bsymbolic", "--no-dependent-libraries", "-z", "noexecstack"]
        command += [*objects, "-o", str(result)]
    _run(command, folder, "", others)


def _zig() -> Path:
    spec = find_spec("ziglang")
    return Path(spec.origin).parent / "zig" if spec and spec.origin else Path("zig-not-installed")


def _run(command: Sequence[str], folder: Path, text: str, readable: Sequence[Path] = ()) -> str:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder)}
    environment |= {"ZIG_GLOBAL_CACHE_DIR": str(folder), "ZIG_LOCAL_CACHE_DIR": str(folder)}
    try:
        done = confined(command, folder, text, environment, readable)
    except subprocess.TimeoutExpired:
        raise CompileError(f"compiling took more than {LIMIT_S} s") from None
    if done.returncode == _NOT_CONFINED and done.stderr.startswith("kernelwright sandbox:"):
        raise SandboxError(done.stderr.strip())
    log = _readable(done.stderr, folder)
    if done.returncode:
        raise CompileError(_summary(log, done.returncode), log)
    return log


def confined(
    command: Sequence[str],
    folder: Path,
    text: str,
    environment: Mapping[str, str],
    readable: Sequence[Path] = (),
) -> subprocess.CompletedProcess[str]:
    """Runs a compiler that reads hostile text from its standard input, in a sandbox that leaves it only `folder`.

    Of other files it may read those below `readable`.

    Without a sandbox on this machine it runs all the same: the flags already keep it from every file.
    """
    if sandbox.missing() is None:
        limits = sandbox.Limits(memory_bytes=_MEMORY_BYTES, cpu_s=LIMIT_S)
        command = sandbox.command(
            command, readable=[_zig().parent, "/dev/urandom", *readable], writable=[folder], limits=limits
        )
    return subprocess.run(
        command,
        cwd=folder,
        env=dict(environment),
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LIMIT_S,
    )


def _readable(log: str, folder: Path) -> str:
    log = log.replace(f"{folder}/", "").replace(str(folder), ".")
    log = re.sub(r"undefined hidden symbol: kernelwright_kernel_(\w+)[^\n]*(\n>>>[^\n]*)*", _undefined, log)
    if len(log) > _LOG_CHARACTERS:
        log = log[:_LOG_CHARACTERS] + "\n[the rest was cut]"
    if "file not found" in log:
        log += "\nKernels are compiled without headers or other files: use the prelude's types and math."
    return log.strip()


def _undefined(match: re.Match[str]) -> str:
    return f"kernel {match[1]} is declared and not defined (is it inside an #if?)"


def _summary(log: str, code: int) -> str:
    for line in log.splitlines():
        if "error:" in line:
            return line.strip()
    return f"the compiler was killed by signal {-code}" if code < 0 else f"the compiler failed with code {code}"
