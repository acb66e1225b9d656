"""What bites in the languages that kernels may be written in, in our own words: notes/LANGUAGE.md."""

from importlib.resources import files

from kernelwright.records import Brief, Section

LANGUAGES = {
    "cpu": ("cpp",),
    "metal": ("metal",),
    "mps": ("metal",),
    "cuda": ("cuda", "triton"),
    "rocm": ("hip", "triton"),
    "xpu": ("sycl",),
    "sycl": ("sycl",),
}
"""By device, the language to write in first."""

DEVICES = {"cpp": "cpu", "metal": "metal", "cuda": "cuda", "triton": "cuda", "hip": "rocm", "sycl": "sycl"}


def languages_of(target: str) -> tuple[str, tuple[str, ...]]:
    """The device and the languages that are meant by a device, a language, or language@device."""
    language, at, device = target.partition("@")
    if at:
        return device, (language,)
    if target in LANGUAGES:
        return target, LANGUAGES[target]
    if target in DEVICES:
        return DEVICES[target], (target,)
    return target, ()


class LanguageSection:
    """Notes on each language of the brief."""

    name = "language"
    place = 15
    limit = 8_000

    def write(self, brief: Brief) -> Section | None:
        folder = files("kernelwright.context") / "notes"
        noted = [folder / f"{language}.md" for language in brief.languages if (folder / f"{language}.md").is_file()]
        if not noted:
            return None
        return Section(self.name, "Language", "\n\n".join(file.read_text(encoding="utf-8").strip() for file in noted))
