#!/usr/bin/python3 -I
"""An endpoint that answers as chat completions do, and in every wrong way: the path of the request says which.

Prints its port, then serves on 127.0.0.1 until it is ended. Each request is kept in the directory it is given, under the
name of its path.
"""
import http.server
import json
import os
import sys
import time

GOOD = '{"verdict": "pass", "reason": "nothing in it"}'
FENCE = "```"


def completion(content, finish_reason="stop"):
    message = {"role": "assistant", "content": content}
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]})


def verdict(word):
    return completion(json.dumps({"verdict": word, "reason": f"it is {word}"}))


ANSWERS = {
    "pass": verdict("pass"),
    "warn": verdict("warn"),
    "ask": verdict("ask"),
    "block": verdict("block"),
    "fenced": completion(f"{FENCE}json\n{GOOD}\n{FENCE}"),
    "fenced-plain": completion(f"\n{FENCE}\n{GOOD}\n{FENCE}\n"),
    "fenced-twice": completion(f"{FENCE}\n{FENCE}json\n{GOOD}\n{FENCE}\n{FENCE}"),
    "two-fences": completion(f"{FENCE}\n{GOOD}\n{FENCE}\n{FENCE}\n{GOOD}\n{FENCE}"),
    "prose": completion(f"Here is my verdict: {GOOD}"),
    "two": completion(f"{GOOD}\n{GOOD}"),
    "twice-a-key": completion('{"verdict": "block", "verdict": "pass"}'),
    "rewrite": completion('{"verdict": "rewrite", "reason": "r", "replacement": "x"}'),
    "rewrite-bare": verdict("rewrite"),
    "unknown": verdict("PASS"),
    "more": completion('{"verdict": "pass", "reason": "r", "confidence": 1}'),
    "number": completion('{"verdict": "pass", "reason": 1}'),
    "list": completion('["pass"]'),
    "empty": completion(""),
    "null": completion(None),
    "cut": completion(GOOD, "length"),
    "no-choices": '{"choices": []}',
    "no-json": "pass",
    "deep": "[" * 100000,
    "hostile": completion(json.dumps({"verdict": "block", "reason": "a\u001b[2K\n" + "x" * 4000})),
}


class Stub(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        name = self.path.strip("/").split("/")[0]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kept = {"path": self.path, "headers": dict(self.headers), "body": json.loads(body)}
        with open(os.path.join(sys.argv[1], f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump(kept, file)
        if name in ANSWERS:
            self.answer(200, ANSWERS[name].encode())
        elif name.startswith("status-"):
            self.answer(int(name[len("status-"):]), ANSWERS["pass"].encode())
        elif name == "redirect":
            self.answer(307, b"", Location="/pass/redirected")
        elif name == "redirect-away":
            self.answer(302, b"", Location="http://localhost:%d/pass/redirected" % self.server.server_port)
        elif name == "huge":
            self.answer(200, b" " * (2 << 20) + ANSWERS["pass"].encode())
        elif name == "hang":
            time.sleep(30)
        elif name == "drip":
            self.send_response(200)
            self.end_headers()
            for _ in range(150):
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.2)
        elif name == "hang-up":
            self.connection.close()

    def do_GET(self):
        # Where a redirect was followed with another method.
        self.answer(200, ANSWERS["pass"].encode())

    def answer(self, status, body, **headers):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        # A client that gave up.
        pass


server = Server(("127.0.0.1", 0), Stub)
print(server.server_port, flush=True)
server.serve_forever()
