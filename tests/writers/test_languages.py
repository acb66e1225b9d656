import pytest

from kernelwright.writers.languages import language_of


@pytest.mark.parametrize(
    "text, language",
    [
        ("lib = kernelwright.compile(text, language='metal')", "metal"),
        ('lib = kernelwright.compile(text, language = "cuda")', "cuda"),
        ("lib = torch.mps.compile_shader(text)", "metal"),
        ("import torch\nimport triton\nimport triton.language as tl\n", "triton"),
        ("from triton import jit\n", "triton"),
        ("import tritonclient  # triton\n", "torch"),
        ("", "torch"),
    ],
)
def test_the_text_tells_the_language(text: str, language: str) -> None:
    assert language_of(text) == language
