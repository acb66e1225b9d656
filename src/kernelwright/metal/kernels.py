"""Kernels as a source declares them: parameters with their bindings, instances by host_name, function constants."""

from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.metal import rules
from kernelwright.metal.attributes import BUILTINS, Attribute
from kernelwright.metal.tokens import Tokens, separated, words
from kernelwright.simt.unit import Entry, Parameter

_BYTES = {
    **dict.fromkeys(("bool", "char", "uchar", "int8_t", "uint8_t"), 1),
    **dict.fromkeys(("short", "ushort", "int16_t", "uint16_t", "half", "bfloat"), 2),
    **dict.fromkeys(("int", "uint", "int32_t", "uint32_t", "float", "atomic_int", "atomic_uint", "atomic_float"), 4),
    **dict.fromkeys(("long", "ulong", "int64_t", "uint64_t", "size_t", "atomic_ulong"), 8),
}


@dataclass(frozen=True)
class Constant:
    """A function constant; `given` tells whether this compilation has a value for it."""

    name: str
    number: int
    type: str
    given: bool


@dataclass(frozen=True)
class Kernel:
    """A kernel function by its qualified name. `optional` holds buffers that a function constant may leave out."""

    name: str
    parameters: tuple[Parameter, ...]
    template: bool
    max_threads: int | None


@dataclass(frozen=True)
class Instance:
    """An instantiation under a name of its own. `function` is a C++ expression, `template` the name of its kernel.

    `types` are its parameters where they alone say which function it is. `at` is the token it starts with.
    """

    name: str
    template: str
    path: str
    function: str
    types: str | None
    at: int


def parameters(
    tokens: Tokens,
    bracket: int,
    close: int,
    kernel: str,
    attributes: Callable[[int, int], list[Attribute]],
) -> tuple[Parameter, ...]:
    """The parameters between two brackets. Raises CompileError where one has no binding or a wrong one."""
    found: list[Parameter] = []
    taken: set[tuple[str, int]] = set()
    ranges = separated(tokens, bracket + 1, close - 1)
    held = [attributes(first, last) for first, last in ranges]
    for (first, last), own in zip(ranges, held, strict=True):
        found.append(_parameter(tokens, first, last, kernel, own, taken))
    return tuple(found)


def entries(tokens: Tokens, kernels: dict[str, list[Kernel]], instances: list[Instance]) -> tuple[Entry, ...]:
    """Everything that can be launched. Raises CompileError for an instance of no kernel, or a name used twice."""
    found: dict[str, Entry] = {}
    for overloads in kernels.values():
        for kernel in overloads:
            if not kernel.template:
                found[kernel.name] = Entry(kernel.name, kernel.name, kernel.parameters, 0, kernel.max_threads)
    for instance in instances:
        overloads = kernels.get(f"{instance.path}{instance.template}") or kernels.get(instance.template)
        if not overloads:
            raise tokens.error(instance.at, f"{instance.template} is no kernel of this source")
        kernel = overloads[0]
        if len(overloads) > 1 and len({tuple(_shape(p) for p in k.parameters) for k in overloads}) > 1:
            raise tokens.error(
                instance.at,
                f"several kernels are called {instance.template} and bind different parameters, which is not hosted: "
                "give them names of their own",
            )
        function = f"{instance.path}{instance.function}"
        if instance.types is not None:
            function = f"*static_cast<void (*)({instance.types})>(&{function})"
        found[instance.name] = Entry(instance.name, function, kernel.parameters, 0, kernel.max_threads)
    return tuple(found.values())


def _shape(parameter: Parameter) -> tuple[str, int, str]:
    return parameter.kind, parameter.index, parameter.builtin


def _parameter(
    tokens: Tokens, first: int, last: int, kernel: str, held: list[Attribute], taken: set[tuple[str, int]]
) -> Parameter:
    kept = [i for i in words(tokens, first, last) if tokens.items[i]]
    depth = next((k for k, i in enumerate(kept) if tokens[i] == "["), len(kept))
    name_at = kept[depth - 1]
    name = tokens[name_at]
    type_words = [tokens[i] for i in kept[: depth - 1]]
    cpp_type = _spelled(type_words)
    pointer = "*" in type_words or "&" in type_words or depth < len(kept)
    builtin = next((a for a in held if a.name in BUILTINS), None)
    if builtin:
        return Parameter(name, "builtin", 0, cpp_type, BUILTINS[builtin.name])
    if not pointer:
        raise tokens.error(
            name_at, f"{name} of kernel {kernel} is neither a buffer nor has an attribute that says what it is"
        )
    spaces = {"device", "constant", "threadgroup"} & set(type_words)
    if not spaces:
        raise tokens.error(
            name_at, f"{name} of kernel {kernel} needs an address space: device, constant or threadgroup"
        )
    kind = "group_memory" if "threadgroup" in spaces else "buffer"
    bound = next((a for a in held if a.name in ("buffer", "threadgroup")), None)
    if bound is None:
        index = next(i for i in range(len(taken) + 1) if (kind, i) not in taken)
    elif bound.number is None:
        raise tokens.error(bound.index, f"{bound.name}({bound.argument}) is not a number")
    else:
        index = bound.number
    if kind == "buffer" and index >= rules.BUFFERS:
        raise tokens.error(
            name_at, f"{name} of kernel {kernel} is buffer {index}; a kernel has {rules.BUFFERS} buffers, 0 to 30"
        )
    if (kind, index) in taken:
        raise tokens.error(
            name_at, f"{name} of kernel {kernel} binds {bound.name if bound else kind} {index} a second time"
        )
    taken.add((kind, index))
    writable = "constant" not in spaces and "const" not in type_words
    pointee = next((word for word in type_words if word in _BYTES or _lanes(word)), "")
    return Parameter(name, kind, index, cpp_type, "", writable, _size(pointee))


def _lanes(word: str) -> bool:
    return word[:-1] in _BYTES and word[-1:] in "234"


def _size(word: str) -> int:
    if word in _BYTES:
        return _BYTES[word]
    return _BYTES[word[:-1]] * {"2": 2, "3": 4, "4": 4}[word[-1]] if word else 0


def _spelled(words: list[str]) -> str:
    text = " ".join(words)
    for mark in ("<", ">", "::", ","):
        text = text.replace(f" {mark}", mark)
    return text.replace("< ", "<").replace(":: ", "::")
