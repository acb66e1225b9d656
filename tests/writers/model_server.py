"""A server that speaks as OpenAI, DeepSeek and Anthropic do, and answers from a script: also wrongly, late, or not."""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What the server does with one question."""

    text: str = "hello"
    kind: str = "reply"
    """"reply", "cut" (the connection ends in mid-stream), "bad_json", "refusal", "length", "endless", or a status."""
    input_tokens: int = 100
    output_tokens: int = 20
    cached_tokens: int = 0
    retry_after: str | None = None
    pause_s: float = 0.0
    """Between the parts of a stream."""


class ModelServer:
    """Answers each model's questions in order; the last answer stands for all that follow."""

    def __init__(self, script: dict[str, Sequence[Answer]]) -> None:
        self.script = {name: list(answers) for name, answers in script.items()}
        self.asked: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.keys: set[str] = set()
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                outer._serve(self)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        asked = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        name = asked["model"]
        with self._lock:
            key = handler.headers.get("x-api-key")
            self.keys.add(f"Bearer {key}" if key else handler.headers.get("Authorization", ""))
            answers = self.script[name]
            answer = answers[min(len(self.asked[name]), len(answers) - 1)]
            self.asked[name].append(asked)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if answer.kind.isdigit():
                self._refuse(handler, answer)
            else:
                self._stream(handler, answer, _anthropic if handler.path.endswith("/messages") else _openai)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with self._lock:
                self.at_once -= 1

    def _refuse(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        body = json.dumps({"error": {"type": "error", "message": f"scripted {answer.kind}"}}).encode()
        handler.send_response(int(answer.kind))
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        if answer.retry_after is not None:
            handler.send_header("Retry-After", answer.retry_after)
        handler.end_headers()
        handler.wfile.write(body)

    def _stream(self, handler: BaseHTTPRequestHandler, answer: Answer, protocol: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        for event in protocol(answer):
            handler.wfile.write(event.encode())
            handler.wfile.flush()
            time.sleep(answer.pause_s)
        handler.close_connection = True


def _parts(answer: Answer) -> Iterator[str]:
    if answer.kind == "endless":
        while True:
            yield "x" * 4096
    size = max(1, len(answer.text) // 4)
    pieces = [answer.text[place : place + size] for place in range(0, len(answer.text), size)]
    yield from pieces[:2] if answer.kind == "cut" else pieces


def _openai(answer: Answer) -> Iterator[str]:
    def chunk(**values: Any) -> str:
        told = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], **values}
        return f"data: {json.dumps(told)}\n\n"

    def choice(delta: dict[str, Any], finish: str | None = None) -> list[dict[str, Any]]:
        return [{"index": 0, "delta": delta, "finish_reason": finish}]

    yield chunk(choices=choice({"role": "assistant", "content": ""}))
    for part in _parts(answer):
        yield chunk(choices=choice({"content": part}))
    if answer.kind == "bad_json":
        yield "data: {not json\n\n"
    if answer.kind == "cut":
        return
    finish = {"refusal": "content_filter", "length": "length"}.get(answer.kind, "stop")
    yield chunk(choices=choice({}, finish))
    usage = {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }
    yield chunk(usage=usage)
    yield "data: [DONE]\n\n"


def _anthropic(answer: Answer) -> Iterator[str]:
    def event(kind: str, **values: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **values})}\n\n"

    usage = {
        "input_tokens": answer.input_tokens - answer.cached_tokens,
        "output_tokens": 1,
        "cache_read_input_tokens": answer.cached_tokens,
        "cache_creation_input_tokens": 0,
    }
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    yield event("message_start", message={**message, "stop_sequence": None, "usage": usage})
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for part in _parts(answer):
        yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": part})
    if answer.kind == "bad_json":
        yield "event: content_block_delta\ndata: {not json\n\n"
    if answer.kind == "cut":
        return
    yield event("content_block_stop", index=0)
    finish = {"refusal": "refusal", "length": "max_tokens"}.get(answer.kind, "end_turn")
    ended = {"stop_reason": finish, "stop_sequence": None}
    yield event("message_delta", delta=ended, usage={**usage, "output_tokens": answer.output_tokens})
    yield event("message_stop")


@contextmanager
def serving(**script: Sequence[Answer] | Answer) -> Iterator[ModelServer]:
    """A server for the models of these names (`_` stands for `-`), until the end of the block."""
    listed = {name.replace("_", "-"): [it] if isinstance(it, Answer) else it for name, it in script.items()}
    server = ModelServer(listed)
    try:
        yield server
    finally:
        server.close()
