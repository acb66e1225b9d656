"""What a child asks the judge for while it is constructed: builds."""

import json
import pickle
import time
from typing import Any

from kernelwright.errors import CompileError, KernelwrightError, MissingError
from kernelwright.records import BuildRequest, Problem, decode, encode
from kernelwright.targets import Broker, devices_of

_MOST_BUILDS = 64

_OUTSIDE = {"inductor": "Inductor compiles", "onnx": "the ONNX exporter takes"}
"""Languages whose broker runs the text itself, outside the sandbox."""


class Requests:
    """Answers one child, whose candidate is for `device`. `broker` serves builds, those in a language of _OUTSIDE only
    for the problem's own source, and those of another device's language never."""

    def __init__(self, problem: Problem, broker: Broker, device: str) -> None:
        self._problem, self._broker, self._device = problem, broker, device
        self._builds = 0
        self.build_s = 0.0
        """The broker's time so far."""

    def serve(self, message: dict[str, Any]) -> bytes | None:
        """The answer to a request; None for a message that is none."""
        if "build" not in message:
            return None
        self._builds += 1
        began = time.perf_counter()
        try:
            if self._builds > _MOST_BUILDS:
                raise CompileError(f"a candidate may compile at most {_MOST_BUILDS} sources")
            answer = encode(self._broker.build(self._request(message["build"])))
        except KernelwrightError as error:
            kind = "MissingError" if isinstance(error, MissingError) else "CompileError"
            answer = {"error": kind, "message": str(error)}
        finally:
            self.build_s += time.perf_counter() - began
        return pickle.dumps(answer)

    def _request(self, asked: Any) -> BuildRequest:
        try:
            request = decode(BuildRequest, asked)
        except (TypeError, ValueError, KeyError, AttributeError):
            raise CompileError("the request to compile is malformed") from None
        words = [request.language, request.source, *(word for option in request.options for word in option)]
        if not all(isinstance(word, str) for word in words):
            raise CompileError("the request to compile is malformed")
        devices = devices_of(request.language)
        if devices and self._device not in devices:
            raise CompileError(
                f"kernels in {request.language} run on {' and '.join(sorted(devices))}, and this candidate is for "
                f"{self._device}"
            )
        who = _OUTSIDE.get(request.language)
        if who and not self._asks_for_the_problem(request):
            raise CompileError(f"{who} the problem itself and nothing else: it runs that text outside")
        return request

    def _asks_for_the_problem(self, request: BuildRequest) -> bool:
        """Source, signature and numerics are the problem's own, so that a candidate cannot have a process without
        sandbox run or allocate what it likes."""
        own = {"signature": encode(self._problem.signature), "numerics": encode(self._problem.numerics)}
        try:
            asked = {name: json.loads(value) for name, value in request.options if name in own}
        except ValueError:
            return False
        return request.source == self._problem.source and all(asked[name] == own[name] for name in asked)
