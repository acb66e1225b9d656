"""Kernels of public repositories: inputs, launches and what NumPy says must come out. None of their code is here."""

from metal_cases.case import Case
from metal_cases.corpora import CORPORA, Corpus

__all__ = ["CORPORA", "Case", "Corpus"]
