"""What a swarm may spend. Limits are hard: a question is asked only if its worst case still fits."""

import threading
from dataclasses import dataclass

from kernelwright.writers.models import Model, Prompt, Used


@dataclass(frozen=True)
class Limits:
    """None: no limit."""

    cost_usd: float | None = None
    tokens: int | None = None


class Purse:
    """Counts what was spent and what open questions may still cost. Thread-safe."""

    def __init__(self, limits: Limits, spent: Used = Used()) -> None:
        self.limits, self.spent = limits, spent
        self._open: dict[object, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def hold(self, ticket: object, model: Model, prompt: Prompt) -> str | None:
        """Sets aside the worst case of a question that is asked now; or why it may not be asked."""
        with self._lock:
            why = self._refusal(model, prompt)
            if why is None:
                worst_usd, tokens = self._worst(model, prompt)
                self._open[ticket] = (worst_usd or 0.0, tokens)
            return why

    def settle(self, ticket: object, used: Used) -> None:
        """The question is over, and cost this."""
        with self._lock:
            self._open.pop(ticket, None)
            self.spent += used

    def _refusal(self, model: Model, prompt: Prompt) -> str | None:
        worst_usd, tokens = self._worst(model, prompt)
        held_usd = sum(usd for usd, _ in self._open.values())
        held_tokens = sum(count for _, count in self._open.values())
        if self.limits.cost_usd is not None:
            if worst_usd is None and not model.free:
                return f"no price of {model.name} is known, so --max-cost cannot hold; ask it without"
            spent = (self.spent.cost_usd or 0.0) + held_usd
            if spent + (worst_usd or 0.0) > self.limits.cost_usd:
                return f"another question to {model.name} might pass ${self.limits.cost_usd:g}; ${spent:.4f} are spent"
        if self.limits.tokens is not None:
            total = self.spent.input_tokens + self.spent.output_tokens + held_tokens
            if total + tokens > self.limits.tokens:
                return f"another question to {model.name} might pass {self.limits.tokens:,} tokens; {total:,} are spent"
        return None

    @property
    def told(self) -> str:
        """What was spent, in words."""
        tokens = f"{self.spent.input_tokens + self.spent.output_tokens:,} tokens"
        cost = "" if self.spent.cost_usd is None else f", ${self.spent.cost_usd:.4f}"
        limit = "" if self.limits.cost_usd is None else f" of ${self.limits.cost_usd:g}"
        return f"{tokens}{cost}{limit if cost else ''}{'' if self.spent.measured else ' (in part estimated)'}"

    def _worst(self, model: Model, prompt: Prompt) -> tuple[float | None, int]:
        read = prompt.estimated_tokens
        return model.price(read, prompt.max_tokens), read + prompt.max_tokens
