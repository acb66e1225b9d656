"""The one code generator: a typed loop-nest IR, schedules, and printers. Knows no torch."""

__all__: list[str] = []
