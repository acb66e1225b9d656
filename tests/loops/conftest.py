"""A compiler for C++ text, without the targets' room: clang of the ziglang wheel, and ctypes."""

import ctypes
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import ziglang

RUNTIME = Path(__file__).parents[2] / "src" / "kernelwright" / "targets" / "runtime"

PRELUDE = "".join((RUNTIME / name).read_text() for name in ("kernelwright.hpp", "math.hpp", "tiles.hpp"))


def features() -> list[str]:
    if platform.machine() not in ("x86_64", "AMD64"):
        return []
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return ["-mavx2", "-mfma", "-mf16c"]
    return [f"-m{name}" for name in ("avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512dq") if name in flags]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ctypes.CDLL]:
    """`build(text, *flags)` compiles and loads; the same text is compiled once."""
    folder = tmp_path_factory.mktemp("cpp")
    zig = str(Path(ziglang.__file__).parent / "zig")
    triple = "x86_64-linux-gnu" if platform.machine() == "x86_64" else "aarch64-linux-gnu"

    def compile_text(text: str, *flags: str) -> ctypes.CDLL:
        name = hashlib.sha256(repr((text, flags)).encode()).hexdigest()[:16]
        source, obj, library = (folder / f"{name}.{ext}" for ext in ("cpp", "o", "so"))
        if not library.exists():
            source.write_text(PRELUDE + text)
            command = [zig, "clang", "-target", triple, "-std=c++20", "-O3", "-ffreestanding", "-fPIC"]
            command += ["-fno-exceptions"]  # as the broker compiles
            env = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(folder), "ZIG_LOCAL_CACHE_DIR": str(folder)}
            for step in (
                [*command, *(flags or features()), "-Werror=pass-failed", "-c", str(source), "-o", str(obj)],
                [zig, "ld.lld", "-shared", str(obj), "-o", str(library)],
            ):
                done = subprocess.run(step, capture_output=True, text=True, env=env)
                assert done.returncode == 0, done.stderr[-3000:]
        return ctypes.CDLL(str(library))

    if sys.platform != "linux":
        pytest.skip("builds ELF libraries; on macOS tests/targets covers the same ground")
    return compile_text
