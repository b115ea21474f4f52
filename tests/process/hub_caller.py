"""A program that calls a hub in all ways that an agent could try.

`python hub_caller.py [--detach | --leave FILE] HOME METHOD PARAMS WAY…` prints a JSON object: for
each way `ok`, or the code of the error. The way `list` lists what MCP offers. CALLER_TOKEN is the
session token to send. With `--detach`, a process does it that has no parent in
the process tree, in a session of its own. With `--leave`, such a process does it after this one has
ended, with an empty environment, and writes to FILE.
"""

import base64
import json
import os
import select
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

SECONDS = 20.0
MODERN = "2026-07-28"


class Hub:
    """The addresses of a hub, as every process of the user can read them."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.record = json.loads(Path(home, "hubd.json").read_text())
        self.token = Path(self.record["token_file"]).read_text().strip()
        self.session_token = os.environ.get("CALLER_TOKEN")

    def port(self, url: str) -> int:
        return int(self.record[url].rpartition(":")[2].partition("/")[0])


def request(method: str, params: dict[str, Any]) -> bytes:
    call = {"method": method, "params": params}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "plexus.call", "params": call}).encode()


def outcome(items: list[dict[str, Any]]) -> str:
    return next((str(item["code"]) for item in items if item["type"] == "error"), "ok")


def over_unix(hub: Hub, method: str, params: dict[str, Any]) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SECONDS)
        connection.connect(hub.record["socket"])
        connection.sendall(request(method, params) + b"\n")
        items: list[dict[str, Any]] = []
        with connection.makefile("rb") as lines:
            lines.readline()
            while not items or items[-1]["type"] != "done":
                items.append(json.loads(lines.readline())["params"]["result"])
    return outcome(items)


def over_websocket(hub: Hub, method: str, params: dict[str, Any]) -> str:
    head = f"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {hub.token}\r\n"
    return over_frames(hub, hub.port("ws_url"), head, request(method, params))


def over_page(hub: Hub, method: str, params: dict[str, Any]) -> str:
    """Call as the page in a browser, with a key that the program makes of the token."""
    from hubd.page.keys import Keys

    port = hub.port("mcp_url")
    head = f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
    login = {"method": "_authenticate", "params": {"key": Keys(hub.token).create()}}
    first = json.dumps({"jsonrpc": "2.0", "id": 0, **login}).encode()
    return over_frames(hub, port, head, first, request(method, params))


def over_frames(hub: Hub, port: int, head: str, *messages: bytes) -> str:
    with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
        head += (
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n"
        )
        head += f"X-Plexus-Session: {hub.session_token}\r\n\r\n" if hub.session_token else "\r\n"
        # A mask of zeros leaves the text as it is.
        frames = [
            bytes([0x81, 0x80 | 126]) + len(message).to_bytes(2, "big") + bytes(4) + message
            for message in messages
        ]
        # The frames come with the handshake: the hub must not pass them on too early.
        connection.sendall(head.encode() + b"".join(frames))
        items: list[dict[str, Any]] = []
        with connection.makefile("rb") as stream:
            status = stream.readline().split()[1].decode()
            if status != "101":
                return status
            while stream.readline() not in (b"\r\n", b""):
                pass
            while not items or items[-1]["type"] != "done":
                size = stream.read(2)[1]
                if size == 126:
                    size = int.from_bytes(stream.read(2), "big")
                content = json.loads(stream.read(size))
                if "params" in content:
                    items.append(content["params"]["result"])
    return outcome(items)


def message(method: str, **params: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "caller", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}


def tool_outcome(answer: dict[str, Any]) -> str:
    if "error" in answer:
        return str(answer["error"])
    result = answer["result"]
    return str(result["_meta"]["plexus/error"]["code"]) if result.get("isError") else "ok"


def post(hub: Hub, content: dict[str, Any], name: str = "") -> dict[str, Any]:
    connection = HTTPConnection("127.0.0.1", hub.port("mcp_url"), timeout=SECONDS)
    headers = {
        "Authorization": f"Bearer {hub.token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": content["method"],
    }
    if name:
        headers["Mcp-Name"] = name
    if hub.session_token:
        headers["X-Plexus-Session"] = hub.session_token
    connection.request("POST", "/mcp", json.dumps(content), headers)
    response = connection.getresponse()
    body = response.read()
    if response.status == 401:
        return {"error": 401}
    lines = [line for line in body.splitlines() if line.startswith(b"data: {")]
    answer: dict[str, Any] = json.loads(lines[-1].removeprefix(b"data: ") if lines else body)
    return answer


def over_http(hub: Hub, method: str, params: dict[str, Any]) -> str:
    call = message("tools/call", name=method, arguments=params)
    return tool_outcome(post(hub, call, method))


def listed(hub: Hub, namespace: str) -> dict[str, Any]:
    """Return what MCP offers, and the methods in the schema of a namespace."""
    tools = post(hub, message("tools/list"))["result"]["tools"]
    prompts = post(hub, message("prompts/list"))["result"]["prompts"]
    resources = post(hub, message("resources/list"))["result"]["resources"]
    uri = f"plexus://schema/{namespace}"
    contents = post(hub, message("resources/read", uri=uri), uri)["result"]["contents"]
    return {
        "tools": sorted(tool["name"] for tool in tools),
        "schemas": sorted(resource["name"] for resource in resources),
        "prompts": sorted(prompt["name"] for prompt in prompts),
        f"methods of {namespace}": [
            one["name"] for one in json.loads(contents[0]["text"])["methods"]
        ],
    }


def over_stdio(hub: Hub, method: str, params: dict[str, Any]) -> str:
    command = [sys.executable, "-m", "hubd", "--home", hub.home, "mcp"]
    # The bridge waits for the answer before it ends.
    line = json.dumps(message("tools/call", name=method, arguments=params)) + "\n"
    environ = {**os.environ}
    if hub.session_token:
        environ["HUBD_SESSION_TOKEN"] = hub.session_token
    answer = subprocess.run(
        command, input=line, capture_output=True, text=True, env=environ, check=False
    )
    return tool_outcome(json.loads(answer.stdout or json.dumps({"error": answer.stderr})))


def over_synapse(hub: Hub, method: str, params: dict[str, Any]) -> str:
    command = [sys.executable, "-m", "synapse", "--home", hub.home, *method.split(".")]
    options = ["--params", json.dumps(params), "--items", "--no-autostart"]
    result = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    # Exit status 4 is `permission_denied`.
    return {0: "ok", 4: "permission_denied"}.get(result.returncode, result.stderr)


WAYS = {
    "unix": over_unix,
    "websocket": over_websocket,
    "http": over_http,
    "page": over_page,
    "stdio": over_stdio,
    "synapse": over_synapse,
}


def call(home: str, method: str, params: str, *ways: str) -> str:
    hub = Hub(home)
    if ways == ("list",):
        return json.dumps(listed(hub, method))
    outcomes = {}
    for way in ways:
        try:
            outcomes[way] = WAYS[way](hub, method, json.loads(params))
        except (OSError, ValueError, KeyError) as error:
            outcomes[way] = repr(error)
    return json.dumps(outcomes)


def detach() -> None:
    """Continue in a process without a parent in the tree; wait for it here."""
    readable, writable = os.pipe()
    parent = os.fork()
    if parent:
        os.close(writable)
        os.waitpid(parent, 0)
        os.read(readable, 1)  # until the process has ended
        os._exit(0)
    os.setsid()
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    # Until the process in the middle has ended.
    if os.getppid() == middle:
        select.select([os.pidfd_open(middle)], [], [], SECONDS)
    os.close(readable)


def keep_connection(hub: Hub) -> socket.socket:
    """Return a connection on which a call has succeeded."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(SECONDS)
    connection.connect(hub.record["socket"])
    connection.sendall(request("echo.once", {"message": "hi"}) + b"\n")
    received = b""
    while b'"type":"done"' not in received:
        received += connection.recv(65536)
    assert b'"type":"error"' not in received, received
    return connection


def leave(file: str, arguments: list[str]) -> None:
    """Start a process that outlives this one, in a session and with an environment of its own."""
    command = [sys.executable, __file__, "--left", str(os.getpid()), file, *arguments]
    path = os.environ.get("PYTHONPATH", "")
    with subprocess.Popen(
        command,
        env={"PYTHONPATH": path},
        start_new_session=True,
        stdout=subprocess.PIPE,
        # The hub waits a moment for the end of an agent's open output.
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os._exit(0)


def main(arguments: list[str]) -> None:
    if arguments[0] == "--detach":
        detach()
        arguments = arguments[1:]
    elif arguments[0] == "--leave":
        leave(arguments[1], arguments[2:])
    elif arguments[0] == "--left":
        agent = os.pidfd_open(int(arguments[1]))
        kept = keep_connection(Hub(arguments[3]))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        select.select([agent], [], [], SECONDS)
        outcomes = json.loads(call(*arguments[3:]))
        # The hub has closed it, with a reason.
        outcomes["kept"] = kept.makefile("rb").read().decode()
        Path(arguments[2]).write_text(json.dumps(outcomes))
        return
    sys.stdout.write(call(*arguments) + "\n")
    sys.stdout.flush()


main(sys.argv[1:])
