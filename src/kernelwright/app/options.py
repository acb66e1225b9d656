"""Options that several verbs share, with one wording."""

from pathlib import Path
from typing import Annotated

import typer

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="SPEC",
        help='An input where the file has no get_inputs, as "f32[2,512,128]" or with a range "f32[1..8,512,128]"; '
        "once for each argument.",
        show_default=False,
    ),
]
Device = Annotated[
    str, typer.Option("--target", metavar="DEVICE", help='Device to run on: "cpu"; "auto" takes the best.')
]
Budget = Annotated[str, typer.Option("--budget", metavar="TIME", help='How long to search: "90s", "5m", "1h".')]
Writers = Annotated[
    str | None,
    typer.Option(
        "--writers",
        metavar="NAMES",
        help="Who proposes, separated by commas (see `kernelwright writers`); all that can run here by default.",
        show_default=False,
    ),
]
Baselines = Annotated[
    str | None,
    typer.Option(
        "--baselines",
        metavar="NAMES",
        help="Stock tools that candidates are timed beside, by commas; onnxruntime and openvino take part only so. "
        "eager is always among them; inductor too, unless --writers names others.",
        show_default=False,
    ),
]
Attempts = Annotated[int, typer.Option("--attempts", min=1, help="How many candidates each writer may submit.")]
Models = Annotated[
    str | None,
    typer.Option(
        "--models",
        metavar="NAMES",
        help='Language models to ask, by commas: "auto" (every vendor whose key is set), "anthropic:NAME", '
        '"openai:http://localhost:8080/v1#NAME". They cost money: see --max-cost.',
        show_default=False,
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="USD", min=0, help="What models may cost; a hard stop.", show_default=False),
]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", metavar="N", min=0, help="Tokens models may use; a hard stop.", show_default=False),
]
Turns = Annotated[int, typer.Option("--turns", min=1, help="How often each model may write and revise.")]
Strategy = Annotated[
    str, typer.Option("--strategy", metavar="NAME", help="best-of-swarm, refine-best or islands: see docs/swarm.md.")
]
Resume = Annotated[
    str | None,
    typer.Option("--resume", metavar="RUN", help='Go on with the models of a run; or "last".', show_default=False),
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="LANGUAGE=FILE",
        help="The same computation for another platform, as cuda=kernel.cu; may be repeated.",
        show_default=False,
    ),
]
Profiles = Annotated[
    list[Path] | None,
    typer.Option("--profile", metavar="FILE", help="What a profiler exported, as text.", show_default=False),
]
ProfileImages = Annotated[
    list[Path] | None,
    typer.Option("--profile-image", metavar="FILE", help="A profiler's screenshot.", show_default=False),
]
Executor = Annotated[
    str,
    typer.Option("--executor", metavar="local|ray[:ADDRESS]", help="Where candidates are judged: see docs/cluster.md."),
]
Scale = Annotated[
    str | None,
    typer.Option(
        "--scale",
        metavar="auto|NAME=N",
        help='"auto" makes the size constants of the file smaller until this machine runs it in milliseconds.',
        show_default=False,
    ),
]
TrainMode = Annotated[bool, typer.Option("--train-mode", help="Judge the module as it runs while training.")]
Autocast = Annotated[
    str | None,
    typer.Option("--autocast", metavar="DTYPE", help='Run inside autocast, as "bfloat16".', show_default=False),
]
Json = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="PATH|-",
        help='Write the result as JSON; "-" prints nothing else to stdout.',
        show_default=False,
    ),
]
ArchivePath = Annotated[
    Path | None,
    typer.Option("--archive", metavar="PATH", help="Another archive than the user's own.", show_default=False),
]


def names(written: str | None) -> list[str] | None:
    """The names in a list that is separated by commas; None for none given."""
    if written is None:
        return None
    return [name.strip() for name in written.split(",") if name.strip()]
