"""The pages: whole in themselves, safe with hostile text, readable by everyone, and drawn by a real browser."""

import html
import itertools
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kernelwright.records import Outcome, Range, TensorSpec
from kernelwright.report import write_bench_html, write_html

CSS = Path(__file__).parents[2] / "src/kernelwright/report/templates/page.css"
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", MAC))), None)


class Reading(HTMLParser):
    """What a browser would make of the page, as far as the tests ask."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture
def page(outcome: Outcome, tmp_path: Path) -> Path:
    return write_html(outcome, tmp_path / "deep" / "run.html")


@pytest.fixture
def pages(page: Path, fruitless: Outcome, outcome: Outcome, rows, tmp_path: Path) -> list[Path]:
    """Every kind of page there is."""
    empty = replace(outcome, entries=(), best=None, reason="interrupted before anything was judged", interrupted=True)
    wide = replace(outcome.entries[3], candidate=replace(outcome.entries[3].candidate, label="x" * 200, note="y" * 400))
    environment = outcome.best.verdict.environment
    return [
        page,
        write_html(fruitless, tmp_path / "fruitless.html"),
        write_html(empty, tmp_path / "empty.html"),
        write_html(replace(outcome, entries=(*outcome.entries, wide)), tmp_path / "wide.html"),
        write_bench_html(rows, tmp_path / "bench.html", title="KernelBench", environment=environment),
        write_bench_html((), tmp_path / "no-bench.html"),
    ]


def test_the_page_says_what_was_found(page: Path) -> None:
    text = Reading(page.read_text(encoding="utf-8")).text
    for words in (
        "1.83×",
        "torch.compile max-autotune",
        "✓ confirmed",
        "AMD EPYC 9R14, 2 threads",
        "pays back after",
        "fixed shape",
        "heavy-tailed",
        "use of undeclared identifier",
        "tinygrad is not installed",
        "What changed from algebra sdpa",
        "image_height",
        "15.0 MiB",
        "OMP_NUM_THREADS=2",
    ):
        assert words in text, words


def test_a_run_without_a_winner_says_so(fruitless: Outcome, tmp_path: Path) -> None:
    text = Reading(write_html(fruitless, tmp_path / "a.html").read_text()).text
    assert "The original is returned." in text and "no candidate beat eager" in text
    assert "torch.compile was not measured: no g++ on this machine" in text


def test_failed_findings_come_before_what_passed(page: Path) -> None:
    text = page.read_text()
    card = text[text.index("template fp16 scores</h3>") :]
    assert card.index("heavy-tailed") < card.index("check passed")


def test_hostile_text_stays_text(hostile: Outcome, tmp_path: Path) -> None:
    text = write_html(hostile, tmp_path / "hostile.html").read_text(encoding="utf-8")
    read = Reading(text)
    assert read.count("script") == 1 and read.count("img") == 0 and read.count("b\u202e") == 0
    assert text.count("</script>") == 1
    assert "\u202e" not in text and "\x00" not in text and "{{ 7001*9 }}" in read.text and "63009" not in read.text


def test_nothing_is_fetched(pages: list[Path]) -> None:
    for path in pages:
        text = path.read_text(encoding="utf-8")
        read = Reading(text)
        for tag, attributes in read.tags:
            assert tag not in ("link", "iframe", "object", "embed", "base", "form"), path
            assert not attributes.keys() & {"src", "srcset", "action", "data", "style", "onclick", "onload"}, path
            assert (attributes.get("href") or "#").startswith("#"), path
        assert "url(" not in text and "@import" not in text
        assert any("default-src 'none'" in (attributes.get("content") or "") for _, attributes in read.tags)


def test_headings_step_down_one_at_a_time(pages: list[Path]) -> None:
    for path in pages:
        read = Reading(path.read_text(encoding="utf-8"))
        levels = [int(tag[1]) for tag, _ in read.tags if re.fullmatch(r"h[1-6]", tag)]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), path
        assert all(attributes.get("scope") for tag, attributes in read.tags if tag == "th")
        assert all(
            attributes.get("aria-label") or attributes.get("aria-hidden")
            for tag, attributes in read.tags
            if tag == "svg"
        )


def test_links_and_names_meet(page: Path) -> None:
    read = Reading(page.read_text())
    names = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(names) == len(set(names))
    links = [attributes["href"] for tag, attributes in read.tags if tag == "a"]
    assert links and all(link[1:] in names for link in links if link)


def test_an_open_contract_is_shown(outcome: Outcome, tmp_path: Path) -> None:
    signature = replace(outcome.problem.signature, tensors=(TensorSpec("x", "float32", (Range(1, 8, 4), 512)),))
    changed = replace(outcome, problem=replace(outcome.problem, signature=signature))
    assert "float32 [1..8, 512]" in write_html(changed, tmp_path / "a.html").read_text()


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("front", "backs"),
    [
        ("ink", "paper panel wash add drop"),
        ("soft", "paper panel wash"),
        ("accent", "paper panel accent-wash"),
        ("bad", "paper panel bad-wash"),
        ("label", "label-wash"),
        *[(name, "wash") for name in ("keyword", "string", "number", "name", "comment")],
    ],
)
def test_contrast_is_enough(scheme: str, front: str, backs: str) -> None:
    """WCAG 2.2 AA: 4.5 to 1 for text."""
    light, dark = CSS.read_text().split("@media screen and (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark.split("\n}\n")[0]))
    for back in backs.split():
        lighter, darker = sorted((luminance(colours[front]), luminance(colours[back])), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, f"{front} on {back}"


MEASURE = """
<script>
onload = () => {
  const seen = [...document.querySelectorAll("iframe")].map((frame) => {
    const page = frame.contentDocument;
    for (const item of page.querySelectorAll("details")) item.open = true;
    return {
      page: page.title,
      wide: page.documentElement.scrollWidth,
      tall: page.documentElement.scrollHeight,
      heading: page.querySelector("h1").getBoundingClientRect().height,
      paper: page.defaultView.getComputedStyle(page.body).backgroundColor,
    };
  });
  document.title = JSON.stringify(seen);
};
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium")
@pytest.mark.parametrize(("width", "dark"), [(390, False), (1100, True)])
def test_a_browser_draws_them_all(pages: list[Path], hostile: Outcome, tmp_path: Path, width: int, dark: bool) -> None:
    """No word on the console, and no scrolling sideways with everything open."""
    paths = [*pages, write_html(hostile, tmp_path / "hostile.html")]
    frames = [
        f'<iframe src="{path.as_uri()}" style="width:{width}px;height:800px;border:0"></iframe>' for path in paths
    ]
    around = tmp_path / "around.html"
    around.write_text("<!doctype html>" + "".join(frames) + MEASURE)
    done = subprocess.run(
        [
            str(BROWSER),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--allow-file-access-from-files",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--window-size=1200,900",
            "--dump-dom",
            around.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stderr[-2000:]
    measured = json.loads(html.unescape(title[1]))
    assert len(measured) == len(paths)
    for path, seen in zip(paths, measured, strict=True):
        assert seen["wide"] <= width, (path, seen)
        assert seen["tall"] > 300 and seen["heading"] > 10 and "Kernelwright" in seen["page"]
        assert seen["paper"] == ("rgb(19, 21, 24)" if dark else "rgb(252, 252, 250)")
