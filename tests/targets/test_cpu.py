"""What is known of a processor: read from fixtures of other machines, measured on this one."""

import os
import time
from pathlib import Path

import pytest

from kernelwright.targets.devices import cpu, limits
from kernelwright.toolchain import features

CPUINFO_ARM = """processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes sha1 atomics fphp asimdhp asimdrdm asimddp sve i8mm bf16
CPU implementer\t: 0x41
"""
CPUINFO_X86 = """processor\t: 0
model name\t: AMD EPYC 7763 64-Core Processor
flags\t\t: fpu sse sse2 pni ssse3 fma sse4_1 sse4_2 movbe popcnt avx f16c abm bmi1 avx2 bmi2 amx_tile
"""
SYSCTL = """machdep.cpu.brand_string: Apple M2 Pro
hw.memsize: 17179869184
hw.perflevel0.l1dcachesize: 131072
hw.perflevel0.l2cachesize: 16777216
hw.l1dcachesize: 65536
hw.optional.arm.FEAT_DotProd: 1
hw.optional.arm.FEAT_BF16: 1
hw.optional.arm.FEAT_SME: 1
hw.optional.arm.FEAT_I8MM: 0
"""


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_features_have_clangs_names() -> None:
    words = features.cpuinfo_words(CPUINFO_X86)
    assert features.resolve("x86_64", words) == (
        "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3",
    )  # fmt: skip
    assert "-mavx2" in features.flags("x86_64", features.resolve("x86_64", words))
    arm = features.resolve("arm64", features.cpuinfo_words(CPUINFO_ARM))
    assert features.flags("arm64", arm) == ("-march=armv8-a+bf16+dotprod+fp16+i8mm+lse+rdm",)
    mac = features.resolve("arm64", features.sysctl_words(SYSCTL))
    assert mac == ("bf16", "dotprod")
    assert features.resolve("riscv64", frozenset({"avx2"})) == ()


def test_a_linux_machine_is_described(tmp_path: Path) -> None:
    cache = "sys/devices/system/cpu/cpu0/cache/index"
    levels = [("Data", 1, "32K"), ("Instruction", 1, "32K"), ("Unified", 2, "512K"), ("Unified", 3, "32M")]
    files = {
        f"{cache}{i}/{name}": f"{value}\n"
        for i, level in enumerate(levels)
        for name, value in zip(("type", "level", "size"), level, strict=True)
    }
    files |= {"proc/cpuinfo": CPUINFO_X86, "proc/meminfo": "MemTotal:  16000 kB\nMemFree: 1 kB\n"}
    facts = cpu.describe_linux(tree(tmp_path, files))
    assert facts.name == "AMD EPYC 7763 64-Core Processor"
    assert facts.cache_bytes == (32 << 10, 512 << 10, 32 << 20)
    assert facts.memory_bytes == 16000 << 10


def test_a_mac_is_described() -> None:
    facts = cpu.describe_darwin(SYSCTL, 10)
    assert (facts.name, facts.threads, facts.memory_bytes) == ("Apple M2 Pro", 10, 16 << 30)
    assert facts.cache_bytes == (128 << 10, 16 << 20)


def test_a_machine_that_says_nothing_has_zeros(tmp_path: Path) -> None:
    facts = cpu.describe_linux(tmp_path)
    assert (facts.memory_bytes, facts.cache_bytes) == (0, ()) and facts.threads >= 1


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8),
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
        ({"sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        ({"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ({"sys/fs/cgroup/cpu.max": "10000 100000\n"}, 1),
        ({"sys/fs/cgroup/cpu.max": "9900000 100000\n"}, 8),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 3),
    ],
)
def test_cores_are_those_this_process_may_use(
    files: dict[str, str], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert limits.cores(tree(tmp_path, files)) == expected


def test_memory_is_what_the_group_leaves(tmp_path: Path) -> None:
    files = {"proc/meminfo": "MemTotal:  16000 kB\n", "sys/fs/cgroup/memory.max": "4096000\n"}
    assert limits.memory_bytes(tree(tmp_path, files)) == 4096000


def test_facts_are_measured_once_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    cpu.facts.cache_clear()
    facts = cpu.facts()
    assert facts.bandwidth_gbs > 0.5
    assert len(facts.cache_bandwidth_gbs) == len(facts.cache_bytes)
    assert dict(facts.peak_gflops)["float32"] > 1
    cpu.facts.cache_clear()
    start = time.perf_counter()
    assert cpu.facts() == facts
    assert time.perf_counter() - start < 0.2


def test_a_disturbed_measurement_is_made_again_when_it_is_quiet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from kernelwright.targets.devices import measure

    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    made = []
    monkeypatch.setattr(measure, "measured", lambda facts: made.append(facts) or facts)
    for load, expected in ((9.0, 1), (9.0, 1), (0.0, 2), (9.0, 2), (0.0, 2)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        cpu.facts.cache_clear()
        assert cpu.facts().disturbed == (expected == 1)
        assert len(made) == expected
    cpu.facts.cache_clear()
    next((tmp_path / "devices").glob("*.json")).write_text("{}")
    cpu.facts()
    assert len(made) == 3
    cpu.facts.cache_clear()
