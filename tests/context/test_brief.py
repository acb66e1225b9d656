"""What a writer is told, and how much of it."""

from dataclasses import replace

import pytest

from kernelwright.context import brief, languages_of, profile_text, rewritten
from kernelwright.context.section import cut, fenced
from kernelwright.errors import UnknownNameError
from kernelwright.plugins import members
from kernelwright.records import (
    Beside,
    Brief,
    Candidate,
    Comparison,
    Constant,
    Environment,
    Facts,
    Finding,
    Numerics,
    Parent,
    Problem,
    Range,
    Reference,
    Signature,
    SourceFile,
    Stage,
    Status,
    TensorSpec,
    Timing,
    Verdict,
)

FACTS = Facts(
    "cpu", "a chip", "x86_64", ("avx2",), 2, 16 << 30, (32768, 1 << 20), 20.0, (100.0,), (("float32", 120.0),)
)
PROBLEM = Problem(
    "Net",
    "class Model: ...\n",
    Signature(
        (
            TensorSpec("x", "float32", (Range(1, 8, 4), 512)),
            TensorSpec("n", "int64", (4,), low=0, high=9),
            TensorSpec("y", "float32", (4, 512), stride=(1, 4)),
            TensorSpec("z", "float32", (4, 512), alias_of=2),
        ),
        '{"dict": {"args": [{"tensor": 0}, [{"tensor": 1}, 3]], '
        '"kwargs": {"dict": {"y": {"tensor": 2}, "z": {"tensor": 3}}}}}',
    ),
)


def parent(
    label: str, status: Status = Status.PASSED, log: str = "", baseline: bool = False, text: str = "pass"
) -> Parent:
    candidate = Candidate(
        "template", "cpp@cpu", (SourceFile("model.py", text),), label=label, note="tried", baseline=baseline
    )
    passed = status is Status.PASSED
    verdict = Verdict(
        candidate.digest,
        PROBLEM.digest,
        "cpp@cpu",
        status,
        Stage.TIME if passed else Stage.VERIFY,
        Environment(FACTS, "Linux", "3.11", "2.13", 2),
        () if passed else (Finding("values", False, "row 3 is off by 0.2"),),
        Timing((10.0,), "slope") if passed else None,
        comparisons=(Comparison("eager", "d", Timing((20.0,), "slope"), 2.0, 1.9, 2.1),) if passed else (),
        log=log,
    )
    return Parent(candidate, verdict)


def section(told: Brief, name: str) -> str:
    return next(item.text for item in told.sections if item.name == name)


def test_sections_in_order() -> None:
    told = brief(PROBLEM, "cpu", FACTS, [parent("a")], 30.0, 3)
    assert [section.name for section in told.sections] == ["form", "problem", "language", "facts", "history", "profile"]
    assert (told.target, told.budget_s, told.attempts) == ("cpu", 30.0, 3)
    assert list(members("context", "Section")) == [
        "facts",
        "form",
        "history",
        "language",
        "lessons",
        "own",
        "problem",
        "profile",
        "reference",
    ]


def test_no_history_no_section() -> None:
    assert [section.name for section in brief(PROBLEM, "null", FACTS).sections] == ["form", "problem", "facts"]


def test_the_problem_is_told() -> None:
    scaled = replace(
        PROBLEM,
        constants=(Constant("batch", 128, 4),),
        numerics=Numerics(True, autocast="bfloat16"),
        opaque="it branches",
    )
    text = section(brief(scaled, "cpu", FACTS), "problem")
    for words in (
        "class Model: ...",
        "forward(x, [n, 3], y=y, z=z)",
        "`x`: float32 (1..8 (timed at 4), 512)",
        "`n`: int64 (4), values from 0 to 9",
        "strides (1, 4)",
        "the very tensor `y`",
        "batch 128 -> 4",
        "train mode, inside an autocast region of bfloat16",
        "no graph: it branches",
    ):
        assert words in text


def test_the_users_own_text_comes_first() -> None:
    text = section(brief(replace(PROBLEM, readable="class Mine: ..."), "cpu", FACTS), "problem")
    assert text.index("class Mine") < text.index("class Model")


def test_facts_of_a_busy_machine_bound_nothing() -> None:
    text = section(brief(PROBLEM, "cpu", replace(FACTS, disturbed=True)), "facts")
    assert "speeds are left out" in text and "GB/s" not in text and "GFLOP" not in text


def test_facts() -> None:
    text = section(brief(PROBLEM, "cpu", FACTS), "facts")
    for words in (
        "a chip",
        "2 threads",
        "avx2",
        "16 GB, 20 GB/s",
        "L1 data cache: 32 kB, 100 GB/s",
        "L2 data cache: 1 MB\n",
    ):
        assert words in text


def test_history() -> None:
    parents = [parent("best", text="the best text"), parent("bad", Status.WRONG_VALUES, log="it said no")]
    text = section(brief(PROBLEM, "cpu", FACTS, parents), "history")
    for words in ("2.00x over eager (1.90 to 2.10)", "row 3 is off by 0.2", "it said no", "the best text", "10.0 us"):
        assert words in text


@pytest.mark.parametrize("size", [100, 50_000])
def test_every_section_keeps_its_limit(size: int) -> None:
    long = "x = 1\n" * size
    parents = [parent(str(index), text=long, log=long) for index in range(40)]
    told = brief(replace(PROBLEM, source=long, readable=long), "cpu", FACTS, parents)
    limits = {kind.name: kind.limit for kind in members("context", "Section").values()}  # type: ignore[attr-defined]
    assert all(len(section.text) <= limits[section.name] for section in told.sections)


def test_cut_keeps_whole_lines_and_says_so() -> None:
    text = cut("abc\n" * 100, 120)
    assert len(text) <= 120 and text.startswith("abc\nabc") and text.endswith("more characters)")
    assert cut("abc", 3) == "abc"


def test_a_fence_is_longer_than_what_it_holds() -> None:
    assert fenced("a\n```\nb").startswith("````python\n")


@pytest.mark.parametrize("language", ["cpp", "metal", "cuda", "triton", "hip", "sycl"])
def test_every_language_has_notes(language: str) -> None:
    device, languages = languages_of(language)
    told = brief(PROBLEM, device, FACTS, languages=languages, beside=Beside(without=("facts", "problem")))
    assert [item.name for item in told.sections] == ["form", "language"]
    assert f'language="{language}"' in section(told, "form") and len(section(told, "language")) > 500
    assert section(told, "language").isascii()


def test_a_profile_holds_what_the_verdict_knows() -> None:
    best = parent("best")
    known = replace(
        best.verdict,
        prepare_us=7.0,
        ledger=(("softmax", 0.75), ("aten::mm", 0.25)),
        findings=(Finding("physics", True, "4x the floor"), Finding("values", True, "right")),
    )
    text = profile_text(Parent(best.candidate, known), FACTS)
    for words in (
        "one call takes 10.0 us",
        "prepare() takes 7.0 us",
        "75% of the time: softmax",
        "physics: 4x the floor",
    ):
        assert words in text
    assert "right" not in text
    hosted = replace(best.verdict, timing=None, native=False, comparisons=())
    assert "stands in for cpu" in profile_text(Parent(best.candidate, hosted), FACTS)


def test_a_section_that_there_is_not() -> None:
    with pytest.raises(UnknownNameError, match="did you mean history"):
        brief(PROBLEM, "cpu", FACTS, beside=Beside(without=("histry",)))


def test_references_and_exported_profiles() -> None:
    beside = Beside((Reference("cuda", "softmax.cu", "__global__ void f();"),), (("ncu.csv", "dram 98%"),))
    told = brief(PROBLEM, "metal", FACTS, beside=beside)
    assert [item.name for item in told.sections] == ["form", "problem", "language", "facts", "reference", "profile"]
    assert "```cuda\n__global__ void f();" in section(told, "reference") and "softmax.cu" in section(told, "reference")
    assert "dram 98%" in section(told, "profile")


def test_a_writers_own_last_candidate_with_all_that_was_said() -> None:
    failed = parent("mine", Status.WRONG_VALUES, log="it said no", text="my text")
    told = rewritten(replace(brief(PROBLEM, "null", FACTS), own=failed))
    text = section(told, "own")
    for words in ("WRONG_VALUES", "rejected by values: row 3 is off by 0.2", "it said no", "my text", "`model.py`"):
        assert words in text
    passed = section(rewritten(replace(brief(PROBLEM, "null", FACTS), own=parent("mine"))), "own")
    assert "one call takes 10.0 us" in passed and "2.00x over eager" in passed


def test_lessons_are_counted_from_verdicts() -> None:
    known = [parent("a"), parent("b", Status.WRONG_VALUES, text="b"), parent("c", Status.WRONG_VALUES, text="c")]
    text = section(brief(PROBLEM, "cpu", FACTS, known), "lessons")
    assert "2 of 3 were rejected by `values` (WRONG_VALUES)" in text and "2.00x over eager: tried" in text
    assert "lessons" not in [item.name for item in brief(PROBLEM, "cpu", FACTS, known[:1]).sections]
