"""The best into a model: a drop-in module, a torch.compile backend, a saved artifact."""

__all__: list[str] = []
