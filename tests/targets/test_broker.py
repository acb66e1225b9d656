"""The compile cache: once per content, complete or not at all, shared by threads and processes."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import kernelwright
from kernelwright.errors import CompileError
from kernelwright.records import Build, BuildRequest
from kernelwright.targets import LocalBroker, use_broker
from kernelwright.targets.languages.cpp import CppLanguage

TEXT = "kernel void f(float* x) { x[0] = 1; }"


def request(text: str = TEXT) -> BuildRequest:
    return BuildRequest("cpp", text)


def test_a_second_build_is_found(tmp_path: Path) -> None:
    broker = LocalBroker(tmp_path)
    first, second = broker.build(request()), LocalBroker(tmp_path).build(request())
    assert (first.cached, second.cached) == (False, True)
    assert first.path == second.path and Path(first.path).exists()
    folder = Path(first.path).parent
    assert sorted(path.name for path in folder.iterdir()) == ["build.json", "kernel.so"]
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name]


def test_what_decides_the_result_decides_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = LocalBroker(tmp_path)
    paths = {broker.build(request()).path, broker.build(request(TEXT + "\n")).path}
    paths.add(broker.build(BuildRequest("cpp", TEXT, (("constants", '{"N": 1}'),))).path)
    monkeypatch.setattr(CppLanguage, "key", lambda self, request: ("another compiler",))
    paths.add(broker.build(request()).path)
    assert len(paths) == 4


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    broker = LocalBroker(tmp_path)
    for _ in range(2):
        with pytest.raises(CompileError):
            broker.build(request("kernel void f() { oh }"))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert not list(tmp_path.rglob(".building*"))


@pytest.mark.parametrize("damage", ["{", "", None])
def test_a_damaged_folder_is_built_again(tmp_path: Path, damage: str | None) -> None:
    broker = LocalBroker(tmp_path)
    path = Path(broker.build(request()).path)
    if damage is None:
        path.unlink()
    else:
        (path.parent / "build.json").write_text(damage)
    assert not broker.build(request()).cached
    assert broker.build(request()).cached


def test_threads_compile_once(tmp_path: Path) -> None:
    builds: list[Build] = []
    broker = LocalBroker(tmp_path)
    threads = [threading.Thread(target=lambda: builds.append(broker.build(request()))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(build.cached for build in builds) == [False] + [True] * 5
    assert len({build.path for build in builds}) == 1


def test_processes_compile_once(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\nfrom kernelwright.targets import LocalBroker\n"
        "from kernelwright.records import BuildRequest\n"
        f"print(LocalBroker(pathlib.Path(sys.argv[1])).build(BuildRequest('cpp', {TEXT!r})).cached)"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [child.communicate()[0].strip() for child in children]
    assert sorted(said) == ["False", "True", "True"]


def test_what_killed_builds_left_is_swept_a_day_later(tmp_path: Path) -> None:
    broker = LocalBroker(tmp_path)
    parent = Path(broker.build(request()).path).parent.parent
    old, young = parent / ".building-old", parent / ".building-young"
    for folder in (old, young):
        folder.mkdir()
    os.utime(old, (time.time() - 90000, time.time() - 90000))
    shutil.rmtree(next(path for path in parent.iterdir() if path not in (old, young)))
    broker.build(request())
    assert young.exists() and not old.exists()


def test_a_full_cache_loses_what_was_used_longest_ago(tmp_path: Path) -> None:
    texts = [TEXT + f"// {number}" for number in range(3)]
    paths = [Path(LocalBroker(tmp_path).build(request(text)).path) for text in texts]
    for path, days in zip(paths, (3, 2, 0), strict=True):
        then = time.time() - days * 86400
        os.utime(path.parent / "build.json", (then, then))
    one_bytes = sum(file.stat().st_size for file in paths[0].parent.iterdir())
    LocalBroker(tmp_path, limit_bytes=int(3.5 * one_bytes)).build(request(TEXT + "// one more"))
    assert [path.exists() for path in paths] == [False, True, True]
    LocalBroker(tmp_path, limit_bytes=0).build(request(TEXT + "// and another"))
    assert [path.exists() for path in paths] == [False, False, True], "what was used today stays"


def test_a_hit_counts_as_use(tmp_path: Path) -> None:
    broker = LocalBroker(tmp_path)
    record = Path(broker.build(request()).path).parent / "build.json"
    os.utime(record, (0, 0))
    assert broker.build(request()).cached
    assert time.time() - record.stat().st_mtime < 60


def test_warnings_are_kept(tmp_path: Path) -> None:
    broker = LocalBroker(tmp_path)
    text = "kernel void f(int32* x) {\n    int y = 3000000000;\n    x[0] = y;\n}"
    for cached in (False, True):
        build = broker.build(request(text))
        assert build.cached is cached
        assert build.log.startswith("kernel.cpp:2:13: warning:")


def test_another_broker_can_be_put_in_its_place(tmp_path: Path) -> None:
    asked: list[BuildRequest] = []

    class Pipe:
        def build(self, request: BuildRequest) -> Build:
            asked.append(BuildRequest(**json.loads(json.dumps(vars(request) | {"options": ()}))))
            return LocalBroker(tmp_path).build(request)

    use_broker(Pipe())
    try:
        kernelwright.compile(TEXT + "// through a pipe")
    finally:
        use_broker(None)
    assert [request.language for request in asked] == ["cpp"]


@pytest.mark.timing
def test_a_warm_hit_takes_five_milliseconds(tmp_path: Path) -> None:
    broker = LocalBroker(tmp_path)
    broker.build(request())
    times = []
    for _ in range(20):
        start = time.perf_counter()
        broker.build(request())
        times.append(time.perf_counter() - start)
    assert sorted(times)[10] < 5e-3
