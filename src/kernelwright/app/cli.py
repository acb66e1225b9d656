"""The command line: `kernelwright VERB ...`, one file a verb.

Exit codes: 0 done or passed (also when nothing beat the baseline), 1 judged and failed, 2 bad usage.
"""

import atexit
import contextlib
import json
import os
import sys
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, NoReturn

import typer

from kernelwright import __version__
from kernelwright.app import advise, agent, bench, brief, judge, listing, mcp, metal, optimize, report
from kernelwright.errors import KernelwrightError, MissingError, UsageError

app = typer.Typer(
    name="kernelwright",
    help="Makes PyTorch modules fast, and proves it.",
    epilog="Example: kernelwright optimize examples/vision_attention.py:VisionAttention --target cpu",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (optimize.optimize, judge.judge, bench.bench, report.report, brief.brief, advise.advise):
    app.command(epilog=verb.__globals__["EXAMPLE"])(verb)
for verb in (listing.targets, listing.writers, listing.checks):
    app.command(epilog=f"Example: kernelwright {verb.__name__} --json -")(verb)
app.add_typer(agent.app)
app.add_typer(mcp.app)
app.add_typer(metal.app)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"kernelwright {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Makes PyTorch modules fast, and proves it."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits. What the user gave wrong becomes one sentence on stderr and exit code 2."""
    try:
        _run(argv)
    except SystemExit as ended:
        if argv is None:  # the process is ours
            _leave(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
        raise


def _leave(code: int) -> None:
    """Exits past threads that a search has given up, if there are any.

    One that comes back from PyTorch while the interpreter is taken down is ended inside C++, which aborts the process
    and loses the exit code (Python before 3.14).
    """
    if any(thread.name.startswith("kernelwright-") for thread in threading.enumerate()):
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _run(argv: Sequence[str] | None) -> NoReturn:
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        app(args=words, prog_name="kernelwright")
    except (UsageError, MissingError) as error:
        _fail(str(error), 2, words)
    except KernelwrightError as error:
        _fail(f"{type(error).__name__}: {error}", 2, words)
    except KeyboardInterrupt:
        _fail("interrupted", 130, words)
    except BrokenPipeError:  # the reader of a pipe, as `head`, has left
        sys.stderr.close()
        sys.exit(0)
    sys.exit(0)


def _fail(sentence: str, code: int, words: Sequence[str]) -> NoReturn:
    """Says it to people, and to a program that asked for JSON on stdout."""
    if ("--json", "-") in pairwise(words) or "--json=-" in words:
        print(json.dumps({"status": "refused", "message": sentence}))
    print(f"kernelwright: {sentence}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
