"""A question to a language model, and what came back: kept whole, so that a run can be looked at and replayed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """One turn of one model, its repetitions after failures included."""

    member: str
    """The model as the swarm names it: "anthropic:claude-opus-5-5"."""
    turn: int
    """Of this member in this run, from 1; 0 for a diagnosis."""
    form: str
    """Which prompt was used, with its version: "revise/1"."""
    prompt: str
    reply: str
    finish: str
    """"stop", "length" (cut at the limit of tokens), "refusal", "overlong" (cut by us), "cancelled", "failed: WHY"."""
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    """Of the input tokens, those the vendor had cached."""
    measured: bool
    """Whether the vendor told the tokens; estimated from the lengths of the texts otherwise."""
    cost_usd: float | None
    """None where no price is known, as for a server of one's own."""
    seconds: float
    waited_s: float
    """Of these, how long the vendor's limits were waited for."""
    retries: int
    candidate: str
    """The digest of what came of it; empty where nothing did."""
    asked_at: float
    """Seconds since the epoch."""
