"""Opens the database file and brings its tables to the version this release knows."""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.resources import files
from pathlib import Path

from kernelwright.errors import ArchiveError, MissingError

# "KWRT": tells our files from any other SQLite database.
_APPLICATION_ID = 0x4B575254
_BUSY_S = 30.0


def steps() -> tuple[str, ...]:
    """The SQL texts in the order of their numbers; applying the first n makes version n."""
    folder = files("kernelwright.archive").joinpath("sql")
    found = sorted((item for item in folder.iterdir() if item.name.endswith(".sql")), key=lambda item: item.name)
    return tuple(item.read_text(encoding="utf-8") for item in found)


def connect(path: Path | None, known: Sequence[str] | None = None) -> sqlite3.Connection:
    """A connection to the archive at `path` (None: in memory) whose tables are those of the newest of `known`.

    Many processes may do this to one file at once. Before an older file is changed it is copied beside itself.
    Raises ArchiveError for a file of a newer version, one that is damaged, or one that is not an archive.
    """
    known = steps() if known is None else known
    if sqlite3.sqlite_version_info < (3, 37):
        raise MissingError(f"the archive needs SQLite 3.37 or newer; this Python has {sqlite3.sqlite_version}")
    where = ":memory:" if path is None else str(path)
    try:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        # Autocommit: every transaction in this room is opened by name. The archive's own lock guards the connection.
        connection = sqlite3.connect(where, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    except (sqlite3.Error, OSError) as error:
        raise ArchiveError(f"the archive {where} cannot be opened: {error}") from error
    try:
        _refuse_foreign(connection, where)
        _use_wal(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")
        _migrate(connection, path, known)
    except sqlite3.Error as error:
        connection.close()
        raise ArchiveError(f"the archive {where} cannot be opened: {error}") from error
    except ArchiveError:
        connection.close()
        raise
    return connection


def _refuse_foreign(connection: sqlite3.Connection, where: str) -> None:
    marked = _pragma(connection, "application_id")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if marked != _APPLICATION_ID and (marked or tables):
        raise ArchiveError(f"{where} is an SQLite database, but not a kernelwright archive; name another file")


def _use_wal(connection: sqlite3.Connection) -> None:
    # SQLite does not wait for other connections while it switches the journal, so the wait is here.
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: sqlite3.Connection, path: Path | None, known: Sequence[str]) -> None:
    if _version(connection, path, known) == len(known):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, path, known)  # another process may have migrated while this one waited
        if 0 < version < len(known) and path is not None:
            _back_up(path, version)
        for text in known[version:]:
            for statement in _statements(text):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={len(known)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection, path: Path | None, known: Sequence[str]) -> int:
    version = _pragma(connection, "user_version")
    if version > len(known):
        raise ArchiveError(
            f"the archive {path} is of version {version}, and this kernelwright knows versions up to {len(known)}; "
            "upgrade kernelwright, or name another archive"
        )
    return version


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _back_up(path: Path, version: int) -> None:
    """Copies the last committed state. The caller holds the write lock, which readers do not wait for."""
    copy = path.with_name(f"{path.name}.v{version}-{time.strftime('%Y%m%d-%H%M%S')}.backup")
    draft = copy.with_name(f"{copy.name}.{os.getpid()}.draft")
    draft.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(draft)) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode=DELETE")  # one file, whole in itself
    draft.replace(copy)


def _statements(text: str) -> Iterator[str]:
    """The statements of an SQL text one by one; `executescript` would commit between them."""
    statement = ""
    for piece in text.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):  # not inside a comment, a string or a trigger
            if statement.strip() != ";":
                yield statement
            statement = ""
