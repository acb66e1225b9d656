"""A deployed kernel on disk: sources, the problem and the verdict, signed with a key of this machine.

    artifact.json      format, problem, candidate and verdict, without the sources' text
    sources/...        the candidate's files as they are
    reference.py       the problem's source
    signature          HMAC-SHA256 over the names and contents of all other files

Loading executes the sources. A key never leaves its machine, so an artifact from elsewhere cannot be told from a
forged one, and is loaded only with trust=True.
"""

import hashlib
import hmac
import json
import os
import secrets
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from kernelwright.errors import ArtifactError
from kernelwright.home import home
from kernelwright.records import Candidate, Entry, Problem, SourceFile, Verdict, decode, encode

FORMAT = 1
"""Raised when an older reader could no longer make sense of an artifact."""


def save_artifact(path: str | Path, problem: Problem, entry: Entry) -> Path:
    """Writes the folder `path`, which must not exist or be an artifact that is replaced as a whole."""
    path = Path(path)
    if path.exists() and not (path / "artifact.json").is_file():
        raise ArtifactError(f"{path} exists and is not an artifact; choose another place")
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    bare = replace(entry.candidate, sources=tuple(SourceFile(file.path, "") for file in entry.candidate.sources))
    record = {
        "format": FORMAT,
        "problem": encode(replace(problem, source="", import_paths=())),
        "candidate": encode(bare),
        "verdict": encode(entry.verdict),
    }
    (fresh / "artifact.json").write_text(json.dumps(record, indent=1) + "\n")
    (fresh / "reference.py").write_text(problem.source)
    (fresh / "sources").mkdir()
    for file in entry.candidate.sources:
        (fresh / "sources" / _plain_name(file.path)).write_text(file.text)
    (fresh / "signature").write_text(_sign(fresh) + "\n")
    fresh.chmod(0o755)
    if path.exists():
        shutil.rmtree(path)
    fresh.rename(path)
    return path


def read_artifact(path: str | Path, trust: bool = False) -> tuple[Problem, Entry]:
    """What `save_artifact` wrote. Raises ArtifactError for a damaged or foreign one."""
    path = Path(path)
    if not (path / "artifact.json").is_file():
        raise ArtifactError(f"{path} is not an artifact: it has no artifact.json")
    if not trust and not _signed_here(path):
        raise ArtifactError(
            f"{path} was not signed on this machine, or was changed since. Loading it runs its code: if it comes from "
            "elsewhere, read its sources and pass trust=True; if you saved it here, save it again"
        )
    try:
        record = json.loads((path / "artifact.json").read_text())
        if record["format"] > FORMAT:
            raise ArtifactError(f"{path} has format {record['format']}, this version reads up to {FORMAT}; upgrade")
        problem = replace(decode(Problem, record["problem"]), source=(path / "reference.py").read_text())
        bare = decode(Candidate, record["candidate"])
        verdict = decode(Verdict, record["verdict"])
        sources = tuple(
            SourceFile(file.path, (path / "sources" / _plain_name(file.path)).read_text()) for file in bare.sources
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged: {error}") from error
    candidate = replace(bare, sources=sources)
    if (candidate.digest, problem.digest) != (verdict.candidate, verdict.problem):
        raise ArtifactError(f"{path} is damaged: its sources are not those that were judged")
    return problem, Entry(candidate, verdict)


def _plain_name(name: str) -> str:
    if Path(name).name != name or name in ("", ".", ".."):
        raise ArtifactError(f"a source file of an artifact cannot be called {name!r}")
    return name


def _sign(folder: Path) -> str:
    mac = hmac.new(_key(), digestmod=hashlib.sha256)
    for file in sorted(item for item in folder.rglob("*") if item.is_file() and item.name != "signature"):
        data = file.read_bytes()
        mac.update(f"{file.relative_to(folder).as_posix()}\0{len(data)}\0".encode() + data)
    return mac.hexdigest()


def _signed_here(folder: Path) -> bool:
    try:
        given = (folder / "signature").read_bytes().strip()
    except OSError:
        return False
    return hmac.compare_digest(given, _sign(folder).encode())


def _key() -> bytes:
    """This machine's signing key, made on first use and readable by its owner alone."""
    path = home() / "signing.key"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        fresh = path.with_name(f".signing-{os.getpid()}-{secrets.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
        return path.read_bytes()
