"""Writes the C++ entries of a kernel file: for each kernel a METH_FASTCALL function that checks and launches."""

from collections.abc import Sequence

from kernelwright.targets.entry.signature import CPP, KernelSignature, Parameter

DTYPES = {
    "float32": "float32",
    "float64": "float64",
    "int64": "int64_",
    "int32": "int32_",
    "uint8": "uint8_",
    "bool": "bool_",
    "half": "half_",
    "bfloat16": "bfloat16_",
    "float16": "half_",
    "int8": "int8_",
    "int16": "int16_",
    "uint16": "uint16_",
    "uint32": "uint32_",
    "uint64": "uint64_",
}
"""The enum Dtype of runtime/entry.hpp by the names of types."""

ENTRY = "kernelwright_entry_"
"""Prefix of the entry of a kernel: PyObject* (PyObject* self, PyObject* const* arguments, ssize_t, PyObject* names)."""
ADDRESS = "kernelwright_address_"
"""Prefix of the exported variable that holds the address of a kernel."""


def entries(kernels: Sequence[KernelSignature], file: str) -> str:
    """The text to stand between the prelude and the kernels' own. A kernel whose definition does not fit its
    declaration here is an error of its own line in `file`."""
    return "\n".join(part for kernel in kernels for part in (_declaration(kernel, file), _entry(kernel)))


def _declaration(kernel: KernelSignature, file: str) -> str:
    types = ", ".join(parameter.cpp for parameter in kernel.parameters)
    # Hidden and under a name of its own: no kernel can stand in for a function of the process it is loaded into.
    return (
        f'#line {kernel.line} "{file}"\n'
        f'kernel __attribute__((visibility("hidden"))) void {kernel.name}({types})\n'
        f'__asm__("kernelwright_kernel_{kernel.name}");\n'
        '#line 1 "entries"'
    )


def _entry(kernel: KernelSignature) -> str:
    count = len(kernel.parameters)
    locals_ = [
        f"    {'void*' if p.pointer else CPP.get(p.type, p.type)} a{i};" for i, p in enumerate(kernel.parameters)
    ]
    checks = [_check(i, p) for i, p in enumerate(kernel.parameters)]
    values = ", ".join(f"({p.cpp})a{i}" for i, p in enumerate(kernel.parameters))
    condition = " && ".join([f"count == {count}", "!names", *checks, "!watched(seen)"])
    # Within the namespace and with the kernel's name qualified, so that it may be called anything: count, none, Seen.
    return "\n".join(
        [
            "namespace kernelwright {",
            'extern "C" __attribute__((visibility("default")))',
            f"void* {ENTRY}{kernel.name}(void* self, Object* const* arguments, int64 count, void* names) {{",
            "    Seen seen;",
            *locals_,
            f"    if ({condition}) {{",
            "        void* state = kernelwright_runtime->save_thread();",
            f"        ::{kernel.name}({values});",
            "        kernelwright_runtime->restore_thread(state);",
            "        return none();",
            "    }",
            "    return kernelwright_runtime->call(self, (void* const*)arguments, uint64(count), names);",
            "}",
            'extern "C" __attribute__((visibility("default")))',
            f"void* const {ADDRESS}{kernel.name} = (void*)&::{kernel.name};",
            "}",
        ]
    )


def _check(index: int, parameter: Parameter) -> str:
    if not parameter.pointer:
        return f"as_scalar(arguments[{index}], a{index})"
    write = "false" if parameter.const else "true"
    return f"as_pointer<Dtype::{DTYPES[parameter.type]}, {write}>(arguments[{index}], a{index}, seen)"
