"""`kernelwright metal VERB`: .metal files on this machine, whatever it is."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from kernelwright.app import options
from kernelwright.app.console import aside, console_for, write_json
from kernelwright.errors import CompileError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from kernelwright.metal.launch_file import Argument, Launch
    from kernelwright.metal.library import Library
    from kernelwright.metal.roofline import Estimate
    from kernelwright.simt.check import Fault
    from kernelwright.simt.counters import Counters
    from kernelwright.simt.unit import Entry

_MEASURED = 64
"""Kernels that `list` compiles to tell of their threadgroup memory: two seconds' worth."""

app = typer.Typer(
    name="metal",
    help="Metal kernels without a Mac: list, check, run and profile .metal files.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[Path, typer.Argument(metavar="FILE.metal", help="The source.")]
Includes = Annotated[
    list[Path] | None, typer.Option("-I", metavar="DIR", help="Where includes lie; once for each.", show_default=False)
]
Defines = Annotated[
    list[str] | None, typer.Option("-D", metavar="NAME=VALUE", help="A macro; once for each.", show_default=False)
]
Constants = Annotated[
    list[str] | None,
    typer.Option(
        "--constant",
        metavar="INDEX=VALUE",
        help="A function constant by index or name: 0=true, width=4; once for each.",
        show_default=False,
    ),
]
Kernel = Annotated[
    str | None, typer.Option("--kernel", metavar="NAME", help="Only this kernel; all by default.", show_default=False)
]
LaunchFile = Annotated[
    Path | None,
    typer.Option(
        "--launch",
        metavar="FILE",
        help="What to run on, .json or .py (docs/metal.md); by default the one beside FILE.metal with its name.",
        show_default=False,
    ),
]


@app.command("list", epilog="Example: kernelwright metal list examples/row_softmax.metal --json -")
def list_(
    file: File,
    include: Includes = None,
    define: Defines = None,
    constant: Constants = None,
    kernel: Kernel = None,
    json_to: options.Json = None,
) -> None:
    """Prints the kernels of a file with their arguments and threadgroup memory, and its function constants.

    Threadgroup memory (as JSON threadgroup_bytes, null where it is not told) takes a compilation: it is told of at most
    64 kernels, so use --kernel where a file has more, and not where they don't compile as they stand.

    The JSON: file, kernels [name, arguments [name, kind, index, type, writable], max_threads, threadgroup_bytes],
    constants.
    """
    console = console_for(json_to)
    library = _library(file, include, define, _values(constant))
    entries = [entry for entry in library.unit.entries if kernel in (None, entry.name)]
    if kernel and not entries:
        raise UnknownNameError("kernel", kernel, dir(library))
    measured = len(entries) <= _MEASURED
    if measured:
        try:
            entries = library.measured([entry.name for entry in entries])
        except CompileError:  # `check` tells
            measured = False
    for entry in entries:
        table = Table(box=None, padding=(0, 2), show_header=False)
        for item in entry.parameters:
            place = item.builtin if item.kind == "builtin" else f"{_kind(item.kind)} {item.index}"
            table.add_row("", item.cpp_type, item.name, place, "written" if item.writable else "")
        console.print(f"{entry.name}{_limits(entry)}")
        console.print(table)
    for item in library.constants:
        console.print(f"function constant {item.number}: {item.type} {item.name}")
    document = {
        "file": str(file),
        "kernels": [
            {
                "name": entry.name,
                "arguments": [
                    {
                        "name": item.name,
                        "kind": "builtin" if item.kind == "builtin" else _kind(item.kind),
                        "index": None if item.kind == "builtin" else item.index,
                        "type": item.cpp_type,
                        "builtin": item.builtin or None,
                        "writable": item.writable,
                    }
                    for item in entry.parameters
                ],
                "max_threads": entry.max_threads,
                "threadgroup_bytes": entry.group_memory_bytes if measured else None,
            }
            for entry in entries
        ],
        "constants": [{"name": item.name, "index": item.number, "type": item.type} for item in library.constants],
    }
    write_json(document, json_to)


def _limits(entry: "Entry") -> str:
    """What a kernel's line tells of its threadgroups, in brackets."""
    told = [
        *([f"up to {entry.max_threads} threads"] if entry.max_threads is not None else []),
        *([f"{entry.group_memory_bytes} bytes of threadgroup memory"] if entry.group_memory_bytes else []),
    ]
    return f" ({', '.join(told)})" if told else ""


@app.command(epilog="Example: kernelwright metal check examples/row_softmax.metal --json -")
def check(
    file: File,
    include: Includes = None,
    define: Defines = None,
    constant: Constants = None,
    kernel: Kernel = None,
    launch: LaunchFile = None,
    json_to: options.Json = None,
) -> None:
    """Compiles, and where a launch file is there, runs and tells of races, wrong indexes and diverging barriers.

    Exit code 0: nothing found. 1: it does not compile, or something was found. 2: bad usage.

    Remarks break the language's rules and may work all the same; they do not count.

    The JSON: file, compiled, diagnostics, launches [kernel, faults [kind, file, line, column, function, thread, group,
    memory, offset, message, other_line, times], remarks [likewise]].
    """
    console = console_for(json_to)
    document: dict[str, Any] = {"file": str(file), "compiled": True, "diagnostics": "", "launches": []}
    found = 0
    try:
        given = _values(constant)
        library = _library(file, include, define, given)
        library.verify([library[kernel].entry.name] if kernel else None)
        with aside(json_to):
            launches = _launches(file, launch, kernel)
        for item in launches:
            built = _library(file, include, define, {**given, **item.constants})
            report = built[item.kernel].watched(
                *item.values, threads=item.threads, group_size=item.group_size, group_memory=item.group_memory
            )
            found += len(report.faults)
            for fault in (*report.faults, *report.remarks):
                console.print(fault.message, soft_wrap=True)
            console.print(f"{item.kernel}: {len(report.faults) or 'nothing'} found over {item.threads} threads")
            document["launches"].append(
                {
                    "kernel": item.kernel,
                    "faults": [_fault(fault) for fault in report.faults],
                    "remarks": [_fault(fault) for fault in report.remarks],
                }
            )
        if not launches:
            console.print(f"{file} compiles; give a launch file to look for races and wrong indexes")
    except CompileError as error:
        document |= {"compiled": False, "diagnostics": error.log or str(error)}
        console.print(error.log or str(error), soft_wrap=True)
    write_json(document, json_to)
    if found or not document["compiled"]:
        raise typer.Exit(1)


@app.command(epilog="Example: kernelwright metal run examples/row_softmax.metal --json -")
def run(
    file: File,
    include: Includes = None,
    define: Defines = None,
    constant: Constants = None,
    kernel: Kernel = None,
    launch: LaunchFile = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR", help="Where written buffers go as .npy.", show_default=False),
    ] = None,
    json_to: options.Json = None,
) -> None:
    """Runs what the launch file says, shows what its buffers hold, and compares with what it expects.

    Exit code 0: all that was expected came. 1: something else came. 2: bad usage.

    The JSON: file, launches [kernel, mode, groups, log, arguments [name, dtype, shape, least, largest, nans, first,
    error, ok]].
    """
    console = console_for(json_to)
    document: dict[str, Any] = {"file": str(file), "launches": []}
    wrong = 0
    with aside(json_to):
        launches = _launches(file, launch, kernel, needed=True)
    for number, item in enumerate(launches):
        library = _library(file, include, define, {**_values(constant), **item.constants})
        report = library[item.kernel](
            *item.values, threads=item.threads, group_size=item.group_size, group_memory=item.group_memory
        )
        shown = [
            _held(argument, index) for index, argument in enumerate(item.arguments) if argument and _size(argument)
        ]
        wrong += sum(held["ok"] is False for held in shown)
        console.print(f"{item.kernel}: {report.groups} groups, {report.mode}")
        table = Table("buffer", "dtype", "shape", "least", "largest", "NaNs", "error", "", box=None, padding=(0, 2))
        for held in shown:
            mark = {True: "ok", False: "WRONG", None: ""}[held["ok"]]
            values = (held[key] for key in ("name", "dtype", "shape", "least", "largest", "nans", "error"))
            table.add_row(*(_figure(value) for value in values), mark)
        console.print(table)
        if report.log:
            console.print(report.log)
        if save:
            _save(save, f"{number}-{item.kernel}", item)
        document["launches"].append(
            {
                "kernel": item.kernel,
                "mode": report.mode,
                "groups": report.groups,
                "log": report.log,
                "arguments": shown,
            }
        )
    write_json(document, json_to)
    if wrong:
        raise typer.Exit(1)


@app.command(epilog='Example: kernelwright metal profile examples/row_softmax.metal --chip "M2 Max" --json -')
def profile(
    file: File,
    include: Includes = None,
    define: Defines = None,
    constant: Constants = None,
    kernel: Kernel = None,
    launch: LaunchFile = None,
    chip: Annotated[str, typer.Option("--chip", metavar="NAME", help='An Apple GPU, as "M1", "M2 Max".')] = "M2",
    json_to: options.Json = None,
) -> None:
    """Counts what a launch does, and estimates the least time it could take on a chip. Nothing is timed.

    The JSON: file, launches [kernel, counters {...}, estimate {...}]; docs/json.md names the fields.
    """
    from kernelwright.metal.chips import chip as chip_named
    from kernelwright.metal.roofline import roofline

    console = console_for(json_to)
    on = chip_named(chip)
    document: dict[str, Any] = {"file": str(file), "launches": []}
    with aside(json_to):
        launches = _launches(file, launch, kernel, needed=True)
    for item in launches:
        library = _library(file, include, define, {**_values(constant), **item.constants})
        report = library[item.kernel].watched(
            *item.values, threads=item.threads, group_size=item.group_size, group_memory=item.group_memory
        )
        assert report.counters
        for fault in report.faults:
            console.print(fault.message, soft_wrap=True)
        estimate = roofline(report.counters, on)
        _show_profile(report.counters, estimate, console)
        document["launches"].append(
            {"kernel": item.kernel, "counters": _counters(report.counters), "estimate": _estimate(estimate)}
        )
    write_json(document, json_to)


def _library(
    file: Path, include: list[Path] | None, define: list[str] | None, constants: Mapping[Any, Any]
) -> "Library":
    from kernelwright.metal import frontend
    from kernelwright.metal.library import Library

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from None
    folders = [str(folder) for folder in include or ()]
    source = frontend.source(
        text, name=str(file), include_dirs=folders, defines=define or (), constants=dict(constants)
    )
    return Library(frontend.module(source), source)


def _launches(file: Path, given: Path | None, kernel: str | None, *, needed: bool = False) -> list["Launch"]:
    from kernelwright.metal.launch_file import read_launches

    beside = [file.with_suffix(suffix) for suffix in (".json", ".py")]
    path = given or next((path for path in beside if path.is_file()), None)
    if path is None:
        if needed:
            raise UsageError(f"there is no launch file {beside[0].name} beside {file}; name one by --launch")
        return []
    launches = [launch for launch in read_launches(path) if kernel in (None, launch.kernel)]
    if needed and not launches:
        raise UsageError(f"{path} launches no kernel {kernel!r}")
    return launches


def _values(constants: list[str] | None) -> dict[int | str, Any]:
    """Function constants as they are written on the command line. Raises UsageError."""
    values: dict[int | str, Any] = {}
    for written in constants or ():
        key, separator, text = written.partition("=")
        if not separator:
            raise UsageError(f"--constant takes INDEX=VALUE, not {written!r}")
        values[int(key) if key.isdigit() else key] = _value(text, written)
    return values


def _value(text: str, written: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise UsageError(f"--constant {written}: the value is true, false or a number")


def _kind(kind: str) -> str:
    return {"group_memory": "threadgroup"}.get(kind, kind)


def _fault(fault: "Fault") -> dict[str, Any]:
    return {
        "kind": fault.kind.value,
        "file": fault.place.file,
        "line": fault.place.line,
        "column": fault.place.column,
        "function": fault.place.function,
        "thread": list(fault.thread),
        "group": list(fault.group),
        "memory": fault.memory,
        "offset": fault.offset,
        "message": fault.message,
        "other_line": fault.other.line if fault.other else None,
        "times": fault.times,
    }


def _size(argument: "Argument") -> int:
    """Elements of an array; 0 for a scalar."""
    return int(argument.value.numel() if hasattr(argument.value, "numel") else argument.value.size) * bool(
        len(argument.value.shape)
    )


def _array(value: Any) -> Any:
    """A tensor or array as NumPy; bfloat16 as float32."""
    return value.float().numpy() if hasattr(value, "numel") else value


def _held(argument: "Argument", index: int) -> dict[str, Any]:
    import numpy as np

    array = _array(argument.value)
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    error = None
    if argument.expected is not None:
        away = np.abs(array.astype(np.float64) - argument.expected) / (1 + np.abs(argument.expected))
        error = float(np.max(away)) if np.isfinite(away).all() else None
    ok = None if argument.expected is None else error is not None and error <= argument.tolerance
    return {
        "name": argument.name or f"buffer {index}",
        "dtype": str(argument.value.dtype).removeprefix("torch."),
        "shape": list(array.shape),
        "least": float(finite.min()) if finite.size else None,
        "largest": float(finite.max()) if finite.size else None,
        "nans": int(np.isnan(array).sum()) if array.dtype.kind == "f" else 0,
        "first": [float(value) if np.isfinite(value) else None for value in array.ravel()[:8]],
        "error": error,
        "ok": ok,
    }


def _figure(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def _save(folder: Path, name: str, launch: "Launch") -> None:
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    for index, argument in enumerate(launch.arguments):
        if argument and _size(argument):
            np.save(folder / f"{name}-{argument.name or index}.npy", _array(argument.value))


def _counters(counters: "Counters") -> dict[str, Any]:
    return {
        "threads": counters.threads,
        "groups": counters.groups,
        "group_threads": counters.group_threads,
        "threadgroup_bytes": counters.group_memory_bytes,
        "barriers": counters.barriers,
        "exchanges": counters.exchanges,
        "flops": counters.flops,
        "transcendentals": counters.transcendentals,
        "matrix_flops": counters.matrix_flops,
        "complete": counters.complete,
        "memory": [
            {
                "name": item.name,
                "kind": _kind({"group": "group_memory"}.get(item.memory, item.memory)),
                "bytes_read": item.bytes_read,
                "bytes_written": item.bytes_written,
                "atomics": item.atomics,
                "requests": item.requests,
                "transactions": item.transactions,
                "conflict_cycles": item.conflict_cycles,
                "touched_bytes": item.touched_bytes,
            }
            for item in counters.traffic
        ],
    }


def _times(estimate: "Estimate") -> Iterator[tuple[str, float]]:
    for name in ("memory", "uncached", "arithmetic", "transcendental", "matrix", "local"):
        yield f"{name}_us", getattr(estimate, f"{name}_us")


def _estimate(estimate: "Estimate") -> dict[str, Any]:
    return {
        "chip": estimate.chip,
        "at_least_us": estimate.at_least_us,
        "bound": estimate.bound,
        **dict(_times(estimate)),
        "intensity": estimate.intensity,
        "resident_simdgroups": estimate.resident_simdgroups,
        "notes": list(estimate.notes),
    }


def _show_profile(counters: "Counters", estimate: "Estimate", console: Console) -> None:
    console.print(
        f"{counters.kernel}: {counters.threads:,} threads in {counters.groups:,} groups; {counters.flops:,} flops, "
        f"{counters.transcendentals:,} transcendental, {counters.matrix_flops:,} matrix flops; "
        f"{counters.barriers:,} barriers, {counters.exchanges:,} simdgroup exchanges, {counters.atomics:,} atomics",
        soft_wrap=True,
    )
    headers = ("memory", "read", "written", "touched", "requests", "transactions", "conflicts")
    table = Table(*headers, box=None, padding=(0, 2), header_style="bold")
    for item in counters.traffic:
        figures = (item.bytes_read, item.bytes_written, item.touched_bytes, item.requests, item.transactions)
        table.add_row(item.name, *(f"{figure:,}" for figure in figures), f"{item.conflict_cycles:,}")
    console.print(table)
    console.print(f"estimate for {estimate.chip}: at least {estimate.at_least_us:,.2f} us, bound by {estimate.bound}")
    console.print("  ".join(f"{name} {value:,.2f}" for name, value in _times(estimate)), soft_wrap=True)
    for note in estimate.notes:
        console.print(f"- {note}", soft_wrap=True)
