"""`kernelwright brief`: exactly what a writer would be told."""

from typing import Annotated

import typer

from kernelwright.app import options
from kernelwright.app.console import aside, console_for, write_json

EXAMPLE = "Example: kernelwright brief examples/rmsnorm.py:RMSNorm --target cpu"


def brief(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help='The reference: "file.py:Class", "suite:softmax".')],
    inputs: options.Inputs = None,
    target: Annotated[
        str, typer.Option("--target", metavar="DEVICE|LANGUAGE", help='"cpu", "metal", "cpp"; need not be here.')
    ] = "cpu",
    without: Annotated[
        str | None,
        typer.Option("--without", metavar="SECTIONS", help="Sections to leave out, by commas.", show_default=False),
    ] = None,
    references: options.References = None,
    profiles: options.Profiles = None,
    scale: options.Scale = None,
    json_to: options.Json = None,
    archive: options.ArchivePath = None,
) -> None:
    """Prints the brief of a problem: what language models and agents read before they write.

    The JSON: problem, target, sections [name, title, text].
    """
    from kernelwright import context
    from kernelwright.app.choosing import beside, with_best
    from kernelwright.app.desk import facts, history
    from kernelwright.archive import open_archive
    from kernelwright.problems import load
    from kernelwright.search import select

    console = console_for(json_to)
    device, languages = context.languages_of(target)
    with aside(json_to):
        loaded = load(problem, inputs=inputs or (), scale=scale)
    with open_archive(archive) as store:
        parents = select.parents(history(store, loaded.digest, device))
        given = beside(references or (), profiles or (), (), options.names(without) or ())
        given = with_best(given, loaded, device, store)
    told = context.brief(
        loaded,
        device,
        facts(device),
        parents,
        languages=languages,
        beside=given,
    )
    console.print(told.text(), soft_wrap=True)
    sections = [{"name": item.name, "title": item.title, "text": item.text} for item in told.sections]
    write_json({"problem": loaded.name, "target": device, "sections": sections}, json_to)
