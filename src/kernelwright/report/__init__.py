"""The archive as tables and pages."""

__all__: list[str] = []
