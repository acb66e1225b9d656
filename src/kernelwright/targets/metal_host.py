"""A machine without Metal that a candidate takes for a Mac.

    with hosting():
        module = ModelNew()                # torch.empty(n, device="mps"), torch.mps.compile_shader(text), ...
    module = housed(module)                # its inputs are on "mps" for it, and so must its results be

Tensors lie in the host's memory and computing is the host's. Which device the candidate sees them on is kept at their
storage, so that views, parameters and aliases agree. What torch refuses on a Mac is refused in torch's own words:
float64, operators without a Metal kernel, tensors of two devices in one operator. Code that asks (`x.device.type`,
`x.is_mps`, torch.backends.mps) is answered as on a Mac. What torch.mps offers beyond that raises MissingError.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.errors import LaunchError, MissingError
from kernelwright.targets.metal_lacking import lacks
from kernelwright.targets.metal_shims import shimmed

_HOST = torch.device("cpu")
_DEVICE = torch.device("mps", 0)
_MARK = "_kernelwright_on_mps"
_DOUBLES = (torch.float64, torch.complex128)

_depth = 0


def active() -> bool:
    """Whether a candidate's code is running that takes this machine for a Mac."""
    return _depth > 0


@contextlib.contextmanager
def hosting() -> Iterator[None]:
    """Inside, this process is a Mac for whoever calls torch on this thread."""
    global _depth
    with shimmed(), _Operators(), _Functions():
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1


def on_mps(tensor: torch.Tensor) -> bool:
    """Whether the candidate sees it on "mps"."""
    with torch._C.DisableTorchFunction():
        try:
            return hasattr(tensor.untyped_storage(), _MARK)
        except (NotImplementedError, RuntimeError):  # sparse, or meta: it has no storage
            return False


def put(tensor: torch.Tensor, there: bool = True) -> None:
    """Has the candidate see it, and whatever shares its memory, on "mps" or not. Raises TypeError for float64."""
    with torch._C.DisableTorchFunction():
        if there and tensor.dtype in _DOUBLES:
            name = str(tensor.dtype).removeprefix("torch.")
            raise TypeError(
                f"Cannot convert a MPS Tensor to {name} dtype as the MPS framework doesn't support {name}. "
                f"Please use {'float32' if name == 'float64' else 'complex64'} instead."
            )
        with contextlib.suppress(NotImplementedError, RuntimeError, AttributeError):
            storage = tensor.untyped_storage()
            setattr(storage, _MARK, True) if there else delattr(storage, _MARK)


def housed(module: torch.nn.Module) -> torch.nn.Module:
    """The module, moved to "mps", whose calls, weights and prepare() are hosted from now on.

    Its class becomes one of the same name below its own, so that it stays itself in every other way.
    """
    kind: Any = type(module)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        for place, leaf in enumerate(_tensors((args, kwargs))):
            if leaf.dtype in _DOUBLES:
                name = str(leaf.dtype).removeprefix("torch.")
                raise MissingError(f"input {place} is {name}, and Metal has no {name}: no Mac could be given it")
            put(leaf)
        with hosting():
            result = kind.__call__(self, *args, **kwargs)
        for place, leaf in enumerate(_tensors(result)):
            if not on_mps(leaf):
                raise LaunchError(
                    f"output {place} lies on cpu; on a Mac the result has to be on mps, as the inputs are"
                )
        return result

    def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        with hosting():
            return kind.load_state_dict(self, *args, **kwargs)

    def prepare(self: Any) -> Any:
        with hosting():
            return kind.prepare(self)

    body: dict[str, Any] = {"__call__": call, "load_state_dict": load_state_dict, "__module__": kind.__module__}
    if callable(getattr(kind, "prepare", None)):
        body["prepare"] = prepare
    with hosting():
        module.to("mps")
    object.__setattr__(module, "__class__", type(kind.__name__, (kind,), body))
    return module


def carried(module: torch.nn.Module, device: str = "mps") -> torch.nn.Module:
    """On a Mac: the module on `device`, its arguments taken there and its results back to the CPU, in no kernel's time.

    The module's state_dict stays on the device.
    """
    kind: Any = type(module)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = _each((args, kwargs), lambda tensor: tensor.to(device))
        return _each(kind.__call__(self, *args, **kwargs), lambda tensor: tensor.cpu())

    module.to(device)
    object.__setattr__(module, "__class__", type(kind.__name__, (kind,), {"__call__": call}))
    return module


def _each(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: _each(part, change) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_each(part, change) for part in value)
    return value


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)


def _is_mps(device: Any) -> bool:
    return str(device).partition(":")[0] == "mps"


def _mark(results: Any) -> None:
    for leaf in _tensors(results):
        put(leaf)


class _Operators(TorchDispatchMode):
    """Operators as torch's dispatcher sees them: what comes of a tensor on mps is on mps."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or the first operator would import torch's compiler, for seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        there = any(map(on_mps, _tensors((args, kwargs))))
        if there and lacks(func.name()):
            raise NotImplementedError(
                f"The operator '{func.name()}' is not currently implemented for the MPS device (as torch "
                f"{torch.__version__} says of a Mac)"
            )
        if kwargs.get("device") is not None and _is_mps(kwargs["device"]):
            kwargs["device"], there = _HOST, True
        result = func(*args, **kwargs)
        if there:
            _mark(result)
        return result


class _Functions(TorchFunctionMode):
    """Calls as the candidate writes them: where it asks for a device, and where it asks which."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.device:
            return func(*args, **kwargs)
        if func in _ANSWERS:
            return _ANSWERS[func](args[0])
        given = list(_tensors((args, kwargs)))
        on = [on_mps(tensor) for tensor in given]
        if func in _TO_HOST and on and on[0]:
            raise TypeError(
                "can't convert mps:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
                "first."
            )
        wanted = _wanted(func, args, kwargs)
        if wanted is None and any(on):
            self._refuse_mixed(func, given, on)
            wanted = True if func not in _PLAIN else None
        args, kwargs = _translated(func, args, kwargs)
        result = func(*args, **kwargs)
        return result if wanted is None else _moved(result, wanted, given)

    def _refuse_mixed(self, func: Any, given: list[torch.Tensor], on: list[bool]) -> None:
        """Numbers in tensors without dimensions may come from the CPU, and some functions copy between devices."""
        name = getattr(func, "__name__", "")
        if name not in _BETWEEN and any(not there and one.dim() for one, there in zip(given, on, strict=True)):
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, mps:0 and cpu! (when "
                f"calling {name})"
            )


def _wanted(func: Any, args: Any, kwargs: dict[str, Any]) -> bool | None:
    """Whether the result is asked for on mps (True) or elsewhere (False); None where nothing is asked for."""
    if func is torch.Tensor.cpu:
        return False
    if func is torch.Tensor.to:
        other = args[1] if len(args) > 1 else kwargs.get("other")
        if isinstance(other, torch.Tensor):
            return on_mps(other)
        if isinstance(other, (str, torch.device)):
            return _is_mps(other)
    if kwargs.get("device") is not None:
        return _is_mps(kwargs["device"])
    return next((_is_mps(value) for value in args if isinstance(value, torch.device)), None)


def _translated(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call with the host where it says mps."""
    words = func is torch.Tensor.to
    given = tuple(
        _HOST if isinstance(value, (torch.device, str) if words else torch.device) and _is_mps(value) else value
        for value in args
    )
    if kwargs.get("device") is not None and _is_mps(kwargs["device"]):
        kwargs = {**kwargs, "device": _HOST}
    return given, kwargs


def _moved(result: Any, wanted: bool, given: Iterable[torch.Tensor]) -> Any:
    """The result on the wanted device: in memory of its own where it came from the other one."""
    if isinstance(result, torch.Tensor):
        if on_mps(result) == wanted:
            return result
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            shared = any(result is one or _shares(result, one) for one in given)
            moved = result.clone() if shared else result
        put(moved, wanted)
        return moved
    if isinstance(result, (list, tuple)) and any(isinstance(part, torch.Tensor) for part in result):
        parts = [_moved(part, wanted, given) for part in result]
        if isinstance(result, tuple) and type(result) is not tuple:
            return type(result)(parts)  # as torch.return_types.max
        return type(result)(parts)
    return result


def _shares(one: torch.Tensor, other: torch.Tensor) -> bool:
    try:
        return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):
        return False


def _getter(name: str) -> Any:
    return getattr(torch.Tensor, name).__get__


_ANSWERS: dict[Any, Any] = {
    _getter("device"): lambda tensor: _DEVICE if on_mps(tensor) else _HOST,
    _getter("is_mps"): on_mps,
    _getter("is_cpu"): lambda tensor: not on_mps(tensor),
    torch.Tensor.get_device: lambda tensor: 0 if on_mps(tensor) else -1,
}
_TO_HOST = frozenset({torch.Tensor.numpy, torch.Tensor.__array__})
_PLAIN = frozenset({_getter("grad"), torch.Tensor.item, torch.Tensor.tolist})
"""What has tensors in and gives nothing that lies on a device, or something with a device of its own."""
_BETWEEN = frozenset({
    "copy_", "__set__", "__setitem__", "__getitem__", "index_put_", "to", "type_as",
    "_has_compatible_shallow_copy_type",
})  # fmt: skip
"""Functions that take tensors of two devices on a Mac too."""
