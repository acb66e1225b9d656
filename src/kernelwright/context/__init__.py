"""What a writer is told, one file a section."""

__all__: list[str] = []
