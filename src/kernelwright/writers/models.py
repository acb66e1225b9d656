"""The one file that speaks to language models. pydantic-ai is imported where a question is asked, and nowhere else.

A model is named "vendor:name", or "openai:http://host:port/v1#name" for any server that speaks OpenAI's protocol
(Ollama, vLLM, LM Studio, llama.cpp); "auto" is every vendor whose key is in the environment. Keys are read here and
passed on to nobody: candidates are judged in processes that do not have them.
"""

import asyncio
import base64
import importlib
import os
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from kernelwright.errors import KernelwrightError, MissingError, UsageError
from kernelwright.records import Picture

CHARACTERS_PER_TOKEN = 3.5
"""An estimate that errs on the side of more tokens for code, for what a vendor does not count itself."""


@dataclass(frozen=True)
class Vendor:
    """Where a vendor's models are reached."""

    keys: tuple[str, ...]
    """Names of the environment variables that may hold its key."""
    protocol: str
    """"openai" or "anthropic"."""
    url: str | None
    """None: the client's own."""
    models: tuple[str, ...]
    """What "auto" asks, November 2026."""


VENDORS: Mapping[str, Vendor] = {
    "anthropic": Vendor(("ANTHROPIC_API_KEY",), "anthropic", None, ("claude-opus-5-5", "claude-sonnet-5-5")),
    "openai": Vendor(("OPENAI_API_KEY",), "openai", None, ("gpt-6.1-sol", "gpt-5.5")),
    "deepseek": Vendor(
        ("DEEPSEEK_API_KEY",), "openai", "https://api.deepseek.com", ("deepseek-v4-pro", "deepseek-reasoner")
    ),
    "google": Vendor(
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "openai",
        "https://generativelanguage.googleapis.com/v1beta/openai/",
        ("gemini-3.1-pro-preview", "gemini-3.8-flash"),
    ),
    "openrouter": Vendor(("OPENROUTER_API_KEY",), "openai", "https://openrouter.ai/api/v1", ()),
}


@dataclass(frozen=True)
class Prompt:
    """What is asked."""

    system: str
    text: str
    pictures: tuple[Picture, ...] = ()
    max_tokens: int = 16_000
    """Of the reply, thoughts included."""

    @property
    def estimated_tokens(self) -> int:
        return int((len(self.system) + len(self.text)) / CHARACTERS_PER_TOKEN) + 1_600 * len(self.pictures) + 50


@dataclass(frozen=True)
class Used:
    """What an answer cost. Adds up."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    measured: bool = True
    """Whether the vendor counted; estimated otherwise."""

    def __add__(self, other: "Used") -> "Used":
        known = [used.cost_usd for used in (self, other) if used.cost_usd is not None]
        return Used(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            sum(known) if known else None,
            self.measured and other.measured,
        )


@dataclass(frozen=True)
class Reply:
    """What came back."""

    text: str
    finish: str
    """"stop", "length", "refusal" or "overlong"."""
    used: Used
    """Tries that failed included."""
    waited_s: float = 0.0
    retries: int = 0


class ModelTrouble(KernelwrightError):
    """A model gave no answer."""

    def __init__(self, message: str, passing: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.passing, self.retry_after_s = passing, retry_after_s
        self.used, self.waited_s, self.retries = Used(), 0.0, 0


class Model(Protocol):
    """Answers questions. Tests have one that reads its answers from a list."""

    name: str

    async def ask(self, prompt: Prompt, tell: Callable[[str], None]) -> Reply:
        """The answer; `tell` hears of waiting. Raises ModelTrouble."""
        ...

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """US dollars for so many tokens; None where no price is known."""
        ...

    @property
    def free(self) -> bool:
        """Whether it is a server of one's own, which costs no money."""
        ...


@dataclass(frozen=True)
class Patience:
    """How long a vendor is waited for."""

    read_s: float = 180.0
    """Without a word in an open stream."""
    total_s: float = 1200.0
    tries: int = 5
    longest_wait_s: float = 120.0
    first_wait_s: float = 2.0


def named_models(text: str, environment: Mapping[str, str] = os.environ) -> tuple["RemoteModel", ...]:
    """The models of a list like "auto,openai:http://localhost:8080/v1#name". Raises UsageError for a bad name."""
    found: dict[str, RemoteModel] = {}
    for written in (part.strip() for part in text.split(",")):
        if not written:
            continue
        for model in _auto(environment) if written == "auto" else [_named(written, environment)]:
            found.setdefault(model.name, model)
    return tuple(found.values())


def missing(models: Sequence[Model]) -> str | None:
    """Why these cannot be asked here; None if they can."""
    if not models:
        keys = ", ".join(key for vendor in VENDORS.values() for key in vendor.keys)
        return (
            f"no language model is at hand: set a key ({keys}), or name a server of your own with "
            "--models openai:http://localhost:8080/v1#name"
        )
    try:
        import pydantic_ai.models.openai  # noqa: F401
    except ImportError:
        return "language models need pydantic-ai-slim: pip install 'kernelwright[llm]'"
    return None


def _auto(environment: Mapping[str, str]) -> list["RemoteModel"]:
    return [
        _named(f"{name}:{model}", environment)
        for name, vendor in VENDORS.items()
        if any(environment.get(key) for key in vendor.keys)
        for model in vendor.models
    ]


def _named(written: str, environment: Mapping[str, str]) -> "RemoteModel":
    vendor_name, colon, rest = written.partition(":")
    if not colon or vendor_name not in VENDORS or not rest:
        raise UsageError(
            f"{written!r} names no model; write VENDOR:NAME with one of {', '.join(VENDORS)}, "
            'or "openai:http://host:port/v1#NAME" for a server'
        )
    vendor = VENDORS[vendor_name]
    key = next((environment[key] for key in vendor.keys if environment.get(key)), "")
    if "://" in rest:
        url, hash_, name = rest.rpartition("#")
        if not hash_ or not url or not name:
            raise UsageError(f"{written!r} names a server and no model; write {vendor_name}:{rest}#NAME")
        return RemoteModel(f"{vendor_name}:{name}@{_host(url)}", vendor_name, name, url, key or "none", own=True)
    if not key:
        raise UsageError(f"{written!r} needs a key: set {' or '.join(vendor.keys)}")
    url = environment.get(f"{vendor_name.upper()}_BASE_URL") or vendor.url
    return RemoteModel(written, vendor_name, rest, url, key)


def _host(url: str) -> str:
    return re.sub(r"^\w+://([^/@]*@)?", "", url).partition("/")[0]


@dataclass
class RemoteModel:
    """A model behind HTTP."""

    name: str
    vendor: str
    model: str
    url: str | None
    key: str = field(repr=False)
    own: bool = False
    """A server of one's own, without a price."""
    patience: Patience = Patience()

    @property
    def free(self) -> bool:
        return self.own

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        if self.own:
            return None
        with suppress(ImportError, LookupError, ValueError):
            from genai_prices import Usage, calc_price

            usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
            return float(calc_price(usage, self.model, provider_id=self.vendor).total_price)
        return None

    async def ask(self, prompt: Prompt, tell: Callable[[str], None]) -> Reply:
        """See Model. Limits of rate, overload and cut streams are waited for and tried again."""
        spoiled, waited_s, patience = Used(), 0.0, self.patience
        for retries in range(patience.tries):
            try:
                reply = await self._ask_once(prompt)
                return replace(reply, used=spoiled + reply.used, waited_s=waited_s, retries=retries)
            except ModelTrouble as trouble:
                spoiled += trouble.used
                wait_s = trouble.retry_after_s
                if wait_s is None:
                    wait_s = patience.first_wait_s * 2**retries * random.uniform(0.75, 1.25)
                if not trouble.passing or retries == patience.tries - 1 or wait_s > patience.longest_wait_s:
                    trouble.used, trouble.waited_s, trouble.retries = spoiled, waited_s, retries
                    raise
                tell(f"{self.name} waits {wait_s:.1f} s: {trouble}")
                began = time.monotonic()
                await asyncio.sleep(wait_s)
                waited_s += time.monotonic() - began
        raise AssertionError("the last try returns or raises")

    async def _ask_once(self, prompt: Prompt) -> Reply:
        # Importing takes seconds: beside the clock, and beside the loop that other members share.
        await asyncio.to_thread(importlib.import_module, f"pydantic_ai.models.{VENDORS[self.vendor].protocol}")
        from pydantic_ai import exceptions
        from pydantic_ai.direct import model_request_stream

        text, stream = "", None
        overlong = False
        limit = int(prompt.max_tokens * 8)
        settings: Any = {"max_tokens": prompt.max_tokens, "timeout": self.patience.read_s}
        try:
            async with asyncio.timeout(self.patience.total_s), self._client() as client:
                async with model_request_stream(client, [_request(prompt)], model_settings=settings) as stream:
                    length = 0
                    async for event in stream:
                        length += _length(event)
                        if length > limit:
                            overlong = True
                            break
                    response = stream.get()
                    text = "".join(part.content for part in response.parts if part.part_kind == "text")
            finish = "overlong" if overlong else _FINISHES.get(response.finish_reason or "", "")
            used = self._used(response.usage, prompt, text, ended=finish not in ("", "overlong"))
            if not finish:
                trouble = ModelTrouble("the stream ended before the answer did", passing=True)
                trouble.used = used
                raise trouble
            return Reply(text, finish, used)
        except exceptions.ContentFilterError:
            return Reply(text, "refusal", self._used(stream.usage if stream else None, prompt, text, ended=True))
        except (ModelTrouble, MissingError):
            raise
        except Exception as error:  # whatever a client library raises, the swarm goes on
            trouble = _trouble(error)
            if stream is not None:  # it had begun, and what was written is charged
                with suppress(Exception):
                    text = "".join(part.content for part in stream.get().parts if part.part_kind == "text")
                trouble.used = self._used(stream.usage, prompt, text, ended=False)
            raise trouble from error

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Any]:
        """pydantic-ai's model, on connections of this event loop. The libraries' own repetition is off: waiting is told
        and counted here."""
        if VENDORS[self.vendor].protocol == "anthropic":
            from anthropic import AsyncAnthropic
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            async with AsyncAnthropic(api_key=self.key, base_url=self.url, max_retries=0) as speaker:
                yield AnthropicModel(self.model, provider=AnthropicProvider(anthropic_client=speaker))
            return
        from openai import AsyncOpenAI
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.deepseek import DeepSeekProvider
        from pydantic_ai.providers.openai import OpenAIProvider

        provider = DeepSeekProvider if self.vendor == "deepseek" else OpenAIProvider
        async with AsyncOpenAI(api_key=self.key, base_url=self.url, max_retries=0) as speaker:
            # By default a stream that was cut passes for one that came to its end.
            strict: Any = {"openai_chat_streaming_requires_finish_reason": True}
            yield OpenAIChatModel(self.model, provider=provider(openai_client=speaker), profile=strict)

    def _used(self, usage: Any, prompt: Prompt, text: str, ended: bool) -> Used:
        """What the vendor counted; what it did not, as where the stream never ended, is estimated from the texts."""
        read, written = getattr(usage, "input_tokens", 0) or 0, getattr(usage, "output_tokens", 0) or 0
        cached = getattr(usage, "cache_read_tokens", 0) or 0
        measured = ended and bool(read and (written or not text))
        read = read or prompt.estimated_tokens
        written = written if measured else max(written, int(len(text) / CHARACTERS_PER_TOKEN))
        cost = None
        if not self.own:
            with suppress(ImportError, LookupError, ValueError):
                from genai_prices import Usage, calc_price

                counted = Usage(
                    input_tokens=read,
                    output_tokens=written,
                    cache_read_tokens=cached,
                    cache_write_tokens=getattr(usage, "cache_write_tokens", 0) or 0,
                )
                cost = float(calc_price(counted, self.model, provider_id=self.vendor).total_price)
        return Used(read, written, cached, cost, measured)


_FINISHES = {"stop": "stop", "length": "length", "content_filter": "refusal", "tool_call": "stop"}


def _request(prompt: Prompt) -> Any:
    from pydantic_ai.messages import BinaryContent, ModelRequest, SystemPromptPart, UserPromptPart

    seen = [BinaryContent(base64.b64decode(item.base64), media_type=item.media_type) for item in prompt.pictures]
    content = [prompt.text, *seen] if seen else prompt.text
    return ModelRequest(parts=[SystemPromptPart(prompt.system), UserPromptPart(content)])


def _length(event: Any) -> int:
    part = getattr(event, "delta", None) or getattr(event, "part", None)
    content = getattr(part, "content_delta", None) or getattr(part, "content", None) or ""
    return len(content) if isinstance(content, str) and event.event_kind != "part_end" else 0


def _trouble(error: Exception) -> ModelTrouble:
    """Says in a sentence what went wrong, and whether it may go right the next time."""
    from pydantic_ai import exceptions as known

    words = _short(error)
    if isinstance(error, TimeoutError):
        return ModelTrouble("no answer within the time allowed", passing=False)
    lasting = (
        known.ModelAuthenticationError,
        known.ModelNotFoundError,
        known.ModelQuotaExceededError,
        known.ModelContextWindowExceededError,
    )
    if isinstance(error, lasting):
        return ModelTrouble(words)
    if isinstance(error, known.ModelRateLimitError):
        return ModelTrouble(words, passing=True, retry_after_s=error.retry_after)
    if isinstance(error, known.ModelHTTPError):
        return ModelTrouble(words, passing=error.status_code >= 500, retry_after_s=error.retry_after)
    # What is left are broken connections and answers that are not what the protocol says: both come and go.
    return ModelTrouble(words, passing=not isinstance(error, known.UserError))


def _short(error: Exception) -> str:
    text = re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__
    text = re.sub(r"(?i)(sk-|key[-_ ]?)[\w-]{8,}", r"\1...", text)  # some vendors quote the key they refuse
    return f"{type(error).__name__}: {text[:300]}"
