"""ONNX graphs run by other people's runtimes, from torch tensors to torch tensors without a copy of them.

Each gets as many threads as torch and is used as its own users tune it: as a baseline it must not be slower than it has
to. Its idle threads may spin, as torch's do: the judge times by turns and stops the process whose turn it is not.
Without that ONNX Runtime took 127 -> 165 us for six layers of 128 x 128 on two cores, and 2.6 -> 2.8 ms of 512 x 512.
"""

# The runtimes are extras, and the check runs without them.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelwright.errors import MissingError

if TYPE_CHECKING:
    from torch import Tensor

    Run = Callable[[Sequence[Tensor]], list[Tensor]]


def _onnxruntime(graph: bytes, threads: int) -> "Run":
    import onnxruntime
    import torch
    from onnxruntime.capi import onnxruntime_pybind11_state as core
    from torch.utils.dlpack import from_dlpack

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        session: Any = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # a class of its own for each of its status codes
        raise MissingError(f"ONNX Runtime does not take the graph: {_words(error)}") from error
    # The public IOBinding costs as much again as a small call; this is what it calls.
    cpu = core.OrtDevice(core.OrtDevice.cpu(), core.OrtDevice.default_memory(), 0)
    inner = session._sess
    binding = core.SessionIOBinding(inner)
    elements = {getattr(torch, name): number for name, number in _ELEMENTS.items()}
    inputs = [item.name for item in session.get_inputs()]
    outputs = [item.name for item in session.get_outputs()]
    flags = [place for place, item in enumerate(session.get_outputs()) if item.type == "tensor(bool)"]

    def run(leaves: "Sequence[Tensor]") -> "list[Tensor]":
        held = [leaf.contiguous() for leaf in leaves]
        for name, leaf in zip(inputs, held, strict=True):
            binding.bind_input(name, cpu, elements[leaf.dtype], leaf.shape, leaf.data_ptr())
        for name in outputs:
            binding.bind_output(name, cpu)  # it allocates, from memory that it has kept since the last call
        inner.run_with_iobinding(binding, None)
        results = [from_dlpack(value.to_dlpack()) for value in binding.get_outputs()]
        for place in flags:  # versions before 1.26 or so hand them out as bytes
            results[place] = results[place].view(torch.bool)
        return results

    return run


def _openvino(graph: bytes, threads: int) -> "Run":
    import openvino
    import torch

    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        # Where the processor has bfloat16 it would compute float32 in that.
        "EXECUTION_MODE_HINT": "ACCURACY",
    }
    core = openvino.Core()
    try:
        compiled = core.compile_model(core.read_model(graph), "CPU", settings)
    except Exception as error:  # plain RuntimeErrors, and others of its own
        raise MissingError(f"OpenVINO does not take the graph: {_words(error)}") from error
    request = compiled.create_infer_request()
    types = {getattr(torch, name): getattr(openvino.Type, kind) for name, kind in _OPENVINO.items()}
    dtypes = {kind.get_type_name(): dtype for dtype, kind in types.items()}
    unknown = [item.element_type for item in compiled.outputs if item.element_type.get_type_name() not in dtypes]
    if unknown:
        raise MissingError(f"OpenVINO returns {unknown[0].get_type_name()}, which torch has not")
    outputs = [
        (dtypes[item.element_type.get_type_name()], None if item.partial_shape.is_dynamic else tuple(item.shape))
        for item in compiled.outputs
    ]

    def shared(tensor: "Tensor") -> Any:
        # NumPy knows no bfloat16, and needs only to know where the memory is.
        words = tensor.view(torch.int16) if tensor.dtype is torch.bfloat16 else tensor
        return openvino.Tensor(words.numpy(), tensor.shape, types[tensor.dtype])

    def run(leaves: "Sequence[Tensor]") -> "list[Tensor]":
        held = [leaf.contiguous() for leaf in leaves]
        for place, leaf in enumerate(held):
            request.set_input_tensor(place, shared(leaf))
        results: list[Any] = [None if shape is None else torch.empty(shape, dtype=dtype) for dtype, shape in outputs]
        for place, result in enumerate(results):
            if result is not None:
                request.set_output_tensor(place, shared(result))
        request.infer(share_outputs=True)
        for place, (dtype, shape) in enumerate(outputs):
            if shape is None:  # known only now, and the memory is the request's own
                found = request.get_output_tensor(place)
                results[place] = torch.empty(tuple(found.shape), dtype=dtype)
                found.copy_to(shared(results[place]))
        return results

    return run


def _words(error: Exception) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


_ELEMENTS = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "bfloat16": 16,
}
"""onnx.TensorProto.DataType of torch's dtypes."""

_OPENVINO = {
    "float32": "f32",
    "uint8": "u8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "bool": "boolean",
    "float16": "f16",
    "float64": "f64",
    "bfloat16": "bf16",
}

RUNTIMES: Mapping[str, Callable[[bytes, int], "Run"]] = {"onnxruntime": _onnxruntime, "openvino": _openvino}
