"""The advice as a picture: time over size, both logarithmic."""

from pathlib import Path

from kernelwright.errors import MissingError
from kernelwright.functions.advice.advising import Advice


def plot(advice: Advice, file: Path) -> None:
    """Writes the picture; the file's ending says in which format. Raises MissingError without matplotlib."""
    try:
        import matplotlib  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingError("a plot needs matplotlib: pip install 'kernelwright[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pyright: ignore[reportMissingImports]

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name in dict.fromkeys(row.implementation for row in advice.rows if row.median_us):
        rows = [row for row in advice.rows if row.implementation == name and row.median_us]
        style = "o-" if name.startswith("ours") else "s--"
        axes.plot([row.size for row in rows], [row.median_us for row in rows], style, label=name, markersize=4)
    axes.set(xscale="log", yscale="log", xlabel=advice.parameter, ylabel="microseconds a call", title=advice.function)
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(file, dpi=150)
    pyplot.close(figure)
