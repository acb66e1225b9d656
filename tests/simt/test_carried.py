"""A compiled unit that travels: opened by a process that may neither compile nor see the caches."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright import simt
from kernelwright.metal import frontend
from kernelwright.toolchain import clang

pytestmark = pytest.mark.skipif(clang.missing() is not None, reason=str(clang.missing()))

TEXT = """
#include <metal_stdlib>
using namespace metal;
kernel void twice(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] *= 2; }
kernel void sums(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = simd_sum(x[i]); }
"""
OPEN = """
import ctypes, sys
from pathlib import Path
from kernelwright import simt
library = simt.opened(Path(sys.argv[1]))
x = (ctypes.c_float * 64)(*range(64))
where = {0: (ctypes.addressof(x), 256)}
library.launch("twice", where, threads=(64,), group_size=(32,))
library.launch("sums", where, threads=(64,), group_size=(32,))
report = library.launch("twice", {0: (ctypes.addressof(x), 128)}, threads=(int(sys.argv[2]),), group_size=(32,))
print(x[0], x[63], [fault.kind.name for fault in report.faults], report.counters is not None)
"""


@pytest.mark.parametrize("check", [False, True], ids=["plain", "watched"])
def test_another_process_opens_it_without_cache_or_compiler(tmp_path: Path, check: bool) -> None:
    folder = tmp_path / "carried"
    folder.mkdir()
    record = simt.carry(frontend.module(frontend.source(TEXT)).unit, folder, check=check)
    environment = {**os.environ, "KERNELWRIGHT_HOME": str(tmp_path / "empty"), "PATH": ""}
    threads = "33" if check else "32"
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(record), threads], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"1984.0 3040.0 {['OUT_OF_BOUNDS'] if check else []} {check}"
    left = tmp_path / "empty"
    assert not left.exists() or not any(left.iterdir())
    assert {"twice", "sums"} == {entry["name"] for entry in json.loads(record.read_text())["entries"]}
