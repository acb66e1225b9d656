"""From a Python call to a C++ kernel: signatures read from its text, entries generated beside it, launch, checks."""

__all__: list[str] = []
