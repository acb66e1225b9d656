"""`kernelwright advise`: one Python loop, by every means this machine has, at several sizes, and what follows."""

from kernelwright.functions.advice.advising import Advice, Row, advice_json, advise
from kernelwright.functions.advice.plot import plot
from kernelwright.functions.advice.subject import Subject, load_subject

__all__ = ["Advice", "Row", "Subject", "advice_json", "advise", "load_subject", "plot"]
