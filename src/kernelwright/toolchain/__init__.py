"""The compiler that comes with the package, and the instruction sets of this processor.

clang.compile_object(text, result, system="linux", arch="x86_64", features=features.features())
"""

from kernelwright.toolchain import clang, features

__all__ = ["clang", "features"]
