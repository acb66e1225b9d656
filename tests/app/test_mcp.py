"""The MCP server before the official client: in memory, over stdio, and with a client that disappears."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

mcp = pytest.importorskip("mcp.server.mcpserver", reason="the package mcp is not installed")

from mcp import Client, StdioServerParameters  # noqa: E402

from kernelwright.app.mcp import entry, server  # noqa: E402
from kernelwright.errors import UsageError  # noqa: E402

TOOLS = {
    "list_tasks",
    "get_task",
    "trial_kernel",
    "submit_kernel",
    "get_result",
    "get_best",
    "read_profile",
    "device_facts",
    "search_candidates",
}
MODEL = "from reference import Model\n\n\nclass ModelNew(Model):\n    def forward(self, x):\n        return {}\n"


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("kernelwright.app.desk.IDLE_S", 1.0)


async def ask(client: Client, tool: str, **arguments: object) -> dict:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer
    return json.loads(answer.content[0].text)  # type: ignore[union-attr]


async def answered(client: Client, told: dict) -> dict:
    for _ in range(12):
        if told["status"] != "running":
            break
        told = await ask(client, "get_result", job=told["job"])
    return told


def test_a_scripted_agent_goes_from_list_tasks_to_a_best(net: Path) -> None:
    async def work() -> None:
        async with Client(server()) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            assert await ask(client, "list_tasks") == {"tasks": []}
            net.write_text("print('loud at import')\n" + net.read_text())
            task = await ask(client, "get_task", task=f"{net}:Net", target="null")
            assert "class Net" in task["brief"]
            name = task["task"]
            assert [item["task"] for item in (await ask(client, "list_tasks"))["tasks"]] == [name]
            wrong = {"model.py": MODEL.format("super().forward(x) * 2")}
            right = {"model.py": MODEL.format("super().forward(x) + 0")}
            first, second = await asyncio.gather(
                ask(client, "submit_kernel", task=name, files=wrong, agent="a model", label="twice"),
                ask(client, "submit_kernel", task=name, files=right, agent="a model", label="once", note="plain"),
            )
            first, second = await answered(client, first), await answered(client, second)
            assert first["verdict"]["status"] == "WRONG_VALUES" and second["verdict"]["status"] == "PASSED"
            best = await ask(client, "get_best", task=name)
            assert best["best"]["label"] == "once" and best["best"]["sources"] == right
            assert (await ask(client, "search_candidates", task=name, words="twice"))["found"] == 1
            assert "no time" in (await ask(client, "read_profile", candidate=second["job"]))["text"]
            assert (await ask(client, "device_facts", target="null"))["device"] == "null"
            refused = await ask(client, "get_result", job="j0")
            assert refused["status"] == "refused" and "no job is called" in refused["message"]

    asyncio.run(work())


def test_over_stdio(tmp_path: Path) -> None:
    async def work() -> None:
        command = StdioServerParameters(
            command=sys.executable,
            args=["-P", "-m", "kernelwright.app.cli", "mcp"],
            env=dict(os.environ),
        )
        async with Client(command) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            assert await ask(client, "list_tasks") == {"tasks": []}

    asyncio.run(work())


def test_the_server_ends_with_a_client_that_disappears() -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kernelwright.app.cli", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "meth')  # in the middle of a word
    process.stdin.close()
    assert process.wait(60) == 0


@pytest.mark.parametrize("client", ["claude", "cursor", "vscode", "gemini"])
def test_install_adds_to_what_a_client_has(call, tmp_path: Path, client: str) -> None:
    path, _ = entry(client, tmp_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    key = "servers" if client == "vscode" else "mcpServers"
    path.write_text(json.dumps({key: {"other": {"command": "x"}}, "theme": "dark"}))
    for _ in range(2):
        code, out, _ = call("mcp", "install", "--client", client, "--folder", str(tmp_path))
        assert code == 0 and str(path) in out
    held = json.loads(path.read_text())
    assert held["theme"] == "dark" and held[key]["other"] == {"command": "x"}
    assert held[key]["kernelwright"]["args"] == ["mcp"]
    assert not list(path.parent.glob("*.draft"))
    path.write_text("not json")
    with pytest.raises(UsageError, match="is not JSON"):
        entry(client, tmp_path)


def test_install_for_codex_keeps_other_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    (tmp_path / ".codex").mkdir()
    path = tmp_path / ".codex" / "config.toml"
    path.write_text(
        'model = "m"\n\n[mcp_servers.kernelwright]\ncommand = "old"\n\n[mcp_servers.other]\ncommand = "x"\n'
    )
    import tomllib

    held = tomllib.loads(entry("codex", tmp_path)[1])
    assert held["model"] == "m" and held["mcp_servers"]["other"] == {"command": "x"}
    assert held["mcp_servers"]["kernelwright"]["args"] == ["mcp"]
    with pytest.raises(UsageError, match="no client is called 'emacs'"):
        entry("emacs", tmp_path)
