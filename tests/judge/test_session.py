"""One child with one candidate: honest ones come through whole, hostile ones cost nothing but their own verdict."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from kernelwright import sandbox
from kernelwright.home import home
from kernelwright.judge.fresh import Given
from kernelwright.judge.session import Expected, NullSession, Session, SessionSettings
from kernelwright.judge.spawn import environment, forkserver
from kernelwright.records import (
    Build,
    BuildRequest,
    Candidate,
    Numerics,
    Problem,
    Signature,
    SourceFile,
    Status,
    TensorSpec,
    flatten,
)
from kernelwright.targets import LocalBroker

pytestmark = pytest.mark.skipif(bool(sandbox.missing()), reason=sandbox.missing() or "")

SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        return torch.relu(self.linear(x))

def get_init_inputs():
    return [16]

def get_inputs():
    return [torch.randn(8, 16)]
"""
LIMITS = SessionSettings(start_s=10, weights_s=10, call_s=2, window_s=5, memory_bytes=256 << 20)


def template(*leaves: torch.Tensor, **keywords: object) -> str:
    return flatten({"args": list(leaves), "kwargs": keywords}, torch.is_tensor)[1]


def problem(*specs: TensorSpec, source: str = SOURCE, numerics: Numerics = Numerics()) -> Problem:
    specs = specs or (TensorSpec("x", "float32", (8, 16)),)
    return Problem("t", source, Signature(specs, template(*(torch.zeros(1) for _ in specs))), numerics)


def candidate(body: str, *, top: str = "", source: str = SOURCE) -> Candidate:
    """`body` holds the methods of ModelNew, a subclass of the reference."""
    text = (
        f"import os, sys, time, threading\nimport torch\nfrom reference import Model\n{top}\nclass ModelNew(Model):\n"
    )
    indented = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return Candidate("test", "torch@cpu", (SourceFile("model.py", text + indented), SourceFile("reference.py", source)))


def forward(body: str) -> Candidate:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return candidate(f"def forward(self, x):\n{lines}")


def reference(source: str = SOURCE) -> nn.Module:
    names: dict = {}
    exec(source, names)
    torch.manual_seed(0)
    return names["Model"](*names["get_init_inputs"]()).eval()


def weights_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach() for name, value in module.state_dict().items()}


def open_session(what: Candidate, *, of: Problem | None = None, settings: SessionSettings = LIMITS, **more) -> Session:
    of = of or problem()
    more.setdefault("broker", LocalBroker())
    return Session(of, what, weights=weights_of(reference(of.source)), settings=settings, **more)


@pytest.fixture(scope="module", autouse=True)
def warm() -> Iterator[None]:
    forkserver().start()
    yield


HONEST = candidate(
    """
def prepare(self):
    self.transposed = self.linear.weight.t().contiguous()
def forward(self, x):
    print("at work")
    return torch.relu(x @ self.transposed + self.linear.bias)
"""
)


def test_an_honest_candidate_comes_through() -> None:
    model, x = reference(), torch.randn(8, 16)
    expected = Expected.of(model(x))
    with open_session(HONEST) as session:
        started = session.start()
        assert started.failure is None
        assert started.prepare_us is not None and started.prepare_us > 0
        if sys.platform == "linux":
            assert "Landlock" in started.confinement
        run = session.run([x], expected)
        assert run.failure is None and run.fits and run.guards
        assert run.outputs[0] is not None
        torch.testing.assert_close(run.outputs[0], model(x).detach())
        assert not run.unwritten and not run.changed
        (declared,) = run.declared
        assert (declared.kind, declared.dtype, declared.shape) == ("Tensor", "float32", (8, 16))
        assert declared.input_alias is None and declared.state_alias is None
        assert run.forward_us > 0 and run.copy_us > 0
        chosen: list[tuple[int, ...]] = [(3,), (0, 4, 2), ()]
        for revealed in chosen:
            calls = Given([[torch.randn(8, 16)] for _ in range(5)])
            window = session.window(calls, expected, reveal=revealed, keep=bool(revealed))
            assert window.failure is None and window.calls == 5 and window.copied == len(revealed)
            for (output,) in window.results:
                assert output is not None
                torch.testing.assert_close(output, model(calls.leaves(revealed[0])[0]).detach())
            assert len(window.results) == bool(revealed)
            assert not window.unwritten and not window.changed and window.guards
        changed = {name: value * 2 for name, value in weights_of(model).items()}
        loaded = session.load_weights(changed)
        assert loaded.failure is None and loaded.prepare_us is not None
        model.load_state_dict(changed)
        again = session.run([x], expected).outputs[0]
        assert again is not None
        torch.testing.assert_close(again, model(x).detach())
        state = dict(session.state(changed).tensors)
        assert set(state) == set(changed) and torch.equal(state["linear.weight"], changed["linear.weight"])
        assert session.lost is None
        assert (session.peak_memory_bytes or 0) > 0 or sys.platform != "linux"
        assert "at work" in session.log
    assert "at work" in session.log and session.run([x], expected).failure is not None


LAYOUTS = {
    "contiguous": lambda t: t.clone(),
    "transposed": lambda t: t.t().contiguous().t(),
    "strided": lambda t: torch.stack([t, t], dim=-1)[..., 1],
    "offset": lambda t: torch.cat([torch.zeros(3), t.flatten()])[3:].view(t.shape),
    "far offset": lambda t: torch.cat([torch.zeros(9001), t.flatten()])[9001:].view(t.shape),
    "broadcast": lambda t: t[:1].expand_as(t),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_arrive_as_they_are(layout: str) -> None:
    what = forward("return x.clone(), torch.tensor([*x.stride(), x.storage_offset()])")
    x = LAYOUTS[layout](torch.randn(8, 16))
    expected = Expected.of((x.contiguous(), torch.tensor([0, 0, 0])))
    with open_session(what) as session:
        assert session.start().failure is None
        run = session.run([x], expected)
        assert run.failure is None and run.fits, run
        value, form = run.outputs
        assert value is not None and form is not None
        assert torch.equal(value, x) and form[:2].tolist() == list(x.stride())
        assert (form[2] > 0) == (x.storage_offset() > 0)


DTYPES = [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_and_empty_tensors(dtype: torch.dtype) -> None:
    what = candidate("def forward(self, x, y):\n    return {'a': x.clone(), 'b': [y.clone()]}")
    x, y = torch.randint(0, 2, (3, 5)).to(dtype), torch.empty(0, 4, dtype=dtype)
    specs = [TensorSpec(name, str(dtype).removeprefix("torch."), tuple(t.shape)) for name, t in (("x", x), ("y", y))]
    expected = Expected.of({"a": x, "b": [y]})
    with open_session(what, of=problem(*specs)) as session:
        assert session.start().failure is None
        run = session.run([x, y], expected)
        assert run.fits and run.outputs[0] is not None and torch.equal(run.outputs[0], x), run
        assert run.outputs[1] is not None and run.outputs[1].shape == (0, 4)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("return super().forward(x)[:4]", "shape"),
        ("return super().forward(x).double()", "dtype"),
        ("return [super().forward(x)]", "template"),
        ("return super().forward(x), x", "template"),
        ("return super().forward(x).to_sparse()", "kind"),
    ],
)
def test_what_does_not_fit_is_no_output(body: str, wrong: str) -> None:
    x = torch.randn(8, 16)
    with open_session(forward(body)) as session:
        assert session.start().failure is None
        run = session.run([x], Expected.of(x))
        assert run.failure is not None or not run.fits, wrong


def test_aliases_are_declared() -> None:
    what = forward("out = x.view(16, 8); return out, out, self.linear.weight, x.clone()")
    x = torch.randn(8, 16)
    expected = Expected.of((x.view(16, 8), x.view(16, 8), torch.zeros(16, 16), x))
    with open_session(what) as session:
        assert session.start().failure is None
        declared = session.run([x], expected).declared
        assert [item.input_alias for item in declared] == [0, 0, None, None]
        assert declared[1].output_alias == 0
        assert declared[2].state_alias == "linear.weight"


def test_changed_inputs_are_seen() -> None:
    x = torch.randn(8, 16)
    with open_session(forward("x[3, 3] += 1; return x.clone()")) as session:
        assert session.start().failure is None
        assert session.run([x], Expected.of(x)).changed == (0,)
        assert session.window(Given([[x], [x]]), Expected.of(x), reveal=(1, 0)).changed == (0, 1)


def test_one_tensor_given_twice_stays_one() -> None:
    what = candidate("def forward(self, x, y):\n    return torch.tensor(x is y)")
    specs = (TensorSpec("x", "float32", (8, 16)), TensorSpec("y", "float32", (8, 16), alias_of=0))
    x = torch.randn(8, 16)
    with open_session(what, of=problem(*specs)) as session:
        assert session.start().failure is None
        run = session.run([x, x], Expected.of(torch.tensor(True)))
        assert run.outputs[0] is not None and run.outputs[0].item() is True


def test_training_changes_buffers() -> None:
    what = forward("self.seen += 1; assert self.training; return super().forward(x)")
    x = torch.randn(8, 16)
    with open_session(what, of=problem(numerics=Numerics(training=True))) as session:
        assert session.start().failure is None
        session.run([x], Expected.of(x))
        assert dict(session.state({"seen": torch.zeros(())}).tensors)["seen"].item() == 1


def test_kernels_are_built_by_the_judge() -> None:
    kernel = """
kernel void twice(float* out, const float* x, int64 n) { for (int64 i = 0; i < n; ++i) out[i] = 2 * x[i]; }
"""
    what = candidate(
        """
def __init__(self, width):
    super().__init__(width)
    self.lib = kernelwright.compile(TEXT, language="cpp")
def forward(self, x):
    out = torch.empty_like(x)
    self.lib.twice(out, x, x.numel())
    return out
""",
        top=f"import kernelwright\nTEXT = {kernel!r}",
    )
    x = torch.randn(8, 16)
    with open_session(what) as session:
        started = session.start()
        assert started.failure is None, (started, session.log)
        run = session.run([x], Expected.of(x))
        assert run.outputs[0] is not None and torch.equal(run.outputs[0], 2 * x)


def test_a_kernel_that_does_not_compile() -> None:
    what = candidate(
        "def __init__(self, width):\n    super().__init__(width)\n    kernelwright.compile('nonsense', language='cpp')",
        top="import kernelwright",
    )
    with open_session(what) as session:
        failure = session.start().failure
        assert failure is not None and failure.status is Status.COMPILE_ERROR


class Recording:
    """A broker that remembers what reached it."""

    def __init__(self) -> None:
        self.asked: list[BuildRequest] = []

    def build(self, request: BuildRequest) -> Build:
        self.asked.append(request)
        return Build("/nowhere", cached=True, seconds=0.0)


@pytest.mark.parametrize("language", ["inductor", "onnx"])
def test_what_runs_the_text_outside_is_given_the_problems_only(language: str) -> None:
    broker = Recording()
    top = "from kernelwright.targets.broker import broker\nfrom kernelwright.records import BuildRequest"
    body = """
def __init__(self, width):
    super().__init__(width)
    broker().build(BuildRequest("{language}", {text}))
"""
    with open_session(candidate(body.format(language=language, text=repr(SOURCE)), top=top), broker=broker) as session:
        assert session.start().failure is None
    with open_session(
        candidate(body.format(language=language, text=repr("import os")), top=top), broker=broker
    ) as session:
        failure = session.start().failure
        assert failure is not None and failure.status is Status.COMPILE_ERROR
    assert [request.source for request in broker.asked] == [SOURCE]


# (methods of the candidate, status, what the message must say). All strike in forward, within the limits above.
HOSTILE = {
    "raises": ("raise ValueError('on purpose')", Status.RUNTIME_ERROR, "on purpose"),
    "exits": ("sys.exit(0)", Status.RUNTIME_ERROR, "SystemExit"),
    "exits at once": ("os._exit(0)", Status.RUNTIME_ERROR, "exit code 0"),
    "interrupts": ("raise KeyboardInterrupt", Status.RUNTIME_ERROR, "KeyboardInterrupt"),
    "segfaults": ("import ctypes; ctypes.string_at(0)", Status.RUNTIME_ERROR, "segmentation fault"),
    "aborts": ("os.abort()", Status.RUNTIME_ERROR, "abort()"),
    "kills itself": ("os.kill(os.getpid(), 9)", Status.RUNTIME_ERROR, "SIGKILL"),
    "loops": ("while True: pass", Status.TIMEOUT, "more than 2 s"),
    "sleeps": ("time.sleep(100)", Status.TIMEOUT, "more than 2 s"),
    "stops itself": ("os.kill(os.getpid(), 19)", Status.TIMEOUT, "more than 2 s"),
    "stops the parent": ("os.kill(os.getppid(), 19)", Status.RUNTIME_ERROR, "PermissionError"),
    "forks": ("os.fork()", Status.RUNTIME_ERROR, "PermissionError"),
    "bombs": ("while True: os.fork()", Status.RUNTIME_ERROR, "PermissionError"),
    "starts threads": (
        "threading.stack_size(64 << 20)\n"
        "ts = [threading.Thread(target=time.sleep, args=(99,)) for _ in range(1000)]\n"
        "for t in ts: t.start()",
        Status.RUNTIME_ERROR,
        "",
    ),
    "closes descriptors": ("os.closerange(0, 1000); return x", Status.RUNTIME_ERROR, "e"),
    "closes and hangs": ("os.closerange(0, 1000); time.sleep(100)", Status.RUNTIME_ERROR, "closed its channel"),
    "writes garbage": (
        "for f in range(3, 100):\n    try: os.write(f, b'garbage ' * 100)\n    except OSError: pass\nreturn x",
        Status.RUNTIME_ERROR,
        "garbage",
    ),
    "writes deep JSON": (
        "for f in range(3, 100):\n"
        "    try: os.write(f, (200001).to_bytes(4, 'little') + b'J' + b'[' * 200000)\n"
        "    except OSError: pass\n"
        "return x",
        Status.RUNTIME_ERROR,
        "garbage",
    ),
    "claims to be done": (
        "for f in range(3, 100):\n"
        "    try: os.write(f, (9).to_bytes(4, 'little') + b'D12345678')\n"
        "    except OSError: pass\n"
        "return x",
        Status.RUNTIME_ERROR,
        "claimed to be done",
    ),
    "pickles": (
        "for f in range(3, 100):\n"
        "    try: os.write(f, (30).to_bytes(4, 'little') + b'cos\\nsystem\\n(S\\'touch /tmp/x\\'\\ntR.')\n"
        "    except OSError: pass\n"
        "return x",
        Status.RUNTIME_ERROR,
        "",
    ),
    "takes memory": ("a = [bytearray(1 << 26) for _ in range(100)]; return x", Status.RUNTIME_ERROR, "emory"),
    "takes memory of torch": ("return torch.ones(1 << 40)", Status.RUNTIME_ERROR, "memory"),
    "maps memory": (
        "import mmap; m = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1\nreturn x",
        Status.RUNTIME_ERROR,
        "more memory than allowed",
    ),
    "prints": ("while True: print('x' * 10000)", Status.RUNTIME_ERROR, "printed more"),
    "network": ("import socket; socket.create_connection(('127.0.0.1', 1))", Status.RUNTIME_ERROR, "PermissionError"),
    "reads keys": ("open('/proc/%d/environ' % os.getppid()).read()", Status.RUNTIME_ERROR, "PermissionError"),
    "reads home": (f"os.listdir({str(home())!r})", Status.RUNTIME_ERROR, "PermissionError"),
    "writes": ("open('/tmp/kernelwright-was-here', 'w')", Status.RUNTIME_ERROR, "PermissionError"),
    "ptrace": (
        "import ctypes\nl = ctypes.CDLL(None, use_errno=True)\n"
        "raise OSError(ctypes.get_errno()) if l.ptrace(16, os.getppid(), 0, 0) < 0 else ValueError",
        Status.RUNTIME_ERROR,
        "Error",
    ),
    "breaks print": ("sys.stdout = None; return x", Status.RUNTIME_ERROR, ""),
    "recursion": ("return self.forward(x)", Status.RUNTIME_ERROR, "RecursionError"),
    "returns nonsense": ("return object()", Status.RUNTIME_ERROR, "object"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_forward(name: str) -> None:
    body, status, words = HOSTILE[name]
    x = torch.randn(8, 16)
    began = time.monotonic()
    with open_session(forward(body)) as session:
        assert session.start().failure is None
        run = session.run([x], Expected.of(x))
        assert run.failure is not None, run
        assert run.failure.status is status and words in run.failure.message, run.failure
        assert not any(run.outputs)
        again = session.run([x], Expected.of(x))  # lost or not, it answers
        assert again.failure is not None
    assert time.monotonic() - began < 12
    assert not os.path.exists("/tmp/kernelwright-was-here")


@pytest.mark.parametrize("name", ["raises", "exits at once", "segfaults", "loops", "closes and hangs", "prints"])
@pytest.mark.parametrize("where", ["module", "constructor", "prepare"])
def test_hostile_start(name: str, where: str) -> None:
    body, status, _ = HOSTILE[name]
    lines = "".join(f"    {line}\n" for line in body.splitlines() if line != "return x")
    slow = 8 if name == "prints" else 1
    settings = SessionSettings(start_s=slow, weights_s=slow, call_s=slow)
    if where == "module":
        what = candidate("pass", top="if True:\n" + lines)
    elif where == "constructor":
        what = candidate(f"def __init__(self, width):\n    super().__init__(width)\n{lines}")
    else:
        what = candidate(f"def prepare(self):\n{lines}")
    with open_session(what, settings=settings) as session:
        failure = session.start().failure
        assert failure is not None and failure.status is status, failure


def test_work_put_off_is_on_the_clock() -> None:
    """A candidate that answers at once and computes in a thread: the time shows up in the copy."""
    what = candidate(
        """
def forward(self, x):
    out = torch.empty_like(x)
    def work():
        end = time.perf_counter() + 0.05
        while time.perf_counter() < end: pass
        out.copy_(torch.relu(self.linear(x)))
    self.worker = threading.Thread(target=work)
    self.worker.start()
    worker = self.worker
    class Late(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            worker.join()
            return super().__torch_function__(func, types, args, kwargs)
    return out.as_subclass(Late)
"""
    )
    x = torch.randn(8, 16)
    with open_session(what) as session:
        assert session.start().failure is None
        run = session.run([x], Expected.of(x))
        assert run.failure is None, run
        assert run.forward_us + run.copy_us > 50_000
        assert run.declared[0].kind == "Late"


def test_nothing_is_left_unwritten_unseen() -> None:
    what = forward("torch.Tensor.copy_ = lambda self, *_: self; return torch.zeros(8, 16)")
    x = torch.randn(8, 16)
    with open_session(what) as session:
        assert session.start().failure is None
        assert session.run([x], Expected.of(x)).unwritten == (0,)
        assert session.window(Given([[x], [x]]), Expected.of(x), reveal=(1, 0)).unwritten == (0, 1)


def test_several_results_come_back_whole() -> None:
    source = SOURCE.replace("return torch.relu(self.linear(x))", "return x * 2, x.sum()")
    what = candidate("pass", source=source)
    spec = TensorSpec("x", "float32", (700, 300))
    calls = Given([[torch.randn(700, 300)] for _ in range(12)])
    expected = Expected.of((torch.zeros(700, 300), torch.zeros(())))
    with open_session(what, of=problem(spec, source=source)) as session:
        assert session.start().failure is None
        for revealed in (2, 9):
            window = session.window(calls, expected, reveal=(revealed, 5), keep=2)
            assert window.failure is None and not window.unwritten and not window.changed and window.guards
            for call, (value, total) in zip((revealed, 5), window.results, strict=True):
                (given,) = calls.leaves(call)
                assert value is not None and torch.equal(value, given * 2)
                assert total is not None and total == given.sum()
        assert session.run(calls.leaves(0), expected).fits


def test_a_call_leaves_nothing_at_its_inputs_for_the_next() -> None:
    """Their memory is the same in each window, but the tensors are not."""
    what = forward("seen = hasattr(x, 'mark') or x.dim() != 2; x.mark = 1; x.unsqueeze_(0); return torch.tensor(seen)")
    x = torch.randn(8, 16)
    with open_session(what) as session:
        assert session.start().failure is None
        for _ in range(3):
            window = session.window(Given([[x], [x]]), Expected.of(torch.tensor(True)), reveal=(1,), keep=1)
            ((seen,),) = window.results
            assert seen is not None and not seen


def test_an_idle_child_does_not_run() -> None:
    what = candidate(
        """
def __init__(self, width):
    super().__init__(width)
    self.count = 0
    threading.Thread(target=self.spin, daemon=True).start()
def spin(self):
    while True: self.count += 1
def forward(self, x):
    return torch.tensor(self.count)
"""
    )
    x = torch.randn(8, 16)
    expected = Expected.of(torch.tensor(0))
    with open_session(what) as session:
        assert session.start().failure is None
        wire = session._wire
        assert wire is not None
        used = cpu_ticks(wire.pid)
        time.sleep(0.3)
        assert cpu_ticks(wire.pid) - used <= 1
        assert session.run([x], expected).failure is None


def cpu_ticks(pid: int) -> int:
    if sys.platform != "linux":
        return 0
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_keys_do_not_reach_children(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AWS_PROFILE", "GITHUB_TOKEN", "MY_SECRET", "OMP_TOKEN", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "hush")
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    assert "hush" not in environment().values()
    assert environment()["OMP_WAIT_POLICY"] == "passive"


def test_sessions_side_by_side_in_threads() -> None:
    x = torch.randn(8, 16)
    found: list[bool] = []

    def judge() -> None:
        with open_session(HONEST) as session:
            if session.start().failure is None:
                found.append(session.run([x], Expected.of(x)).fits)

    threads = [threading.Thread(target=judge) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_a_killed_forkserver_is_replaced() -> None:
    x = torch.randn(8, 16)
    process = forkserver()._process
    assert process is not None
    with open_session(HONEST) as session:
        assert session.start().failure is None
        assert session._wire is not None
        pid = session._wire.pid
        process.kill()
        process.wait()
        deadline = time.monotonic() + 5
        while alive(str(pid)) and sys.platform == "linux":
            assert time.monotonic() < deadline, "the child has outlived the forkserver"
            time.sleep(0.01)
        failure = session.run([x], Expected.of(x)).failure
        assert failure is not None and failure.status is Status.RUNTIME_ERROR
    with open_session(HONEST) as session:
        assert session.start().failure is None


JUDGE = """
import os, sys, torch
sys.path.insert(0, sys.argv[1])
import test_session as t
session = t.open_session(t.HONEST)
started = session.start()
assert started.failure is None, started
x = torch.randn(8, 16)
assert session.run([x], t.Expected.of(x)).fits
from kernelwright.judge.spawn import forkserver
print(started.confinement, "|", session._wire.pid, forkserver()._process.pid, flush=True)
if sys.argv[2] == "die":
    os.kill(os.getpid(), 9)
session.close()
"""


@pytest.mark.parametrize(("end", "user"), [("die", "ordinary"), ("close", "root" if os.geteuid() == 0 else "ordinary")])
def test_no_process_outlives_the_judge(end: str, user: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", JUDGE, str(Path(__file__).parent), end]
    if user == "ordinary" and os.geteuid() == 0:
        words = [sys.executable, str(Path(__file__).parents[1] / "sandbox" / "ordinary.py"), *words]
    os.chmod(tmp_path, 0o777)
    for folder in tmp_path.parents[:2]:
        os.chmod(folder, 0o755)
    places = {"KERNELWRIGHT_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env={**os.environ, **places}, check=False)
    assert done.returncode == (-9 if end == "die" else 0), done.stderr
    confinement, pids = done.stdout.split("|")
    assert sys.platform != "linux" or "Landlock" in confinement
    deadline = time.monotonic() + 10
    while any(map(alive, pids.split())):
        assert time.monotonic() < deadline, "a process has outlived the judge"
        time.sleep(0.05)


def alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z")


def test_null_session_has_the_same_face() -> None:
    model, x = reference(), torch.randn(8, 16)
    expected = Expected.of(model(x))
    with NullSession(problem(), HONEST, weights=weights_of(model)) as session:
        assert session.start().failure is None
        run = session.run([x], expected)
        assert run.fits and run.outputs[0] is not None
        torch.testing.assert_close(run.outputs[0], model(x).detach())
        assert session.load_weights(weights_of(model)).failure is None
        assert len(session.window(Given([[x], [x]]), expected, reveal=(1,), keep=1).results) == 1
    with NullSession(problem(), forward("raise ValueError"), weights=weights_of(model)) as session:
        assert session.start().failure is None
        failure = session.run([x], expected).failure
        assert failure is not None and failure.status is Status.RUNTIME_ERROR


@pytest.mark.timing
def test_a_warm_child_is_ready_soon() -> None:
    with open_session(HONEST) as session:
        session.start()
    times = []
    for _ in range(5):
        began = time.perf_counter()
        with open_session(HONEST) as session:
            assert session.start().failure is None
            times.append(time.perf_counter() - began)
    assert min(times) < 0.1


def test_the_user_alone_allows_a_weaker_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelwright.judge.steps import ALLOW_WEAKER, SessionSettings

    monkeypatch.delenv(ALLOW_WEAKER, raising=False)
    assert not SessionSettings().allow_weaker
    monkeypatch.setenv(ALLOW_WEAKER, "1")
    assert SessionSettings().allow_weaker


def test_collecting_garbage_is_not_timed() -> None:
    crowded = candidate(
        """
def __init__(self, *args):
    super().__init__(*args)
    self.crowd = [[number] for number in range(1_000_000)]
def forward(self, x):
    self.more = [[number] for number in range(20_000)]
    return torch.relu(self.linear(x))
"""
    )
    x = torch.randn(8, 16)
    expected = Expected.of(reference()(x).detach())
    with open_session(crowded) as session:
        assert session.start().failure is None
        # A collection over a million lists takes some 50 ms; making twenty thousand of them takes 1.
        assert min(session.window(Given([[x]]), expected).forward_us for _ in range(5)) < 20_000
