"""Hostile text as text."""

from kernelwright.records import Candidate, SourceFile
from kernelwright.report.source import as_code, difference, highlight, shorten, visible


def candidate(**files: str) -> Candidate:
    return Candidate("w", "cpp@cpu", tuple(SourceFile(f"{name}.py", text) for name, text in files.items()))


def test_what_hides_is_written_out() -> None:
    assert visible("a\u202eb\x00c\ud800\u200bd") == "a‹U+202E›b‹U+0000›c‹U+D800›‹U+200B›d"
    assert visible("é 数 \t\n") == "é 数 \t\n"


def test_markup_is_escaped_in_every_language() -> None:
    for path in ("model.py", "k.cpp", "k.metal", "odd.name", "k.html"):
        html = highlight(path, "</script><script>alert(1)</script> <img src=x onerror=1> & \"'")
        assert "<script" not in html and "<img" not in html and "</script" not in html
    assert as_code("<b>\u202e") == "&lt;b&gt;‹U+202E›"


def test_highlighting_keeps_every_line() -> None:
    text = "\n\nimport torch\n\n\nx = 1\n"
    assert highlight("model.py", text).count("\n") == text.count("\n")


def test_a_diff_names_files_and_kinds() -> None:
    lines = difference(candidate(model="a\nb\n", old="x\n"), candidate(model="a\nc\n", new="y\n"))
    assert [(line.kind, line.text) for line in lines] == [
        ("file", "model.py"),
        ("place", "@@ -1,2 +1,2 @@"),
        ("same", " a"),
        ("drop", "-b"),
        ("add", "+c"),
        ("file", "new.py, new"),
        ("place", "@@ -0,0 +1 @@"),
        ("add", "+y"),
        ("file", "old.py, gone"),
        ("place", "@@ -1 +0,0 @@"),
        ("drop", "-x"),
    ]
    assert difference(candidate(model="a"), candidate(model="a")) == ()


def test_machine_made_text_is_cut() -> None:
    assert shorten("a\nb\n") == ("a\nb", 0)
    shown, left_out = shorten("line\n" * 4000)
    assert shown.count("\n") + 1 + left_out == 4000
    assert len(shorten("x" * 10**6)[0]) <= 120_000
