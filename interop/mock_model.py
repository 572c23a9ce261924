#!/usr/bin/env python3
"""A scripted model server for interop runs: POST /v1/messages, streaming or not, on 127.0.0.1.

usage: mock_model.py SCRIPT.json PORT REQUESTS.ndjson       says "listening" when it does

SCRIPT.json maps a role to its turns, in order. A request belongs to the role R whose mark "ROLE:R" is in the
conversation's first message or in the system prompt; "lead" is the default. A turn is

    {"when": "a text", "pause": 0.5, "blocks": [...]}

with text and tool_use blocks in the Messages format (ids are filled in). With "when", the turn waits for a request that
has this text in what was said since the model's last answer; requests before that, and after the last turn, are answered
with a word. With "pause", the answer comes so many seconds later. Inside a tool input, "REQ" becomes the last request id seen in the conversation, "REQ:perm" the last one that
begins so, and PLANFILE the last plan file's path. Every request is appended to REQUESTS.ndjson with its time and role.
Scripts call Task and SendMessage in the form of 2.1.39; a request that offers today's tools gets today's form of the call.
"""
import json
import re
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SCRIPT = json.load(open(sys.argv[1]))
PORT = int(sys.argv[2])
LOG = open(sys.argv[3], "a")
LOCK = threading.Lock()
TURN = {}


def role_of(request):
    messages = request.get("messages") or [{}]
    first = json.dumps([request.get("system"), messages[0]])
    named = [r for r in SCRIPT if r != "lead" and f"ROLE:{r}" in first]
    return max(named, key=len) if named else "lead"


def strings(value):
    """Every text in a JSON value, unescaped."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def news(request):
    """What was said since the model's last answer."""
    fresh = []
    for message in reversed(request["messages"]):
        if message["role"] == "assistant":
            break
        fresh.append(message["content"])
    return "\n".join(strings(fresh))


def is_side_request(request):
    """Titles, summaries and suggestions: they use up no turn."""
    return not request.get("tools") or "[SUGGESTION MODE" in json.dumps(request["messages"][-1])


def filled(blocks, request):
    """The blocks with ids, and with what their placeholders stand for."""
    seen = "\n".join(strings(request["messages"]))
    ids = re.findall(r'request_?[iI]d\\*"\s*:\s*\\*"([^"\\]+)', seen)
    plans = re.findall(r"(/[\w./-]*?/plans/[\w.-]+\.md)", "\n".join(strings([request.get("system"), seen])))

    def request_id(match):
        meant = [i for i in ids if i.startswith(match.group(1) or "")]
        return json.dumps(meant[-1] if meant else "none")

    text = re.sub(r'"REQ(?::([\w-]+))?"', request_id, json.dumps(blocks))
    blocks = json.loads(text.replace("PLANFILE", plans[-1] if plans else "no-plan.md"))
    for block in blocks:
        if block["type"] == "tool_use":
            block["id"] = "toolu_" + uuid.uuid4().hex[:22]
    return blocks


def has_todays_tools(request):
    return bool({"Agent", "ListAgents", "ToolSearch"} & {tool.get("name") for tool in request.get("tools") or []})


def in_todays_form(block):
    """A call of 2.1.39's Task or SendMessage, as today's client takes it; any other block as it is."""
    if block.get("name") == "Task":
        return {**block, "name": "Agent"}
    given = block.get("input") or {}
    if block.get("name") != "SendMessage" or "type" not in given:
        return block
    kind, content = given["type"], given.get("content")
    says = {
        "shutdown_request": {"reason": content},
        "shutdown_response": {"request_id": given.get("request_id"), "approve": given.get("approve"), "reason": content},
        "plan_approval_response": {
            "request_id": given.get("request_id"), "approve": given.get("approve"), "feedback": content},
    }.get(kind)
    message = content if says is None else {"type": kind, **{k: v for k, v in says.items() if v is not None}}
    today = {"to": given.get("recipient", "team-lead"), "message": message, "summary": given.get("summary", kind)}
    return {**block, "input": today}


def answer(request, role):
    if is_side_request(request):
        return [{"type": "text", "text": "ok"}]
    with LOCK:
        turn, turns = TURN.get(role, 0), SCRIPT.get(role, [])
        due = turn < len(turns) and turns[turn].get("when", "") in news(request)
        if due:
            TURN[role] = turn + 1
    if not due:
        return [{"type": "text", "text": f"{role} has nothing to do"}]
    time.sleep(turns[turn].get("pause", 0))
    blocks = turns[turn]["blocks"]
    if has_todays_tools(request):
        blocks = [in_todays_form(block) for block in blocks]
    return filled(blocks, request)


def message(request, blocks):
    stop = "tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn"
    return {
        "id": "msg_" + uuid.uuid4().hex[:20], "type": "message", "role": "assistant", "model": request["model"],
        "content": blocks, "stop_reason": stop, "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    }


def events(full):
    yield "message_start", {"message": {**full, "content": [], "stop_reason": None}}
    for i, b in enumerate(full["content"]):
        if b["type"] == "text":
            yield "content_block_start", {"index": i, "content_block": {"type": "text", "text": ""}}
            yield "content_block_delta", {"index": i, "delta": {"type": "text_delta", "text": b["text"]}}
        else:
            partial = {"type": "input_json_delta", "partial_json": json.dumps(b["input"])}
            yield "content_block_start", {"index": i, "content_block": {**b, "input": {}}}
            yield "content_block_delta", {"index": i, "delta": partial}
        yield "content_block_stop", {"index": i}
    yield "message_delta", {"delta": {"stop_reason": full["stop_reason"], "stop_sequence": None}, "usage": {"output_tokens": 5}}
    yield "message_stop", {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        self.reply(b"{}")

    do_HEAD = do_GET

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            request = json.loads(raw)
        except ValueError:
            request = {}
        role = role_of(request)
        with LOCK:
            LOG.write(json.dumps({"t": time.time(), "path": self.path, "role": role, "request": request}) + "\n")
            LOG.flush()
        if "messages" not in request or "/messages" not in self.path or "count_tokens" in self.path:
            return self.reply(b'{"input_tokens": 10}')
        full = message(request, answer(request, role))
        if not request.get("stream"):
            return self.reply(json.dumps(full).encode())
        out = "".join(f"event: {n}\ndata: {json.dumps({'type': n, **d})}\n\n" for n, d in events(full))
        self.reply(out.encode(), "text/event-stream")


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):  # a client that exits drops its connection
        pass


server = Server(("127.0.0.1", PORT), Handler)
print("listening", flush=True)
server.serve_forever()
