"""The machine."""

from kernelwright.records import Brief, Facts, Section


class FactsSection:
    """What the device can do, as far as it was measured."""

    name = "facts"
    place = 20
    limit = 2_000

    def write(self, brief: Brief) -> Section:
        facts = brief.facts
        lines = [f"- device: {facts.device}, {facts.name} ({facts.arch}), {_count(facts.threads, 'thread')}"]
        if facts.features:
            lines.append(f"- features: {' '.join(facts.features)}")
        if facts.memory_bytes:
            lines.append(f"- memory: {_bytes(facts.memory_bytes)}{_speed(facts, facts.bandwidth_gbs)}")
        for level, size in enumerate(facts.cache_bytes):
            speed = facts.cache_bandwidth_gbs[level] if level < len(facts.cache_bandwidth_gbs) else 0.0
            lines.append(f"- L{level + 1} data cache: {_bytes(size)}{_speed(facts, speed)}")
        if facts.disturbed:
            lines.append("- speeds are left out: other work ran while they were measured")
        else:
            lines += [f"- peak {dtype}: {gflops:.0f} GFLOP/s" for dtype, gflops in facts.peak_gflops]
            lines += _bound(brief, facts)
        return Section(self.name, "Machine", "\n".join(lines)[: self.limit])


def _bound(brief: Brief, facts: Facts) -> list[str]:
    """The least time to read the inputs once, where the bandwidth is known."""
    if not facts.bandwidth_gbs:
        return []
    size = sum(_size(spec.dtype, spec.example_shape) for spec in brief.problem.signature.tensors)
    return [f"- reading the arguments once from memory takes {size / facts.bandwidth_gbs / 1e3:.1f} us"]


def _size(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor; the width is told by the digits in the dtype's name."""
    width = int("".join(letter for letter in dtype if letter.isdigit()) or 8) // 8
    for size in shape:
        width *= size
    return width


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _bytes(count: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1024:.3g} kB"


def _speed(facts: Facts, gbs: float) -> str:
    return f", {gbs:.3g} GB/s" if gbs and not facts.disturbed else ""
