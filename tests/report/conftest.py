"""Runs as a search leaves them, built from records."""

import random
from dataclasses import replace

import pytest

from kernelwright.records import (
    Candidate,
    Comparison,
    Constant,
    Entry,
    Environment,
    Facts,
    Finding,
    Numerics,
    Outcome,
    Problem,
    Signature,
    SourceFile,
    Stage,
    Status,
    TensorSpec,
    Timing,
    Verdict,
    Weight,
)
from kernelwright.report import BenchRow, Result
from kernelwright.report.bench import BenchBaseline

SOURCE = '''import torch
from torch import nn


class VisionAttention(nn.Module):
    """Multi-head self-attention over image patches, then a residual and a norm."""

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim, num_heads)
        self.norm = nn.LayerNorm(embed_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        x = x.view(batch, channels, height * width).permute(2, 0, 1)
        attn_output, _ = self.attn(x, x, x)
        x = self.norm(attn_output + x)
        return x.permute(1, 2, 0).view(batch, channels, height, width)


batch_size = 2
embed_dim = 128
num_heads = 4
image_height = image_width = 32


def get_inputs():
    return [torch.rand(batch_size, embed_dim, image_height, image_width)]


def get_init_inputs():
    return [embed_dim, num_heads]


Model = VisionAttention
'''

SDPA = '''import torch
import torch.nn.functional as F
from reference import Model


class ModelNew(Model):
    """The unused attention weights are never formed; softmax(q k^T) v becomes one call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        tokens = x.flatten(2).transpose(1, 2)
        heads, dim = self.attn.num_heads, self.attn.head_dim
        qkv = F.linear(tokens, self.attn.in_proj_weight, self.attn.in_proj_bias)
        q, k, v = qkv.view(batch, -1, 3, heads, dim).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(tokens.shape)
        out = self.attn.out_proj(out) + tokens
        out = self.norm(out)
        return out.transpose(1, 2).reshape(x.shape)
'''

FUSED = SDPA.replace("import torch\n", "import kernelwright\nimport torch\n", 1).replace(
    "        out = self.attn.out_proj(out) + tokens\n        out = self.norm(out)\n",
    "        out = self.attn.out_proj(out)\n"
    "        normed = torch.empty_like(out)\n"
    "        rows = out.shape[0] * out.shape[1]\n"
    "        weight, bias = self.norm.weight, self.norm.bias\n"
    "        self.lib.add_norm(normed, out, tokens.contiguous(), weight, bias, rows, channels, 1e-5)\n"
    "        out = normed\n",
)

KERNEL = """// out, x, y: (rows, cols); weight, bias: (cols). One pass over a row that stays in the first cache.
kernel void add_norm(float* out, const float* x, const float* y, const float* weight, const float* bias,
                     int64 rows, int64 cols, float eps) {
    parallel_for(rows, 4, [&](int64 begin, int64 end) {
        for (int64 row = begin; row < end; ++row) {
            const float* a = x + row * cols;
            const float* b = y + row * cols;
            float sum = 0.0f, square = 0.0f;
            for (int64 i = 0; i < cols; ++i) {
                float value = a[i] + b[i];
                sum += value;
                square += value * value;
            }
            float mean = sum / cols;
            float scale = 1.0f / sqrt(square / cols - mean * mean + eps);
            for (int64 i = 0; i < cols; ++i)
                out[row * cols + i] = (a[i] + b[i] - mean) * scale * weight[i] + bias[i];
        }
    });
}
"""

HOSTILE = (
    "</script><script>document.title='owned'</script>\n<!-- --><img src=x onerror=alert(1)>\n"
    "x = '\u202e)gnorw('  # \x00 \ud800 ünïcödé 数 {{ 7001*9 }} {% raw %}\n"
)

FACTS = Facts(
    "cpu",
    "AMD EPYC 9R14",
    "x86_64",
    ("avx2", "avx512f", "avx512_bf16", "fma"),
    2,
    16 << 30,
    (32 << 10, 1 << 20, 32 << 20),
    21.4,
    (410.0, 190.0, 62.0),
    (("float32", 210.0),),
)
ENVIRONMENT = Environment(
    FACTS,
    "Linux 6.18",
    "3.11.7",
    "2.13.0",
    2,
    (("clang", "20.1.2 (ziglang 0.15.1)"), ("g++", "12.2.0")),
    (("OMP_NUM_THREADS", "2"),),
)
PROBLEM = Problem(
    "VisionAttention",
    SOURCE,
    Signature(
        (TensorSpec("x", "float32", (2, 128, 32, 32), low=0.0, high=1.0),), '{"args": [{"tensor": 0}], "kwargs": {}}'
    ),
    Numerics(),
    constants=(Constant("image_height", 128, 32),),
    origin="examples/vision_attention.py:VisionAttention",
)

_METHOD = "slope over 4 and 8 calls, fresh inputs, copy-out beyond memcpy charged"


def timing(median_us: float, seed: int = 0, count: int = 40) -> Timing:
    """Samples as a busy machine gives them: a sharp left edge and a tail to the right."""
    dice = random.Random(f"{median_us} {seed}")
    return Timing(
        tuple(median_us * (0.985 + 0.02 * dice.random() + 0.012 * dice.expovariate(1)) for _ in range(count)),
        _METHOD,
        resolution_us=0.4,
        copy_us=38.0,
    )


BASELINES = (("eager", 3620.0), ("inductor default", 3290.0), ("inductor max-autotune", 3180.0))
_OK = tuple(
    Finding(check, True, message)
    for check, message in (
        ("shape", "the output is float32 (2, 128, 32, 32), contiguous, in storage of its own"),
        ("values", "the largest error is 3.1e-07 of a row's size; the budget is 2.4e-06"),
        ("hidden_cases", "32 hidden cases and 2 drawn after submission agree"),
        ("weights", "permuted and scaled weights change the output as they change the reference's"),
        ("physics", "5.3 GB/s of bytes that matter; memory gives 21.4 GB/s"),
    )
)


def verdict(candidate: Candidate, median_us: float | None, **changes) -> Verdict:
    """A pass at `median_us`, compared with every baseline but itself; None leaves the time to `changes`."""
    fields = {
        "candidate": candidate.digest,
        "problem": PROBLEM.digest,
        "target": candidate.target,
        "status": Status.PASSED,
        "stage": Stage.TIME,
        "environment": ENVIRONMENT,
        "findings": _OK,
        "judge": "1",
        "decided_at": 1_795_000_000.0,
        "cost_s": 4.2,
    }
    if median_us is not None:
        fields["timing"] = timing(median_us)
        fields["peak_memory_bytes"] = int(median_us * 9000)
        fields["comparisons"] = tuple(
            Comparison(
                name,
                candidate.digest,
                timing(base, seed=round(median_us)),
                base / median_us,
                base / median_us * (0.978 - 0.004 * len(name) / 10),
                base / median_us * 1.021,
            )
            for name, base in BASELINES
            if name != candidate.title
        )
    return Verdict(**{**fields, **changes})


def baseline(writer: str, label: str, median_us: float) -> Entry:
    text = "from reference import Model\n\n\nclass ModelNew(Model):\n    pass\n"
    candidate = Candidate(
        writer,
        "torch@cpu",
        (SourceFile("model.py", f"{text}# {label}\n" if label else text), SourceFile("reference.py", SOURCE)),
        label=label,
        baseline=True,
        note="The module as it is." if writer == "eager" else f"torch.compile, mode {label}.",
    )
    lost = Finding("nan_probe", False, "a NaN in row 0 is lost: Inductor assumes finite numbers", Weight.BAR)
    findings = _OK if writer == "eager" else (*_OK, lost)
    return Entry(candidate, verdict(candidate, median_us, findings=findings))


def rejected(status: Status, stage: Stage, check: str, message: str, **changes) -> Entry:
    text = changes.pop("text", SDPA + f"# {message}\n")
    candidate = Candidate(
        changes.pop("writer"),
        "cpp@cpu",
        (SourceFile("model.py", text), SourceFile("reference.py", SOURCE)),
        label=changes.pop("label"),
        note=changes.pop("note", ""),
    )
    failed = Finding(check, False, message, status=status)
    findings = (*_OK[:1], failed)
    return Entry(candidate, verdict(candidate, None, status=status, stage=stage, findings=findings, **changes))


def make_outcome() -> Outcome:
    """A search that found something."""
    sdpa = Candidate(
        "algebra",
        "torch@cpu",
        (SourceFile("model.py", SDPA), SourceFile("reference.py", SOURCE)),
        label="sdpa",
        note="The averaged attention weights that nobody reads are gone; softmax(q kᵀ) v is one call.",
    )
    fused = [
        Candidate(
            "template",
            "cpp@cpu",
            (
                SourceFile("model.py", FUSED),
                SourceFile("reference.py", SOURCE),
                SourceFile("kernels.cpp", KERNEL.replace("rows, 4,", f"rows, {grain},")),
            ),
            label=f"add+norm grain={grain}",
            parents=(sdpa.digest,),
            note="Residual and norm in one pass over rows that stay in the first cache.",
        )
        for grain in (4, 16)
    ]
    best = Entry(
        fused[0],
        verdict(
            fused[0],
            1742.0,
            stage=Stage.CONFIRM,
            labels=("fixed shape",),
            ledger=(("aten::linear", 0.48), ("flash_attention_kernel", 0.37), ("add_norm", 0.11)),
        ),
    )
    entries = (
        baseline("eager", "", 3620.0),
        baseline("inductor", "default", 3290.0),
        baseline("inductor", "max-autotune", 3180.0),
        Entry(sdpa, verdict(sdpa, 2215.0, labels=("fixed shape",))),
        Entry(fused[1], verdict(fused[1], 1788.0, labels=("fixed shape",))),
        best,
        rejected(
            Status.WRONG_VALUES,
            Stage.VERIFY,
            "values",
            "row 117 of the output is off by 3.2e-03 of its size on heavy-tailed inputs; the budget is 2.4e-06",
            writer="template",
            label="fp16 scores",
            note="Scores kept in half precision.",
        ),
        rejected(
            Status.COMPILE_ERROR,
            Stage.BUILD,
            "build",
            "kernels.cpp:7: use of undeclared identifier 'simd_sum'",
            writer="template",
            label="vec=32",
            log="kernels.cpp:7:17: error: use of undeclared identifier 'simd_sum'\n    7 |   float sum = simd_sum(a);",
        ),
        rejected(
            Status.CHEATED,
            Stage.VERIFY,
            "late_work",
            "copying the result out took 41 times a plain copy: the work was done after the clock stopped",
            writer="replay",
            label="lazy",
            text=HOSTILE,
        ),
    )
    return Outcome(
        "20261130-090512-3fa2c1",
        PROBLEM,
        "cpu",
        entries,
        best,
        "template add+norm grain=4 is 1.83 times as fast as inductor max-autotune",
        (("tinygrad", "tinygrad is not installed; pip install 'kernelwright[tinygrad]'"),),
        1_795_000_000.0,
        97.3,
    )


def make_fruitless() -> Outcome:
    """A search that found nothing better, without torch.compile."""
    outcome = make_outcome()
    eager = outcome.entries[0]
    return replace(
        outcome,
        entries=(replace(eager, verdict=replace(eager.verdict, comparisons=())), *outcome.entries[6:]),
        best=None,
        reason="no candidate beat eager, the fastest baseline; the original module is returned",
        skipped=(("inductor", "no g++ on this machine: apt install g++"), *outcome.skipped),
    )


@pytest.fixture
def outcome() -> Outcome:
    return make_outcome()


@pytest.fixture
def fruitless() -> Outcome:
    return make_fruitless()


def make_rows() -> tuple[BenchRow, ...]:
    """A suite with everything that can happen to a problem."""
    faster, original = Result.FASTER, Result.ORIGINAL
    beside = (
        BenchBaseline("eager", Status.PASSED, 108.0),
        BenchBaseline("inductor default", Status.PASSED, 104.0),
        BenchBaseline("onnxruntime 1.32.0", Status.PASSED, 102.0),
        BenchBaseline("openvino 2026.4.1", Status.UNSUPPORTED, None, "OpenVINO does not take the graph"),
    )
    relu = BenchRow("level1/19 ReLU", "level 1", faster, "template vec=16", 1.08, 1.04, 1.02, (), "r1")
    return (
        replace(relu, over_onnxruntime=1.02, best_baseline="onnxruntime 1.32.0", baselines=beside),
        BenchRow("level1/23 Softmax", "level 1", faster, "template rows=4", 2.61, 1.92, 1.92, ("fixed shape",), "r2"),
        BenchRow("level1/40 LayerNorm", "level 1", faster, "template one pass", 3.4, 2.2, 2.2, (), "r3"),
        BenchRow(
            "level1/1 Square matmul",
            "level 1",
            original,
            "template gemm",
            0.83,
            0.84,
            0.83,
            (),
            "r4",
            "nothing beat eager",
        ),
        BenchRow("level1/95 CrossEntropy", "level 1", Result.FAILED, run="r5", reason="no candidate passed"),
        BenchRow(
            "level2/14 Gemm Divide Sum", "level 2", faster, "algebra fold", 58.0, 55.0, 55.0, ("algorithmic",), "r6"
        ),
        BenchRow(
            "level2/83 Conv3d Min Clamp",
            "level 2",
            faster,
            "algebra const",
            31.0,
            30.0,
            30.0,
            ("degenerate problem",),
            "r7",
        ),
        BenchRow("level2/12 Gemm Multiply LeakyReLU", "level 2", faster, "template epilogue", 1.21, 1.1, 1.1, (), "r8"),
        BenchRow("level2/99 Matmul GELU", "level 2", Result.UNSUPPORTED, reason="needs 24 GiB; this machine has 16"),
    )


@pytest.fixture
def rows() -> tuple[BenchRow, ...]:
    return make_rows()


def make_hostile() -> Outcome:
    """Text that wants out, wherever a candidate or a user can put text."""
    outcome = make_outcome()
    attack = HOSTILE.replace("\n", " ")

    def poison(entry: Entry) -> Entry:
        candidate = replace(
            entry.candidate,
            label=attack,
            note=attack,
            sources=tuple(SourceFile(file.path, HOSTILE + file.text) for file in entry.candidate.sources),
        )
        findings = tuple(replace(finding, message=attack) for finding in entry.verdict.findings)
        comparisons = tuple(replace(item, baseline=item.baseline + " " + attack) for item in entry.verdict.comparisons)
        said = replace(
            entry.verdict,
            findings=findings,
            comparisons=comparisons,
            labels=(attack,),
            log=HOSTILE,
            ledger=((attack, 1.0),) if entry.verdict.ledger else (),
        )
        return Entry(candidate, said)

    poisoned = tuple(poison(entry) for entry in outcome.entries)
    signature = replace(outcome.problem.signature, tensors=(TensorSpec(attack, "float32", (2,)),))
    problem = replace(
        outcome.problem,
        name=attack,
        origin=attack,
        source=HOSTILE,
        opaque=attack,
        signature=signature,
        constants=(Constant(attack, 2, 1),),
    )
    best = poisoned[outcome.entries.index(outcome.best)] if outcome.best else None
    skipped = ((attack, attack), ("inductor", attack))
    return replace(outcome, problem=problem, entries=poisoned, best=best, reason=attack, skipped=skipped)


@pytest.fixture
def hostile() -> Outcome:
    return make_hostile()
