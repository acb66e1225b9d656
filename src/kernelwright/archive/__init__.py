"""What was tried and found, in SQLite, append-only and keyed by content."""

__all__: list[str] = []
