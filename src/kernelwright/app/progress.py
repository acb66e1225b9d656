"""What a search does, live in a terminal and line by line elsewhere."""

import threading
import time
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kernelwright.records import Entry, Event, EventKind, Status, Weight

LATEST = 6
"""Verdicts shown while searching; the table at the end shows all."""

_COLOURS = {EventKind.FAILED: "red", EventKind.SKIPPED: "yellow", EventKind.NOTE: "cyan", EventKind.CONFIRMED: "green"}


class Progress:
    """Watches a search and shows it on `console`. Use as a context; call it with each event."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._title = console, title
        self._doing: dict[str, str] = {}
        self._latest: list[Entry] = []
        self._judged = 0
        self._best: Entry | None = None
        self._note = ""
        self._ends_at = time.monotonic()
        self._lock = threading.Lock()
        self._live = Live(console=console, get_renderable=self._draw, refresh_per_second=4, transient=True)

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def __call__(self, event: Event, entry: Entry | None) -> None:
        with self._lock:
            self._hear(event, entry)
        if not self._console.is_terminal and event.kind is not EventKind.SUBMITTED:
            self._console.print(_line(event), soft_wrap=True)

    @property
    def best(self) -> Entry | None:
        """The candidate with the largest speedup over its best baseline so far; not yet a winner."""
        return self._best

    def _hear(self, event: Event, entry: Entry | None) -> None:
        if event.left_s > 0:
            self._ends_at = time.monotonic() + event.left_s
        match event.kind:
            case EventKind.WRITING:
                self._doing[event.writer] = "writing"
            case EventKind.SUBMITTED:
                self._doing[event.writer] = _told(event, f"{event.message}: being judged")
            case EventKind.SKIPPED | EventKind.FAILED:
                self._doing[event.writer] = f"{event.kind.value}: {event.message}"
            case EventKind.NOTE if event.writer:
                self._doing[event.writer] = event.message
            case EventKind.NOTE:
                self._note = event.message
            case EventKind.JUDGED | EventKind.REUSED | EventKind.CONFIRMED:
                self._doing[event.writer] = _told(event, event.message)
        if entry:
            self._judged += 1
            self._latest = [*self._latest, entry][-LATEST:]
            if _speedup(entry) > (_speedup(self._best) if self._best else 0.0):
                self._best = entry

    def _draw(self) -> RenderableType:
        with self._lock:
            left_s = self._ends_at - time.monotonic()
            clock = f"{_clock(left_s)} left" if left_s >= 0 else f"{_clock(-left_s)} past the budget, finishing"
            head = Text(f"{self._title}   {clock}   {self._judged} judged   ", style="bold")
            if self._best:
                head.append(
                    f"best so far {_speedup(self._best):.2f}x ({self._best.candidate.title})", style="bold green"
                )
            writers = Table.grid(padding=(0, 2), expand=True)
            writers.add_column(style="bold", no_wrap=True, min_width=max(map(len, self._doing), default=0))
            writers.add_column(overflow="ellipsis", no_wrap=True, ratio=1)
            for writer, doing in self._doing.items():
                writers.add_row(writer, doing.splitlines()[0] if doing else "")
            latest = Table(box=None, padding=(0, 2), header_style="dim")
            for title in ("latest", "verdict", "us", "speedup"):
                latest.add_column(title, no_wrap=True, justify="right" if title in ("us", "speedup") else "left")
            for entry in self._latest:
                latest.add_row(*_row(entry))
            parts: list[RenderableType] = [head, writers, *([latest] if self._latest else [])]
            if self._note:
                parts.append(Text(self._note, style="cyan"))
            return Group(*parts)


def _speedup(entry: Entry) -> float:
    """Over the fastest baseline; 0 for a baseline and for what cannot win."""
    best = entry.verdict.best_baseline
    if entry.candidate.baseline or best is None or entry.verdict.failed(Weight.BAR):
        return 0.0
    return best.speedup


def _told(event: Event, words: str) -> str:
    """`words` without the writer's name, which stands before them already."""
    return words.removeprefix(event.writer).lstrip(" :")


def _row(entry: Entry) -> tuple[Text, ...]:
    verdict = entry.verdict
    best = verdict.best_baseline
    return (
        Text(entry.candidate.title),
        Text(verdict.status.value, style="green" if verdict.status is Status.PASSED else "red"),
        Text(f"{verdict.timing.median_us:,.1f}" if verdict.timing else ""),
        Text(f"{best.speedup:.2f}x over {best.baseline}" if best else ""),
    )


def _line(event: Event) -> Text:
    line = Text(f"{event.at_s:7.1f} s  ", style="dim")
    words = f"{event.kind.value:<9} {event.writer:<10} {event.message}".rstrip()
    return line.append(words, style=_COLOURS.get(event.kind, "none"))


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
