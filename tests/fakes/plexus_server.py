"""A Plexus server that is not hubd: a WebSocket, and only the required parts of the protocol.

It offers `_info`, `{root}.call` and `{root}.schema`, answers every other method with a JSON-RPC
error, and leaves out every field that a server may leave out.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

ROOT = "lab"

ROOT_SCHEMA: dict[str, Any] = {
    "namespace": ROOT,
    "methods": [{"name": "ping"}],
    "children": [{"namespace": "tools"}, {"namespace": "silent"}],
}
TOOLS_SCHEMA: dict[str, Any] = {
    "namespace": "tools",
    "description": None,
    "methods": [
        {"name": "greet", "params": {"properties": {"name": {"type": "string"}}}},
        {"name": "fail", "params": None},
        {"name": "odd"},
        {"name": "ask", "annotations": None},
    ],
    "handles": None,
}


class PlexusServer:
    """The server; `describes_by_call` says whether a namespace's `schema` can be called."""

    def __init__(self, *, describes_by_call: bool = True) -> None:
        self.describes_by_call = describes_by_call
        # The methods that clients have sent, outermost names.
        self.methods: list[str] = []
        # Set by the test: another client has answered the question.
        self.answered_elsewhere = threading.Event()
        self.url = ""

    def serve_client(self, connection: ServerConnection) -> None:
        """Answer one client until it leaves."""
        try:
            for message in connection:
                self._answer(connection, json.loads(message))
        except ConnectionClosed:
            return

    def _answer(self, connection: ServerConnection, request: dict[str, Any]) -> None:
        method, params = request["method"], request.get("params", {})
        self.methods.append(method)
        items: Iterator[dict[str, Any]] | None = None
        if method == "_info":
            items = _data({"backend": ROOT})
        elif method == f"{ROOT}.schema":
            items = _data(ROOT_SCHEMA)
        elif method == f"{ROOT}.call":
            items = self._called(params["method"], params.get("params", {}))
        if items is None:
            error = {"code": -32601, "message": f"no method {method}"}
            connection.send(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}))
            return
        subscription = f"sub-{request['id']}"
        reply = {"jsonrpc": "2.0", "id": request["id"], "result": subscription}
        connection.send(json.dumps(reply))
        for item in items:
            params = {"subscription": subscription, "result": item}
            notice = {"jsonrpc": "2.0", "method": "subscription", "params": params}
            connection.send(json.dumps(notice))

    def _called(self, method: str, params: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if method.endswith(".schema") and self.describes_by_call:
            schemas = {f"{ROOT}.schema": ROOT_SCHEMA, "tools.schema": TOOLS_SCHEMA}
            if method in schemas:
                yield from _data(schemas[method])
                return
        if method == f"{ROOT}.ping":
            yield from _data({"pong": True})
        elif method == "tools.greet":
            yield from _data({"text": f"hello {params.get('name')}"})
        elif method == "tools.odd":
            yield {"type": "heartbeat"}
            yield {"type": "progress"}
            yield {"type": "guidance"}
            yield {"no": "type"}
            yield {"type": "data", "content": {"text": "first"}}
            yield from _data({"text": "second"})
        elif method == "tools.ask":
            question = {"type": "confirm", "message": "Sure?"}
            yield {"type": "request", "requestId": "r1", "requestData": question}
            self.answered_elsewhere.wait(20)
            reason = "answered elsewhere"
            yield {"type": "request_closed", "requestId": "r1", "reason": reason}
            yield from _data({"text": "went on"})
        else:
            yield {"type": "error", "message": f"cannot do {method}"}
            yield {"type": "done"}


def _data(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "data", "content": content}
    yield {"type": "done"}


@contextmanager
def running(server: PlexusServer) -> Iterator[PlexusServer]:
    """Serve on a free port of this machine."""
    with serve(server.serve_client, "127.0.0.1", 0) as listener:
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        server.url = f"ws://127.0.0.1:{listener.socket.getsockname()[1]}"
        try:
            yield server
        finally:
            server.answered_elsewhere.set()
            listener.shutdown()
            thread.join()
