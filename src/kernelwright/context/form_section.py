"""What a candidate looks like, and what is done with it: notes/form.md."""

from importlib.resources import files

from kernelwright.records import Brief, Section

_ENDINGS = {"cuda": "cu", "triton": "py"}


class FormSection:
    """The form of a candidate, and what the judge will do with it."""

    name = "form"
    place = 5
    limit = 3_000

    def write(self, brief: Brief) -> Section:
        language = next(iter(brief.languages), "cpp")
        text = (files("kernelwright.context") / "notes" / "form.md").read_text(encoding="utf-8")
        text = text.replace("@LANGUAGE@", language).replace("@ENDING@", _ENDINGS.get(language, language))
        return Section(self.name, "What to write", text.strip())
