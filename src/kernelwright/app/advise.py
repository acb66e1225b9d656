"""`kernelwright advise`: a Python loop by every means there is, at several sizes, and what follows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.app import options
from kernelwright.app.console import aside, console_for, refuse_unwritable, write_json
from kernelwright.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from kernelwright.functions.advice import Advice

EXAMPLE = "Example: kernelwright advise examples/shuffle.py:shuffle_mul --sizes L=943,1e4,1e5 --plot advice.png"


def advise(
    function: Annotated[str, typer.Argument(metavar="FILE.py:NAME", help="A function, decorated or not.")],
    sizes: Annotated[
        list[str],
        typer.Option("--sizes", metavar="NAME=N,N,...", help="Sizes to measure; of other names one size each."),
    ],
    seconds: Annotated[float, typer.Option("--seconds", min=0.0, help="How long to measure at each size.")] = 1.0,
    plot_to: Annotated[
        Path | None,
        typer.Option("--plot", metavar="PNG", help="Draw time over size (needs matplotlib).", show_default=False),
    ] = None,
    json_to: options.Json = None,
) -> None:
    """Is another implementation, or a GPU, worth it for this loop, and from which size on?

    The file defines `arguments(**sizes)`, which returns the function's arguments: with --sizes L=943,1e4 it is called
    as arguments(L=943) and arguments(L=10000). See examples/shuffle.py. Measured by turns: plain Python, NumPy, Numba,
    JAX, torch, and ours with each plan on each device; what is missing is listed with its reason. The file may define
    variants of its own: numpy_NAME and torch_NAME(the same arguments), jax_NAME(the same, returning the result).

    The JSON: function, parameter, fixed, call_us, rows [implementation, size, median_us, reason], sentence.
    """
    from kernelwright.functions import advice as room

    console = console_for(json_to)
    if plot_to:
        refuse_unwritable(plot_to)
    parameter, values, fixed = read_sizes(sizes)
    with aside(json_to):
        subject = room.load_subject(function)
        found = room.advise(subject, parameter, values, fixed, seconds=seconds)
    console.print(advice_table(found))
    for name, reason in {row.implementation: row.reason for row in found.rows if row.median_us is None}.items():
        console.print(f"{name}: {reason}", soft_wrap=True)
    console.print(found.sentence, soft_wrap=True)
    if plot_to:
        room.plot(found, plot_to)
        console.print(f"plot    {plot_to}", soft_wrap=True)
    write_json(room.advice_json(found), json_to)


def read_sizes(given: list[str]) -> tuple[str, list[float], dict[str, float]]:
    """The size that varies with its values, and the others. Raises UsageError."""
    read: dict[str, list[float]] = {}
    for item in given:
        name, equals, text = item.partition("=")
        try:
            read[name] = [float(part) for part in text.split(",")]
        except ValueError:
            equals = ""
        if not equals or not name.isidentifier() or any(value <= 0 for value in read[name]):
            raise UsageError(f"--sizes {item!r} is not of the form NAME=N,N,... as L=943,1e4")
    several = [name for name, values in read.items() if len(values) > 1]
    if len(several) > 1:
        raise UsageError(f"only one size may have several values, and {' and '.join(several)} have")
    parameter = several[0] if several else next(iter(read))
    return parameter, sorted(read.pop(parameter)), {name: values[0] for name, values in read.items()}


def advice_table(advice: "Advice") -> "Table":
    """Implementations by sizes, in microseconds a call, fastest at the largest size first."""
    from rich.table import Table

    sizes = advice.sizes()
    table = Table("us a call", *(f"{advice.parameter}={size:g}" for size in sizes), box=None, padding=(0, 2))
    times = {(row.implementation, row.size): row.median_us for row in advice.rows if row.median_us}
    names = dict.fromkeys(name for name, _ in times)
    for name in sorted(names, key=lambda name: [times.get((name, size), float("inf")) for size in reversed(sizes)]):
        cells = [times.get((name, size)) for size in sizes]
        table.add_row(name, *("" if cell is None else f"{cell:.2f}" if cell < 1e3 else f"{cell:.0f}" for cell in cells))
    return table
