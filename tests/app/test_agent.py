"""The agent's verbs as an agent with nothing but a shell meets them. The server of a task is a process of its own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.app import desk
from kernelwright.errors import UsageError
from kernelwright.records import (
    Candidate,
    Comparison,
    Entry,
    Environment,
    Facts,
    SourceFile,
    Stage,
    Status,
    Timing,
    Verdict,
)
from kernelwright.writers.agent import AgentWriter
from kernelwright.writers.tasks import TaskStore

MODEL = "from reference import Model\n\n\nclass ModelNew(Model):\n    def forward(self, x):\n        return {}\n"
RIGHT, WRONG = MODEL.format("super().forward(x).clone()"), MODEL.format("super().forward(x) + 1")
PATIENCE_S = 120


@pytest.fixture
def place(tmp_path: Path, net: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own, and no server left behind."""
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(desk, "IDLE_S", 1.0)
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    yield tmp_path
    for server in servers(tmp_path / "home"):
        os.kill(server, signal.SIGKILL)


def servers(home: Path) -> list[int]:
    """Processes that serve a task of that home; nothing where there is no /proc."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            command = file.with_name("cmdline").read_bytes()
            if b"serve" in command and f"KERNELWRIGHT_HOME={home}\0".encode() in file.read_bytes():
                found.append(int(file.parent.name))
        except OSError:
            continue
    return found


def agent(*argv: str) -> dict:
    """What `kernelwright agent ARGV --json -` prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "kernelwright.app.cli", "agent", *argv, "--json", "-"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def answered(told: dict) -> dict:
    until = time.monotonic() + PATIENCE_S
    while told["status"] == "running":
        assert time.monotonic() < until
        told = agent("result", told["job"])
    return told


def test_two_agents_at_once_from_a_task_to_a_best(call, place: Path, net: Path) -> None:
    told = agent("task", f"{net}:Net", "--target", "null", "--baselines", "eager")
    task = told["task"]
    assert told["best"] is None and "class Net" in told["brief"] and "class ModelNew" in told["brief"]
    assert agent("task")["tasks"] == [
        {"task": task, "problem": "Net", "origin": f"{net}:Net", "target": "null"},
    ]
    # The first is killed as soon as it has handed in; its job goes on.
    killed = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "kernelwright.app.cli",
            "agent",
            "submit",
            task,
            str(place / "wrong.py"),
            "--as",
            "first",
        ],
        stdout=subprocess.DEVNULL,
    )
    with TaskStore() as store:
        until = time.monotonic() + PATIENCE_S
        while not (jobs := store.jobs(store.task(task))):
            assert time.monotonic() < until
            time.sleep(0.05)
    killed.kill()
    killed.wait()
    second = answered(agent("submit", task, str(place / "right.py"), "--as", "second", "--note", "a clone"))
    assert second["status"] == "done" and second["verdict"]["status"] == "PASSED", second
    assert second["verdict"]["writer"] == "second" and second["verdict"]["timing"] is None
    first = answered(agent("result", jobs[0].id))
    assert first["verdict"]["status"] == "WRONG_VALUES" and first["verdict"]["writer"] == "first"
    assert any(finding["check"] == "values" for finding in first["verdict"]["findings"])

    # What follows needs no process of its own.
    best = call_json(call, "best", task)
    assert best["best"]["writer"] == "second" and best["rejected"] == 1
    assert best["best"]["sources"] == {"model.py": RIGHT}
    assert [row["title"] for row in call_json(call, "search", task, "clone")["candidates"]] == ["second right"]
    assert call_json(call, "search", task, "--status", "wrong_values")["found"] == 1
    profile = call_json(call, "profile", best["best"]["candidate"][:10])
    assert profile["status"] == "PASSED" and "stands in for null" in profile["text"]
    trial = answered(call_json(call, "trial", task, str(place / "right.py"), str(place / "wrong.py")))
    assert [row["status"] for row in trial["trials"]] == ["PASSED", "WRONG_VALUES"]
    confirmed = answered(call_json(call, "best", task, "--confirm"))
    assert confirmed["status"] == "failed" and "carry no time" in confirmed["message"]
    assert "second right" in call_json(call, "task", task)["brief"], "what was tried is told to the next"
    until = time.monotonic() + PATIENCE_S
    while servers(place / "home"):
        assert time.monotonic() < until, "a server ends once nobody asks"
        time.sleep(0.2)
    again = agent("submit", task, str(place / "right.py"), "--as", "second", "--note", "a clone", "--wait", "0")
    assert again["verdict"]["status"] == "PASSED" and not servers(place / "home"), "what is known needs no server"


def call_json(call, *argv: str) -> dict:
    code, out, err = call("agent", *argv, "--json", "-")
    assert code == 0, err
    return json.loads(out)


def test_a_server_that_dies_is_followed_by_another(place: Path, net: Path) -> None:
    task = agent("task", f"{net}:Net", "--target", "null", "--baselines", "eager")["task"]
    (place / "slow.py").write_text("import time\n\n\ntime.sleep(20)\n" + RIGHT)
    told = agent("submit", task, str(place / "right.py"), "--wait", "0")
    assert told["status"] == "running" and told["asked_s"] >= 0 and told["ahead"] == 0
    assert agent("submit", task, str(place / "wrong.py"), "--wait", "0")["ahead"] == 1
    if not Path("/proc").is_dir():
        pytest.skip("servers are found through /proc")
    until = time.monotonic() + PATIENCE_S
    while not (found := servers(place / "home")):
        assert time.monotonic() < until
        time.sleep(0.05)
    os.kill(found[0], signal.SIGKILL)
    assert answered(told)["verdict"]["status"] == "PASSED"


def test_a_problem_that_cannot_be_judged_fails_its_jobs(place: Path, net: Path) -> None:
    with desk.Desk() as mine:
        from kernelwright.problems import load

        problem = load(f"{net}:Net")
        task = mine.open_task(problem, "nowhere", [])["task"]
        job = mine.store.ask(mine.store.task(task), "submit", "me", [mine.read(task, place / "right.py", "me")])
    desk.serve(task, idle_s=1.0)
    with desk.Desk() as mine:
        told = mine.result(job.id, 0)
    assert told["status"] == "failed" and told["message"]


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["task", "nowhere.py:Net", "--target", "null"], "there is no file nowhere.py"),
        (["submit", "none", "{right}"], "no task is called 'none'"),
        (["submit", "", "{right}"], "no task is called ''"),
        (["search", "none", "--status", "nonsense"], "no status is called 'nonsense'"),
        (["result", "j0"], "no job is called 'j0'"),
        (["profile", "abc"], "no candidate is called 'abc'"),
    ],
)
def test_bad_usage_is_one_sentence(call, place: Path, argv: list[str], sentence: str) -> None:
    code, out, err = call("agent", *[item.format(right=place / "right.py") for item in argv])
    assert code == 2 and sentence in err and out == "" and "Traceback" not in err
    code, out, _ = call("agent", *[item.format(right=place / "right.py") for item in argv], "--json", "-")
    told = json.loads(out)
    assert code == 2 and told["status"] == "refused" and sentence in told["message"]


def test_texts_become_a_candidate(place: Path, net: Path) -> None:
    from kernelwright.problems import load

    with desk.Desk() as mine:
        task = mine.open_task(load(f"{net}:Net"), "null", [])["task"]
        texts = {"model.py": RIGHT + 'K = source("k.cpp")\n', "k.cpp": "kernel void k() {}\n", "unused.cpp": ""}
        candidate = mine.of_texts(task, texts, "me", "a label")
        assert [file.path for file in candidate.sources] == ["model.py", "k.cpp", "reference.py"] or [
            file.path for file in candidate.sources
        ] == ["model.py", "reference.py", "k.cpp"]
        assert candidate.title == "me a label"
        with pytest.raises(UsageError, match="plain names"):
            mine.of_texts(task, {"model.py": RIGHT, "../k.cpp": ""}, "me")
        with pytest.raises(UsageError, match=r"needs a file model\.py"):
            mine.of_texts(task, {"other.py": RIGHT}, "me")


def test_a_folder_is_a_candidate_with_the_files_it_names_and_the_reference(place: Path, net: Path) -> None:
    from kernelwright.problems import load

    folder = place / "mine"
    folder.mkdir()
    (folder / "model.py").write_text(RIGHT + 'K = source("k.cpp")\n')
    (folder / "k.cpp").write_text("kernel void k() {}\n")
    (folder / "notes.txt").write_text("nothing")
    problem = load(f"{net}:Net")
    with desk.Desk() as mine:
        task = mine.open_task(problem, "null", [])["task"]
        candidate = mine.read(task, folder, "me", "a note")
    told = {file.path: file.text for file in candidate.sources}
    assert set(told) == {"model.py", "k.cpp", "reference.py"} and told["reference.py"] == problem.source
    assert (candidate.title, candidate.note) == ("me mine", "a note")


def test_what_was_judged_elsewhere_can_be_confirmed(place: Path, net: Path, monkeypatch) -> None:
    """By a server that never saw it: it judges the candidate first."""
    from kernelwright.problems import load

    class Quick:
        async def submit(self, candidate: Candidate) -> Verdict:
            brought.append(candidate.title)
            raise UsageError("it cannot be judged")

    brought: list[str] = []
    with desk.Desk() as mine:
        task = mine.store.task(mine.open_task(load(f"{net}:Net"), "null", [])["task"])
        candidate = mine.read(task.id, place / "right.py", "me")
        job = mine.store.ask(task, "confirm", "me", [candidate])
        writer = AgentWriter(0.5, task=task)
        asyncio.run(writer._serve(mine.store, task, Quick()))  # type: ignore[arg-type]
        assert brought == [candidate.title] and [item.id for item in writer.confirming] == [job.id]


def _timed(name: str, median_us: float, *beside: Comparison) -> Entry:
    here = Environment(Facts("cpu", "cpu", "cpu"), system="", python="", torch="", threads=1)
    candidate = Candidate(name, "torch@cpu", (SourceFile("model.py", name),), baseline=name != "me")
    timing = Timing((median_us,) * 5, "slope")
    verdict = Verdict(candidate.digest, "p", "torch@cpu", Status.PASSED, Stage.TIME, here, (), timing)
    return Entry(candidate, replace(verdict, comparisons=beside))


def test_a_speedup_is_over_the_fastest_baseline_also_one_that_was_timed_later() -> None:
    eager, inductor = _timed("eager", 40.0), _timed("inductor", 8.0)
    assert eager.verdict.timing is not None
    mine = _timed("me", 10.0, Comparison("eager", eager.candidate.digest, eager.verdict.timing, 4.0, 3.9, 4.1))
    told = desk.entry_json(mine, [inductor, eager])
    assert told["speedup"] == pytest.approx(0.8) and told["speedup_over"] == "inductor"
    assert not told["timed_by_turns"] and not told["decided"]
    told = desk.entry_json(mine, [eager])
    assert told["speedup"] == 4.0 and told["timed_by_turns"] and told["decided"]
    assert desk.entry_json(mine, [])["speedup"] is None


def test_a_speedup_whose_interval_holds_one_is_not_decided() -> None:
    eager = _timed("eager", 40.0)
    assert eager.verdict.timing is not None
    mine = _timed("me", 10.0, Comparison("eager", eager.candidate.digest, eager.verdict.timing, 2.7, 0.6, 10.0))
    assert not desk.entry_json(mine, [eager])["decided"]
    slower = _timed("me", 50.0, Comparison("eager", eager.candidate.digest, eager.verdict.timing, 0.8, 0.7, 0.9))
    assert desk.entry_json(slower, [eager])["decided"]


def test_the_task_is_served_until_the_confirmation_is_over(place: Path, net: Path, monkeypatch) -> None:
    """Another server would take the confirmation for a job whose server has died."""
    from kernelwright.problems import load
    from kernelwright.search.conduct import conduct

    with desk.Desk() as mine:
        task = mine.store.task(mine.open_task(load(f"{net}:Net"), "null", [])["task"])
        job = mine.store.ask(task, "confirm", "me", [])
        locks: list[int | None] = []

        def after(*arguments: object) -> object:
            outcome = conduct(*arguments)  # type: ignore[arg-type]
            locks.append(mine.store.lock(task))
            return outcome

        monkeypatch.setattr("kernelwright.search.conduct.conduct", after)
        desk.serve(task.id, idle_s=1.0)
        assert locks == [None] and mine.store.job(job.id).state.value == "failed"
        assert "carry no time" in mine.store.job(job.id).answer or "no baseline" in mine.store.job(job.id).answer
