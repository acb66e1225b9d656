"""The archive as tables and pages."""

from typing import TYPE_CHECKING

from kernelwright.plugins import lazy
from kernelwright.report.as_json import outcome_json, verdict_json
from kernelwright.report.bench import (
    BenchRow,
    Result,
    Summary,
    bench_json,
    bench_row,
    bench_table,
    summaries,
    write_bench_html,
)

if TYPE_CHECKING:
    from kernelwright.report.page import write_html as write_html
    from kernelwright.report.terminal import table as table

__all__ = [
    "BenchRow",
    "Result",
    "Summary",
    "bench_json",
    "bench_row",
    "bench_table",
    "outcome_json",
    "summaries",
    "table",
    "verdict_json",
    "write_bench_html",
    "write_html",
]


# rich and the page are loaded by those who show something
__getattr__ = lazy(__name__, {"table": "terminal", "write_html": "page"})
