"""A model from a library, as it is: BERT of transformers, with the output class and the keywords of its own.

python examples/bert.py [BUDGET]

Needs transformers (pip install transformers); weights are not downloaded. What is proven here is found again by
torch.compile(model, backend="kernelwright"), in this process and in later ones.
"""

import logging
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import BertConfig, BertModel

import kernelwright

BATCH = 4
TOKENS = 128
CONFIG = BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)


def main(budget: str = "3m") -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(0)
    model = BertModel(CONFIG).eval()
    call = {
        "input_ids": torch.randint(0, CONFIG.vocab_size, (BATCH, TOKENS)),
        "attention_mask": torch.ones(BATCH, TOKENS, dtype=torch.int64),
    }
    fast = kernelwright.optimize(model, kwargs=call, budget=budget, watch=show)
    compiled = torch.compile(model, backend="kernelwright")
    with torch.no_grad():
        expected = model(**call).last_hidden_state
        for name, answer in (("optimize", fast), ("torch.compile", compiled)):
            difference = (answer(**call).last_hidden_state - expected).abs().max().item()
            print(f"{name:<14} {median_ms(lambda: answer(**call)):7.2f} ms, differs by at most {difference:.1e}")  # noqa: B023
        print(f"{'original':<14} {median_ms(lambda: model(**call)):7.2f} ms")


def show(event: Any, entry: Any) -> None:
    print(f"{event.at_s:6.1f} s  {event.writer:<9} {event.message}", flush=True)


def median_ms(call: Callable[[], Any], calls: int = 20) -> float:
    """A rough figure; the judge's own, with its interval, is what was shown above it."""
    taken = []
    for _ in range(calls):
        begun = time.perf_counter()
        call()
        taken.append(1e3 * (time.perf_counter() - begun))
    return statistics.median(taken)


if __name__ == "__main__":
    main(*sys.argv[1:])
