"""A model's reply as a candidate's files."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from kernelwright.records import Brief, Candidate, SourceFile
from kernelwright.writers.languages import language_of

ENDINGS = {"cpp": "cpp", "c++": "cpp", "metal": "metal", "msl": "metal", "cuda": "cu", "cu": "cu", "hip": "hip"}
"""Of a kernel file, by the language a block names."""
_BLOCK = re.compile(
    r"^(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>(?:(?!```)[^\n])*)\n(?P<text>.*?)^(?P=fence)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_NAMED = re.compile(r"""kernelwright\.source\(\s*["']([^"']+)["']\s*\)""")
_FILES = 12
_NOTE = 300


def files_of(reply: str) -> dict[str, str]:
    """The files in a reply, by name; empty where there is no class ModelNew among them.

    A block's first line names language and file. Where it names no file, the Python block with ModelNew is `model.py`,
    and a block of a kernel's language is the file that `model.py` asks for.
    """
    found: dict[str, str] = {}
    unnamed: list[tuple[str, str]] = []
    for match in _BLOCK.finditer(reply):
        language, _, name = match["info"].strip().partition(" ")
        name = name.strip().strip("`\"'()").removeprefix("file=").removeprefix("title=").strip("\"'")
        if not name and "." in language:
            name = language
        if name and re.fullmatch(r"[\w-]+(\.[\w-]+)+", PurePosixPath(name).name):
            found[PurePosixPath(name).name] = match["text"]
        else:
            unnamed.append((language.lower(), match["text"]))
    if "model.py" not in found:
        models = [text for language, text in unnamed if "class ModelNew" in text]
        models += [text for name, text in found.items() if name.endswith(".py") and "class ModelNew" in text]
        if not models:
            return {}
        found["model.py"] = models[-1]  # the last word counts
    if "ModelNew" not in found["model.py"]:
        return {}
    asked = [name for name in _NAMED.findall(found["model.py"]) if name not in found]
    for language, text in unnamed:
        fitting = [name for name in asked if name.endswith("." + ENDINGS.get(language, "?"))]
        if fitting:
            found[fitting[0]] = text
            asked.remove(fitting[0])
    return dict(list(found.items())[:_FILES])


def note_of(reply: str) -> str:
    """The line that says what was done; empty where there is none."""
    match = re.search(r"^\**Note:\**\s*(.+)$", reply, re.MULTILINE)
    return match[1].strip()[:_NOTE] if match else ""


def assembled(
    files: Mapping[str, str], brief: Brief, writer: str, label: str = "", note: str = "", parents: tuple[str, ...] = ()
) -> Candidate:
    """The candidate of these files, `model.py` first, with the problem's own text where it is imported."""
    texts = {"model.py": files["model.py"], **files}
    if re.search(r"^\s*(from|import)\s+reference\b", texts["model.py"], re.MULTILINE):
        texts["reference.py"] = brief.problem.source  # the problem's, whatever the reply calls by that name
    sources = tuple(SourceFile(name, text) for name, text in texts.items())
    target = f"{language_of(texts['model.py'])}@{brief.target}"
    return Candidate(writer, target, sources, label=label, note=note, parents=parents)
