"""Bytes by their sha256: weights and whatever is too large for a row."""

import os
import re
import time
import uuid
from pathlib import Path
from typing import Protocol

from kernelwright.errors import ArchiveError
from kernelwright.records import digest_bytes

# A temporary file this old belongs to a writer that was killed: no blob takes an hour to write.
_STALE_S = 3600.0


class Blobs(Protocol):
    """A store of bytes, named by what they are."""

    def put(self, data: bytes | memoryview) -> str:
        """Keeps `data` and returns its sha256. Bytes that are there already are not written again."""
        ...

    def get(self, sha: str) -> bytes:
        """The bytes, checked against their name. Raises ArchiveError where they are absent or damaged."""
        ...


class MemoryBlobs:
    """The null member: a dictionary."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def put(self, data: bytes | memoryview) -> str:
        sha = digest_bytes(data)
        self._kept.setdefault(sha, bytes(data))
        return sha

    def get(self, sha: str) -> bytes:
        if sha not in self._kept:
            raise ArchiveError(f"the archive in memory holds no blob {sha[:12]}")
        return self._kept[sha]


class FolderBlobs:
    """Files `ab/cdef...` below a folder. A file appears whole or not at all, whoever is killed meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._drafts = folder / "drafts"
        self._drafts.mkdir(parents=True, exist_ok=True)
        for draft in self._drafts.iterdir():
            try:
                if time.time() - draft.stat().st_mtime > _STALE_S:
                    draft.unlink()
            except FileNotFoundError:
                pass  # another process swept it, or its writer finished

    def path(self, sha: str) -> Path:
        """Where the blob lies, or would lie."""
        if not re.fullmatch(r"[0-9a-f]{64}", sha):
            raise ArchiveError(f"{sha[:80]!r} does not name a blob: 64 hex digits do")
        return self.folder / sha[:2] / sha[2:]

    def put(self, data: bytes | memoryview) -> str:
        sha = digest_bytes(data)
        path = self.path(sha)
        if path.exists():
            return sha
        draft = self._drafts / uuid.uuid4().hex
        try:
            with draft.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            path.parent.mkdir(exist_ok=True)
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise ArchiveError(f"a blob of {len(data)} bytes cannot be kept in {self.folder}: {error}") from error
        return sha

    def get(self, sha: str) -> bytes:
        path = self.path(sha)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise ArchiveError(f"the archive holds no blob {sha[:12]} ({path})") from None
        if digest_bytes(data) != sha:
            raise ArchiveError(
                f"blob {sha[:12]} is damaged: {path} no longer has the content it is named for; delete it"
            )
        return data
