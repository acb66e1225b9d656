"""The judge's own test: every exploit is rejected for its reason, no honest kernel is.

A file of `exploits` or `honest` is a candidate. Its first lines say for which file of `problems` it is, with which
further files, and (an exploit) by which statuses and checks it may be rejected:

    # problem: softmax
    # rejected: WRONG_VALUES by values, CHEATED by unwritten

With `# backward: yes` it is judged with its gradients.
An honest kernel may name several dtypes (`# dtypes: float32, bfloat16`): then it is tried with each, its problem too.
How many there are of each is told at the end of the run.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from kernelwright import problems
from kernelwright.judge import Gate, Judge, Settings, differentiated, differentiating
from kernelwright.judge.session import SessionSettings
from kernelwright.records import Candidate, Problem, SourceFile, Status, Verdict, Weight


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine make small tensors a hundred times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


HERE = Path(__file__).parent
RANGES = {"ranged": ["f32[1..64@48,96]"]}
# Exploits that only the clock's calls unmask, and honest kernels whose timed calls must stand too.
SETTINGS = Settings(rounds=2, window_us=500.0, session=SessionSettings(call_s=5.0, memory_bytes=1 << 30, threads=1))


def header(path: Path) -> dict[str, str]:
    lines = [line[2:] for line in path.read_text().splitlines() if line.startswith("# ")]
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def problem(name: str, dtype: str = "float32") -> Problem:
    path = HERE / "problems" / f"{name}.py"
    loaded = problems.load(f"{path}:Model", inputs=RANGES.get(name, ()))
    if dtype == "float32":
        return loaded
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / path.name
        other.write_text(retyped(path.read_text(), dtype))
        return problems.load(f"{other}:Model")


def retyped(text: str, dtype: str) -> str:
    return text.replace("DTYPE = torch.float32", f"DTYPE = torch.{dtype}")


def candidate(path: Path, dtype: str = "float32") -> Candidate:
    said = header(path)
    sources = [SourceFile("model.py", retyped(path.read_text(), dtype))]
    for name in filter(None, said.get("with", "").split(", ")):
        text = problem(said["problem"]).source if name == "reference.py" else (path.parent / name).read_text()
        sources.append(SourceFile(name, text))
    return Candidate("cheats", said.get("target", "torch@cpu"), tuple(sources), label=path.stem)


EXPLOITS = sorted((HERE / "exploits").glob("*.py"))
# Only a quiet clock can tell that work was put off.
TIMED = {path: pytest.mark.timing for path in EXPLOITS if "late_work" in header(path)["rejected"]}
HONEST = [
    (path, dtype)
    for path in sorted((HERE / "honest").glob("*.py"))
    for dtype in header(path).get("dtypes", "float32").split(", ")
]
Judged = Callable[[Path, str], Verdict]


@pytest.fixture(scope="module")
def judged() -> Iterator[Judged]:
    """Judges a file; one judge for each problem and dtype."""
    judges: dict[tuple[str, str, bool], Judge] = {}

    def judge(path: Path, dtype: str = "float32") -> Verdict:
        name, backward = header(path)["problem"], "backward" in header(path)
        key = name, dtype, backward
        if key not in judges:
            asked = problem(name, dtype)
            judges[key] = Judge(differentiated(asked) if backward else asked, "cpu", settings=SETTINGS, gate=Gate(None))
        mine = candidate(path, dtype)
        return judges[key].submit(differentiating(mine, judges[key].problem) if backward else mine)

    yield judge
    for item in judges.values():
        item.close()


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem, marks=TIMED.get(path, ())) for path in EXPLOITS])
def test_an_exploit_is_rejected_for_its_reason(path: Path, judged: Judged) -> None:
    verdict = judged(path, "float32")
    assert verdict.status is not Status.PASSED and verdict.timing is None
    reasons = [tuple(reason.split(" by ")) for reason in header(path)["rejected"].split(", ")]
    failed = verdict.failed(Weight.GATE)
    assert (verdict.status.value, failed[0].check) in reasons, failed[0]


@pytest.mark.parametrize("path, dtype", HONEST, ids=[f"{path.stem}-{dtype}" for path, dtype in HONEST])
def test_an_honest_kernel_is_not(path: Path, dtype: str, judged: Judged) -> None:
    verdict = judged(path, dtype)
    assert verdict.status is Status.PASSED, verdict.reason + verdict.log
    assert not verdict.failed(Weight.BAR), verdict.reason
    assert verdict.timing is not None


def test_there_are_enough_of_both() -> None:
    assert len(EXPLOITS) >= 50 and len(HONEST) >= 60


def test_a_degenerate_problem_is_called_one() -> None:
    """Zeros are the right answer here; the label says what that is worth."""
    text = (HERE / "exploits" / "zeros.py").read_text().replace("zeros_like(x)", "zeros_like(x) * x.sum()")
    text = text.replace(
        "class ModelNew(nn.Module):\n",
        "class ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.inner = nn.Linear(64, 64)\n\n",
    )
    with Judge(problem("zero"), "cpu", settings=SETTINGS, gate=Gate(None)) as judge:
        verdict = judge.submit(Candidate("cheats", "torch@cpu", (SourceFile("model.py", text),)))
    assert "degenerate problem" in verdict.labels
