"""What one launch did, counted while it ran on this machine: figures of the kernel, not of any GPU.

Flops are those of the code as compiled at -O1: a fused multiply-add counts two, a comparison or a conversion none.
"""

from dataclasses import dataclass

__all__ = ["BANKS", "LINE_BYTES", "Counters", "Traffic"]

LINE_BYTES = 128
"""What one transaction with device memory moves."""
BANKS = 32
"""Of group memory, four bytes wide each: a common shape; Apple documents none."""


@dataclass(frozen=True)
class Traffic:
    """Accesses to one memory: a buffer ("buffer 0 (x)"), group memory, or the program's constants.

    A request is one instruction of one SIMD group. For buffers a transaction is one 128-byte line that a request
    touches, so `transactions / least_transactions` is 1 where accesses are coalesced. For group memory it is a cycle in
    which the fullest bank is busy, and `conflict_cycles` are those beyond what the words need.
    """

    name: str
    memory: str  # "buffer", "group" or "constant"
    bytes_read: int = 0
    bytes_written: int = 0
    atomics: int = 0
    requests: int = 0
    transactions: int = 0
    conflict_cycles: int = 0
    touched_bytes: int = 0
    """Buffers: bytes of the lines touched at least once; what a perfect cache would have to move."""

    @property
    def bytes_moved(self) -> int:
        """Asked for by threads, read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def coalescing(self) -> float:
        """Bytes asked for over bytes of the lines that carry them, at most 1 for reads of each byte once."""
        return self.bytes_moved / (self.transactions * LINE_BYTES) if self.transactions else 1.0


@dataclass(frozen=True)
class Counters:
    """The sums over one launch. Threads' registers and their own arrays are not memory here."""

    kernel: str
    threads: int
    groups: int
    group_threads: int
    simd_width: int
    traffic: tuple[Traffic, ...]
    group_memory_bytes: int
    barriers: int
    """Group barriers, each counted once for its group."""
    exchanges: int
    """Shuffles, reductions, SIMD barriers and matrix products, each counted once for its SIMD group."""
    flops: int
    transcendentals: int
    matrix_flops: int
    """Of 8 x 8 matrix products; not among `flops`."""
    complete: bool = True
    """False where requests were so many that transactions and conflicts were extrapolated."""

    def of(self, memory: str) -> Traffic:
        """The sum over all of one kind of memory."""
        items = [item for item in self.traffic if item.memory == memory]
        return Traffic(
            memory,
            memory,
            sum(item.bytes_read for item in items),
            sum(item.bytes_written for item in items),
            sum(item.atomics for item in items),
            sum(item.requests for item in items),
            sum(item.transactions for item in items),
            sum(item.conflict_cycles for item in items),
            sum(item.touched_bytes for item in items),
        )

    @property
    def atomics(self) -> int:
        """On all memories."""
        return sum(item.atomics for item in self.traffic)
