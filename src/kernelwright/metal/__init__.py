"""Metal Shading Language on any machine: the front end, the shim that stands for Metal's headers, and its hosts.

import kernelwright.metal as metal
lib = metal.compile_shader(source)
lib.softmax(out, x, 1000, threads=(256 * rows,), group_size=(256,))
"""

from kernelwright.metal.library import Kernel, Library, compile_shader

__all__ = ["Kernel", "Library", "compile_shader"]
