"""A module or its text as a functional core-ATen graph: identity, rewrites, pieces, and text again."""

__all__: list[str] = []
