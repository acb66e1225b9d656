"""Old, new, foreign and broken files."""

import sqlite3
import threading
from pathlib import Path

import pytest

from kernelwright.archive import Archive
from kernelwright.archive.schema import connect, steps
from kernelwright.errors import ArchiveError

LATER = (
    "CREATE TABLE later (a TEXT) STRICT;\nCREATE TRIGGER later_keeps BEFORE UPDATE ON later BEGIN\n SELECT 1;\nEND;\n"
)


def tables(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type='table'")}
    connection.close()
    return names


def test_an_older_file_is_backed_up_and_then_migrated(tmp_path: Path) -> None:
    path = tmp_path / "archive.sqlite"
    Archive(path).close()
    connect(path, (*steps(), LATER)).close()
    assert "later" in tables(path)
    (backup,) = tmp_path.glob(f"archive.sqlite.v{len(steps())}-*.backup")
    assert "later" not in tables(backup) and "verdict" in tables(backup)
    assert not list(tmp_path.glob("*.draft*"))


def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "archive.sqlite"
    connect(path, (*steps(), LATER)).close()
    with pytest.raises(ArchiveError, match=rf"is of version {len(steps()) + 1}.* up to {len(steps())}.*upgrade"):
        Archive(path)
    assert "later" in tables(path)


def test_a_migration_that_fails_leaves_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "archive.sqlite"
    Archive(path).close()
    with pytest.raises(ArchiveError, match="no such table"):
        connect(path, (*steps(), "-- one; line\nCREATE TABLE half (a TEXT); INSERT INTO nowhere VALUES (1);"))
    assert "half" not in tables(path)
    Archive(path).close()


def test_migrating_twice_at_once_is_migrating_once(tmp_path: Path) -> None:
    path = tmp_path / "archive.sqlite"
    Archive(path).close()
    errors: list[Exception] = []

    def migrate() -> None:
        try:
            connect(path, (*steps(), LATER)).close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=migrate) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(list(tmp_path.glob("*.backup"))) == 1


@pytest.mark.parametrize(
    "content", [b"not a database at all, but a text " * 40, b"SQLite format 3\x00" + b"\xff" * 4000]
)
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "archive.sqlite"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match=r"archive\.sqlite cannot be opened"):
        Archive(path)
    assert path.read_bytes() == content


def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mail.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mail (a)")
    with pytest.raises(ArchiveError, match="not a kernelwright archive"):
        Archive(path)
    assert tables(path) == {"mail"}


def test_a_folder_in_the_way_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="cannot be opened"):
        Archive(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match="cannot be opened"):
        Archive(tmp_path / "file" / "archive.sqlite")
