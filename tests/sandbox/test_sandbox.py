"""A confined process really tries to get out: as root and as an ordinary user."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelwright import sandbox
from kernelwright.sandbox import darwin, seccomp
from kernelwright.sandbox.syscalls import MACHINES

linux = pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's")
reason = sandbox.missing()
here = pytest.mark.skipif(bool(reason), reason=reason or "")

ORDINARY = 12345
"""See ordinary.py."""
ALLOWED = {"read_granted", "write_granted", "late_import", "thread", "own_signal", "temporary_socketpair"}
USERS = ["root", "ordinary"] if os.geteuid() == 0 else ["ordinary"]


def as_user(user: str) -> list[str]:
    """The beginning of a command that runs the rest as this user."""
    script = str(Path(__file__).parent / "ordinary.py")
    return [sys.executable, script] if user == "ordinary" and os.geteuid() == 0 else []


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture(scope="module", params=USERS)
def outcomes(request: pytest.FixtureRequest, place: Path) -> dict[str, Any]:
    folder = place / request.param
    for name in ("readable", "writable", "private"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text("a secret")
    if as_user(request.param):
        for path in (folder, *folder.rglob("*")):
            os.chown(path, ORDINARY, ORDINARY)
    script = Path(__file__).parent / "attempts.py"
    other = subprocess.Popen([*as_user(request.param), "/bin/sleep", "60"])
    try:
        words = [folder / "readable", folder / "writable", folder / "private" / "file", other.pid]
        done = subprocess.run(
            [*as_user(request.param), sys.executable, str(script), *map(str, words)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        other.kill()
        other.wait()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (folder / "private" / "file").read_text() == "a secret"
    assert os.stat(folder / "private" / "file").st_mode & 0o777 != 0o777
    return found


@linux
@here
def test_nothing_but_the_granted_is_possible(outcomes: dict[str, Any]) -> None:
    tried = {name: outcome for name, outcome in outcomes.items() if name != "uid"}
    assert {name for name, outcome in tried.items() if outcome == "allowed"} == ALLOWED
    # Denied by the sandbox, and not by chance of this machine.
    expected = {"PermissionError", "OSError", "MemoryError"}
    assert {name: outcome for name, outcome in tried.items() if outcome not in {*expected, "allowed"}} == {}


@linux
@here
def test_root_becomes_nobody(outcomes: dict[str, Any]) -> None:
    assert outcomes["uid"] in (65534, ORDINARY, os.geteuid() or -1)


@linux
@here
def test_several_threads_are_refused() -> None:
    code = (
        "import threading, time\nfrom kernelwright import sandbox\n"
        "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n"
        "sandbox.confine([], [], sandbox.Limits())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "SandboxError" in done.stderr and "several threads" in done.stderr


def confined(*words: str, read: tuple[str, ...] = (), write: tuple[Path, ...] = (), **options: Any) -> Any:
    command = sandbox.command(words, readable=["/usr", "/bin", "/lib", "/lib64", *read], writable=write, **options)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@linux
@here
def test_command_runs_a_compiler(tmp_path: Path) -> None:
    ziglang = pytest.importorskip("ziglang")
    folder = str(Path(ziglang.__file__).parent)
    (tmp_path / "k.cpp").write_text('extern "C" int twice(int x) { return 2 * x; }')
    result = tmp_path / "k.o"
    words = [f"{folder}/zig", "clang", "-O3", "-c", str(tmp_path / "k.cpp"), "-o", str(result)]
    done = confined(*words, read=(folder,), write=(tmp_path,), limits=sandbox.Limits(4 << 30, 60))
    assert done.returncode == 0, done.stderr
    assert result.stat().st_size > 100
    linked = [f"{folder}/zig", "ld.lld", "-shared", str(result), "-o", str(tmp_path / "k.so")]
    done = confined(*linked, read=(folder,), write=(tmp_path,))
    assert done.returncode == 0, done.stderr


@linux
@here
def test_command_has_no_network_and_no_files(tmp_path: Path) -> None:
    assert "Permission" in confined("/bin/cat", "/etc/passwd").stderr
    tried = confined("/bin/sh", "-c", f"echo x > {tmp_path}/file")
    assert tried.returncode and not (tmp_path / "file").exists()
    code = "import socket; socket.socket()"
    assert "PermissionError" in confined(sys.executable, "-c", code, read=(sys.prefix, sys.base_prefix)).stderr


@linux
@here
def test_command_stops_what_takes_too_long() -> None:
    done = confined("/bin/sh", "-c", "while :; do :; done", limits=sandbox.Limits(cpu_s=1))
    assert done.returncode < 0


def test_command_says_what_is_wrong() -> None:
    words = [sys.executable, "-m", "kernelwright.sandbox"]
    assert subprocess.run([*words, "--", "/no/such/tool"], capture_output=True, check=False).returncode == 127
    assert subprocess.run([*words, "--nonsense"], capture_output=True, check=False).returncode == 125
    assert subprocess.run([*words, "--help"], capture_output=True, check=False).returncode == 0


@linux
@here
@pytest.mark.timing
def test_command_starts_soon() -> None:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        confined("/bin/true")
        times.append(time.perf_counter() - began)
    assert min(times) < 0.1


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("execute", [True, False])
def test_filter_is_a_sound_program(name: str, execute: bool) -> None:
    """Run by a small interpreter, for both machines: the kernel here can check only its own."""
    machine = MACHINES[name]
    code = seccomp.program(machine, pid=77, execute=execute)
    assert len(code) // 8 < 4096

    def verdict(call: str | int, *arguments: int, audit: int = machine.audit) -> int:
        number = machine.numbers[call] if isinstance(call, str) else call
        return interpret(code, number, audit, arguments)

    allow, eperm, enosys, kill = 0x7FFF_0000, 0x0005_0001, 0x0005_0026, 0x8000_0000
    assert verdict(9999) == allow
    assert verdict(9999, audit=1) == kill
    assert verdict("socket") == verdict("ptrace") == verdict("open_by_handle_at") == eperm
    assert verdict("clone3") == enosys
    assert verdict("clone", 0x0001_0000) == allow
    assert verdict("clone", 17) == (allow if execute else eperm)
    assert verdict("clone", 0x1000_0000 | (0 if execute else 0x0001_0000)) == (eperm if execute else allow)
    assert verdict("execve") == (allow if execute else eperm)
    assert verdict("kill", 77) == allow and verdict("kill", 78) == eperm and verdict("kill", 2**32 - 1) == eperm
    assert verdict("prlimit64", 0) == verdict("prlimit64", 77) == allow and verdict("prlimit64", 78) == eperm
    assert verdict("fcntl", 3, 1) == allow and verdict("fcntl", 3, 8) == eperm
    assert verdict("ioctl", 3, 0x5412) == eperm and verdict("ioctl", 3, 0x5401) == allow
    assert verdict("socketpair", 1, 1) == verdict("socketpair", 1, 1 | 0o2000000) == allow
    assert verdict("socketpair", 1, 2) == eperm
    if name == "x86_64":
        assert verdict(0x4000_0000) == kill


@pytest.mark.parametrize("name", MACHINES)
def test_a_process_that_may_listen_reaches_nobody(name: str) -> None:
    machine = MACHINES[name]
    code = seccomp.program(machine, pid=77, execute=False, listen=True)

    def allowed(call: str, *arguments: int) -> bool:
        return interpret(code, machine.numbers[call], machine.audit, arguments) == 0x7FFF_0000

    unix, inet, stream, datagram, packets = 1, 2, 1, 2, 5
    assert allowed("socket", unix, packets | 0o2000000)
    assert allowed("socket", unix, stream) and allowed("socket", unix, stream | 0o2000000)
    assert allowed("bind", 3) and allowed("listen", 3) and allowed("accept4", 3)
    assert not allowed("socket", unix, datagram) and not allowed("socket", inet, stream)
    assert not allowed("connect", 3) and not allowed("execve")


def interpret(code: bytes, number: int, audit: int, arguments: tuple[int, ...]) -> int:
    """Classic BPF over struct seccomp_data, little-endian."""
    import struct

    data = struct.pack("<IIQ", number, audit, 0)
    data += b"".join(struct.pack("<Q", value) for value in (*arguments, *(0,) * (6 - len(arguments))))
    held = at = 0
    while True:
        kind, yes, no, value = struct.unpack_from("HBBI", code, 8 * at)
        at += 1
        if kind == 0x20:
            held = struct.unpack_from("<I", data, value)[0]
        elif kind == 0x54:
            held &= value
        elif kind == 0x06:
            return value
        else:
            met = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[kind]
            at += yes if met else no


def test_profile_of_macos(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    text = sandbox.profile([tmp_path / "file"], [tmp_path])
    assert text.startswith("(version 1)\n(deny default)\n")
    assert f'(literal "{tmp_path.resolve()}/file")' in text
    assert text.count(f'(subpath "{tmp_path.resolve()}")') == 3
    assert "network" not in text and "process-exec" not in text
    assert "(allow process-exec)" in darwin.profile([], [], execute=True)
    assert text.count("(") == text.count(")")
    assert r"\"" in darwin.profile(['/a"b'], [], execute=False)
