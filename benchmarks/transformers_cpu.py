"""Models of transformers, built small from their configurations, on all roads to a faster call, on one clock.

    python benchmarks/transformers_cpu.py [MODEL ...] [--budget 5m] [--rounds 40] [--json PATH|-]

For each model: kernelwright.optimize searches first; then the model as it is, torch.compile in three modes (default,
max-autotune, freezing), the drop-in of optimize, and torch.compile(backend="kernelwright") are called by turns, in an
order that changes from round to round. A round's speedup is the time of another road's call over this road's in the
same round. The first results of all roads are compared with the model's own.
"""

import argparse
import copy
import importlib.metadata
import json
import logging
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from torch import nn

import kernelwright
from kernelwright.targets import environment

STOCK = ("eager", "compile", "max-autotune", "freezing")
OURS = ("optimize", 'backend="kernelwright"')
SMALL = dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)


@dataclass
class Row:
    """What was measured of one model; times in milliseconds of wall clock."""

    model: str
    config: dict[str, Any]
    inputs: dict[str, list[int]]
    search: str
    """Why the search ended as it did."""
    served: str
    """What torch.compile(backend="kernelwright") said of the model."""
    differs: dict[str, float] = field(default_factory=dict)
    """The largest difference of a road's first output from the model's own."""
    samples_ms: dict[str, list[float]] = field(default_factory=dict)
    median_ms: dict[str, float] = field(default_factory=dict)
    speedup: dict[str, dict[str, float]] = field(default_factory=dict)
    """Of our roads over each stock one: the median over rounds, and its 95 % interval."""


def bert(transformers: Any) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    config = transformers.BertConfig(**SMALL)
    mask = torch.ones(4, 128, dtype=torch.int64)
    mask[1, 90:] = 0
    return transformers.BertModel(config), {"input_ids": tokens(config, 4, 128), "attention_mask": mask}


def distilbert(transformers: Any) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    config = transformers.DistilBertConfig(dim=256, n_layers=4, n_heads=4, hidden_dim=1024)
    mask = torch.ones(4, 128, dtype=torch.int64)
    mask[1, 90:] = 0
    return transformers.DistilBertModel(config), {"input_ids": tokens(config, 4, 128), "attention_mask": mask}


def vit(transformers: Any) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    sizes = dict(hidden_size=192, num_hidden_layers=6, num_attention_heads=3, intermediate_size=768)
    config = transformers.ViTConfig(image_size=128, patch_size=16, **sizes)
    return transformers.ViTModel(config), {"pixel_values": torch.randn(4, 3, 128, 128)}


def llama(transformers: Any) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    sizes = dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=8, intermediate_size=688)
    config = transformers.LlamaConfig(vocab_size=4000, num_key_value_heads=4, use_cache=False, **sizes)
    return transformers.LlamaModel(config), {"input_ids": tokens(config, 2, 128)}


MODELS = {make.__name__: make for make in (bert, distilbert, vit, llama)}


def tokens(config: Any, *shape: int) -> torch.Tensor:
    return torch.randint(0, config.vocab_size, shape)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; all where none is named")
    options.add_argument("--budget", default="5m", help="of each search")
    options.add_argument("--rounds", type=int, default=40)
    options.add_argument("--json", help="where the rows go as JSON; - for the terminal")
    chosen = options.parse_args()
    if unknown := set(chosen.models) - set(MODELS):
        options.error(f"no model is called {sorted(unknown)[0]}; there are {', '.join(MODELS)}")
    logging.basicConfig(format="  %(message)s")
    logging.getLogger("kernelwright").setLevel(logging.INFO)
    rows = [measured(name, chosen.budget, chosen.rounds) for name in chosen.models or MODELS]
    if chosen.json:
        text = json.dumps({**conditions(), "models": [asdict(row) for row in rows]}, indent=1) + "\n"
        if chosen.json == "-":
            sys.stdout.write(text)
        else:
            Path(chosen.json).write_text(text)


def measured(name: str, budget: str, rounds: int) -> Row:
    import transformers

    torch.manual_seed(0)
    model, call = MODELS[name](transformers)
    model.eval()
    print(f"{name}: {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters", flush=True)
    said = Said()
    logging.getLogger("kernelwright").addHandler(said)
    roads: dict[str, Callable[..., Any]] = {"eager": model}
    roads["optimize"] = kernelwright.optimize(copy.deepcopy(model), kwargs=call, budget=budget, watch=show)
    searched = said.last()
    roads |= {road: compiled(copy.deepcopy(model), road) for road in (*STOCK[1:], OURS[1])}
    row = Row(name, small_config(model), {key: list(value.shape) for key, value in call.items()}, searched, "")
    with torch.no_grad():
        want = model(**call)[0]
        for road, module in roads.items():
            with torch._inductor.config.patch(freezing=road == "freezing"):
                row.differs[road] = (module(**call)[0] - want).abs().max().item()
        row.served = said.last()
        row.samples_ms = by_turns({road: roads[road] for road in (*STOCK, *OURS)}, call, rounds)
    logging.getLogger("kernelwright").removeHandler(said)
    row.median_ms = {road: statistics.median(samples) for road, samples in row.samples_ms.items()}
    for road in OURS:
        row.speedup[road] = {}
        for other in STOCK:
            row.speedup[road] |= interval(other, row.samples_ms[other], row.samples_ms[road])
    told(row)
    return row


def compiled(model: nn.Module, road: str) -> Callable[..., Any]:
    if road == OURS[1]:
        return torch.compile(model, backend="kernelwright")
    return torch.compile(model, mode="max-autotune") if road == "max-autotune" else torch.compile(model)


def by_turns(roads: Mapping[str, Callable[..., Any]], call: Mapping[str, Any], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of a call, a sample a round; two calls that are not timed come before each."""
    order, shuffle = list(roads), random.Random(0)
    samples: dict[str, list[float]] = {road: [] for road in roads}
    for _ in range(rounds):
        shuffle.shuffle(order)
        for road in order:
            for _ in range(2):
                roads[road](**call)
            begun = time.perf_counter()
            for _ in range(3):
                roads[road](**call)
            samples[road].append((time.perf_counter() - begun) / 3 * 1e3)
    return samples


def interval(other: str, theirs: list[float], ours: list[float]) -> dict[str, float]:
    """The median of the rounds' ratios, with its interval by 2000 draws of rounds."""
    ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return {other: statistics.median(ratios), f"{other}, low": medians[50], f"{other}, high": medians[-51]}


def told(row: Row) -> None:
    for road, median in row.median_ms.items():
        words = f"  {road:<22} {median:8.2f} ms   differs by {row.differs[road]:.1e}"
        if road in OURS:
            found = row.speedup[road]
            words += "   " + ", ".join(
                f"{found[other]:.2f}x ({found[f'{other}, low']:.2f} to {found[f'{other}, high']:.2f}) over {other}"
                for other in STOCK
            )
        print(words, flush=True)


def small_config(model: Any) -> dict[str, Any]:
    """The numbers of the model's configuration."""
    given = model.config.to_diff_dict()
    return {key: value for key, value in sorted(given.items()) if isinstance(value, (int, float, str))}


def conditions() -> dict[str, Any]:
    """The machine and the versions."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent)
    facts = environment("cpu").facts
    return {
        "command": " ".join(["python", "benchmarks/transformers_cpu.py", *sys.argv[1:]]),
        "commit": commit.stdout.strip(),
        "machine": facts.name,
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": importlib.metadata.version("transformers"),
        "measured_at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


class Said(logging.Handler):
    """Remembers what kernelwright logged."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(record.getMessage())

    def last(self) -> str:
        return self.words[-1] if self.words else ""


def show(event: Any, entry: Any) -> None:
    print(f"  {event.at_s:6.1f} s  {event.writer:<9} {event.message}", flush=True)


if __name__ == "__main__":
    main()
