"""Models behind HTTP: three vendors' protocols, and everything that goes wrong with them."""

import asyncio
import time
from dataclasses import replace

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")

from tests.writers.model_server import Answer, ModelServer, serving

from kernelwright.errors import UsageError
from kernelwright.records import Picture
from kernelwright.writers import models
from kernelwright.writers.models import ModelTrouble, Patience, Prompt, RemoteModel, Reply, named_models

VENDORS = ("openai", "deepseek", "anthropic")
QUICK = Patience(read_s=2.0, total_s=20.0, tries=4, longest_wait_s=5.0, first_wait_s=0.01)
PROMPT = Prompt("be brief", "say hello", max_tokens=100)


def model(server: ModelServer, vendor: str, patience: Patience = QUICK) -> RemoteModel:
    url = server.url if vendor == "anthropic" else f"{server.url}/v1"
    (found,) = named_models(f"{vendor}:{url}#m", {})
    return replace(found, patience=patience)


def ask(asked: RemoteModel, told: list[str] | None = None, prompt: Prompt = PROMPT) -> Reply:
    return asyncio.run(asked.ask(prompt, (told if told is not None else []).append))


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_answer_with_exact_usage(vendor: str) -> None:
    with serving(m=Answer("one two three four", input_tokens=1234, output_tokens=56, cached_tokens=1000)) as server:
        reply = ask(model(server, vendor))
        assert (reply.text, reply.finish, reply.retries) == ("one two three four", "stop", 0)
        used = reply.used
        assert (used.input_tokens, used.output_tokens, used.cached_tokens, used.measured) == (1234, 56, 1000, True)
        assert used.cost_usd is None, "a server of one's own has no price"
        (asked,) = server.asked["m"]
        assert "be brief" in str(asked) and "say hello" in str(asked) and asked["stream"] is True
        assert 100 in (asked.get("max_tokens"), asked.get("max_completion_tokens"))


@pytest.mark.parametrize("vendor", VENDORS)
def test_limits_of_rate_are_waited_for_as_long_as_the_vendor_says(vendor: str) -> None:
    told: list[str] = []
    with serving(m=[Answer(kind="429", retry_after="1"), Answer(kind="500"), Answer("fine")]) as server:
        began = time.monotonic()
        reply = ask(model(server, vendor), told)
        assert reply.text == "fine" and reply.retries == 2 and reply.waited_s >= 1.0
        assert time.monotonic() - began >= 1.0
        assert len(server.asked["m"]) == 3, "the libraries repeat nothing on their own"
    assert len(told) == 2 and "waits 1.0 s" in told[0] and "scripted 429" in told[0]


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_cut_stream_is_asked_again_and_what_it_cost_counts(vendor: str) -> None:
    with serving(m=[Answer("x" * 400, kind="cut"), Answer("whole", input_tokens=100, output_tokens=20)]) as server:
        reply = ask(model(server, vendor))
    assert reply.text == "whole" and reply.retries == 1
    assert reply.used.input_tokens > 100 and reply.used.output_tokens > 20 + 40, reply.used
    assert not reply.used.measured


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_stream_that_is_slow_is_heard_and_one_that_stops_is_not(vendor: str) -> None:
    with serving(m=Answer("one two three", pause_s=0.2)) as server:
        assert ask(model(server, vendor, replace(QUICK, read_s=1.0))).text == "one two three"
    with serving(m=[Answer("one two three", pause_s=1.5), Answer("quick")]) as server:
        assert ask(model(server, vendor, replace(QUICK, read_s=0.5))).text == "quick"
    with serving(m=Answer("one two three", pause_s=0.5)) as server, pytest.raises(ModelTrouble, match="time allowed"):
        ask(model(server, vendor, replace(QUICK, total_s=0.7)))


@pytest.mark.parametrize("vendor", VENDORS)
def test_answers_that_are_not_the_protocol_are_asked_again(vendor: str) -> None:
    with serving(m=[Answer("spoiled", kind="bad_json"), Answer("fine")]) as server:
        assert ask(model(server, vendor)).text == "fine"


@pytest.mark.parametrize("vendor", VENDORS)
def test_refusals_and_lengths_are_told_apart(vendor: str) -> None:
    with serving(m=[Answer("I", kind="refusal"), Answer("half", kind="length")]) as server:
        asked = model(server, vendor)
        assert ask(asked).finish == "refusal"
        assert ask(asked).finish == "length"


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_answer_without_end_is_cut(vendor: str) -> None:
    with serving(m=Answer(kind="endless")) as server:
        reply = ask(model(server, vendor))
    assert reply.finish == "overlong" and 800 <= len(reply.text) < 100_000 and not reply.used.measured


@pytest.mark.parametrize(("status", "asked"), [("401", 1), ("404", 1), ("400", 1), ("500", 4), ("529", 4)])
def test_what_will_not_pass_is_not_tried_again(status: str, asked: int) -> None:
    with serving(m=Answer(kind=status)) as server:
        with pytest.raises(ModelTrouble, match=status):
            ask(model(server, "openai"))
        assert len(server.asked["m"]) == asked
    with serving(m=Answer(kind="429", retry_after="600")) as server:
        with pytest.raises(ModelTrouble):
            ask(model(server, "openai"))
        assert len(server.asked["m"]) == 1, "nobody waits ten minutes"


def test_nobody_listens() -> None:
    with serving(m=Answer()) as server:
        asked = model(server, "openai", replace(QUICK, tries=2))
    with pytest.raises(ModelTrouble):
        ask(asked)


def test_a_picture_arrives() -> None:
    with serving(m=Answer("seen")) as server:
        picture = Picture("shot.png", "image/png", "iVBORw0KGgo=")
        assert ask(model(server, "openai"), prompt=replace(PROMPT, pictures=(picture,))).text == "seen"
        assert "data:image/png;base64,iVBORw0KGgo=" in str(server.asked["m"])


def test_prices_of_vendors_and_keys_from_the_environment() -> None:
    with serving(claude_opus_5_5=Answer("a", input_tokens=1_000_000, output_tokens=100_000)) as server:
        environment = {"ANTHROPIC_API_KEY": "secret-one", "ANTHROPIC_BASE_URL": server.url}
        (asked,) = [item for item in named_models("auto", environment) if item.model == "claude-opus-5-5"]
        reply = ask(replace(asked, patience=QUICK))
        assert server.keys == {"Bearer secret-one"} and "secret" not in repr(asked)
    price = asked.price(1_000_000, 100_000)
    assert price and price > 0.5 and reply.used.cost_usd == pytest.approx(price)
    assert named_models("openai:gpt-nobody-knows", {"OPENAI_API_KEY": "k"})[0].price(10, 10) is None


def test_names_of_models() -> None:
    every = {key: "k" for vendor in models.VENDORS.values() for key in vendor.keys}
    found = named_models("auto,auto,openai:http://localhost:8080/v1#name", every)
    assert len({item.vendor for item in found}) >= 4 and len(found) >= 8
    assert found[-1].name == "openai:name@localhost:8080" and found[-1].free and not found[0].free
    assert named_models("auto", {}) == () and "set a key" in (models.missing(()) or "")
    for written, sentence in {
        "gpt": "names no model",
        "nobody:gpt": "names no model",
        "openai:gpt-5.5": "needs a key: set OPENAI_API_KEY",
        "openai:http://localhost:8080/v1": "a server and no model",
    }.items():
        with pytest.raises(UsageError, match=sentence):
            named_models(written, {})
