"""The house rule: a room imports only rooms of a lower floor; rooms of one floor do not know each other."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import kernelwright

ROOT = Path(kernelwright.__file__).parent

FLOORS = {
    "errors": 0,
    "home": 1,
    "records": 1,
    "plugins": 1,
    "sandbox": 1,
    "toolchain": 2,
    "loops": 2,
    "simt": 3,
    "graph": 3,
    "metal": 4,
    "targets": 5,
    "problems": 5,
    "context": 5,
    "writers": 5,
    "archive": 5,
    "judge": 6,
    "deploy": 6,
    "functions": 6,
    "report": 6,
    "search": 7,
    "app": 8,
}
ROOMS = [name for name in FLOORS if (ROOT / name).is_dir()]


def imported_rooms(path: Path) -> set[str]:
    """The rooms a file imports anywhere, lazily or not."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("kernelwright.")}
    return rooms & set(FLOORS)


def files() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert room in FLOORS, f"{room} has no floor: add it to DESIGN's list and to FLOORS"
    wrong = {other for other in imported_rooms(path) if other != room and FLOORS[other] >= FLOORS[room]}
    assert not wrong, f"{room} (floor {FLOORS[room]}) imports {sorted(wrong)}"


def test_writers_reach_neither_judge_nor_archive() -> None:
    for path in (ROOT / "writers").rglob("*.py"):
        assert not imported_rooms(path) & {"judge", "archive"}, path


@pytest.mark.parametrize("room", ROOMS)
def test_face_is_sorted_and_true(room: str) -> None:
    face = importlib.import_module(f"kernelwright.{room}")
    assert list(face.__all__) == sorted(face.__all__)
    for name in face.__all__:
        assert hasattr(face, name), f"kernelwright.{room} offers {name!r} and does not have it"


@pytest.mark.parametrize(
    "command",
    [
        ["-c", "import kernelwright, sys; sys.exit('torch' in sys.modules)"],
        [
            "-c",
            f"import sys; [__import__('kernelwright.' + room) for room in {ROOMS}]; sys.exit('torch' in sys.modules)",
        ],
        [
            "-c",
            "import sys\nfrom kernelwright.app.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
            "sys.exit('torch' in sys.modules)",
        ],
    ],
    ids=["package", "rooms", "help"],
)
def test_torch_stays_out(command: list[str]) -> None:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
