"""A merchant's server for webhooks, to start from: it verifies the signature, keeps each event once, answers and does the
work afterwards. It needs Python 3.8 or later and no package.

    WEBHOOK_SECRET=whsec_… PORT=3000 python3 receiver.py

Register https://your-host/webhook. It listens on this computer only: TLS is the business of the proxy before it.

It answers as the example shops in Go and TypeScript (deploy/release/examples) do:

- 404 to another path than /webhook, compared as it was sent; what follows a ? does not matter.
- 405 to another method than POST.
- 400 to a body that did not arrive as a whole, has more than 1 MiB or is not signed, or was signed more than five
  minutes ago, and to what is signed and not an event: an object in JSON (UTF-8, no byte order mark, at most 100 levels deep)
  whose id is evt_ and 1 to 64 of 0-9, A-Z, a-z and _. Of two members of a name the last counts.
- 200 to an event, also when it comes again.

What is not proper HTTP is refused by the server of each language in its own way.
"""
import contextlib
import hashlib
import hmac
import http.server
import json
import os
import queue
import re
import signal
import sqlite3
import sys
import threading
import time

MAX_BODY = 1 << 20  # far more than an event has: nobody can fill the memory
MAX_DEPTH = 100  # far more levels than an event has


# body: the raw bytes as they arrived; JSON that was parsed and written again has other bytes.
def verify(secret, header, body, now=None):
    parts = [part.partition("=") for part in header.split(",")]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1 or not re.fullmatch("[0-9]{1,12}", times[0]):
        return False
    if abs((time.time() if now is None else now) - int(times[0])) > 300:
        return False  # somebody may be sending again what they have seen
    want = hmac.new(secret.encode(), times[0].encode() + b"." + body, hashlib.sha256).hexdigest()
    # In constant time: with == the time it takes tells how many digits are right, and so, digit by digit, all of them.
    # There are two v1 while a rotated secret still signs.
    return any(name == "v1" and hmac.compare_digest(value.encode(), want.encode()) for name, _, value in parts)


def parse(body):
    """Return the event of a body and raise a ValueError when it is none."""
    text = body.decode()  # json.loads would take UTF-16 and a byte order mark too
    if not shallow(text):
        raise ValueError("too deep")
    event = json.loads(text, parse_int=number, parse_constant=refuse)
    if not isinstance(event, dict) or not re.fullmatch("evt_[0-9A-Za-z_]{1,64}", str(event.get("id"))):
        raise ValueError("no id")
    return event


def shallow(text):
    """Return whether JSON is at most MAX_DEPTH levels deep. Parsers have limits of their own, each another."""
    depth, quoted = 0, False
    for token in re.finditer(r'\\.|["\[\]{}]', text, re.DOTALL):  # what is escaped is no end of a string
        if token[0] == '"':
            quoted = not quoted
        elif not quoted and token[0] in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return False
        elif not quoted and token[0] in "]}":
            depth -= 1
    return True


def number(digits):
    """Return an integer, or what is left of one that is too long for int."""
    return int(digits) if len(digits) < 20 else float(digits)


def refuse(name):
    """Refuse NaN and Infinity: they are not JSON."""
    raise ValueError(name)


def process(event):
    """Your part: ship the goods, write the accounts. It runs after the answer, so it may take its time."""
    print(f"processed {event['id']} {event.get('type')}\n", end="", flush=True)  # one write: requests are logged meanwhile


@contextlib.contextmanager
def inbox():
    """One transaction on the events that were ever accepted.

    A real shop has this table in its own database and does the effect in the same transaction as it notes it. Here a crash
    between process and processed_at makes the work happen twice, there it cannot.
    """
    with contextlib.closing(sqlite3.connect("webhook-events.db")) as db, db:
        db.execute("CREATE TABLE IF NOT EXISTS event (id TEXT PRIMARY KEY, body BLOB NOT NULL, processed_at REAL)")
        yield db


def keep(event, body):
    """Store an event and return whether it is new. It is on disk before it is answered: after a 200 it never comes again."""
    with inbox() as db:
        return db.execute("INSERT OR IGNORE INTO event (id, body) VALUES (?, ?)", (event["id"], body)).rowcount == 1


def unfinished():
    """Return what was accepted and not processed when the program last ended."""
    with inbox() as db:
        return [parse(body) for (body,) in db.execute("SELECT body FROM event WHERE processed_at IS NULL")]


todo = queue.SimpleQueue()  # of events; None ends the work


def work():
    """Process one event after the other."""
    for event in iter(todo.get, None):
        try:
            process(event)
            with inbox() as db:
                db.execute("UPDATE event SET processed_at = ? WHERE id = ?", (time.time(), event["id"]))
        except Exception as error:  # it is processed again after the next start
            print(event["id"], error, file=sys.stderr)


class Receiver(http.server.BaseHTTPRequestHandler):
    timeout = 10  # seconds that a sender may be silent
    protocol_version = "HTTP/1.1"  # a sender that asks whether to go on hears so

    def receive(self):
        body = self.read()  # always: an answer to what was not read would be cut off
        if self.requestline.split()[1].partition("?")[0] != "/webhook":  # self.path is not always what was sent
            return self.answer(404, "POST /webhook\n")
        if self.command != "POST":
            return self.answer(405, "POST /webhook\n")
        # Two headers become one with two timestamps, which is refused.
        header = ",".join(value.strip(" \t") for value in self.headers.get_all("X-Service-Signature", []))
        if body is None or not verify(os.environ["WEBHOOK_SECRET"], header, body):
            return self.answer(400, "the signature does not fit\n")
        try:
            event = parse(body)
        except ValueError:
            return self.answer(400, "this is not an event\n")
        try:
            if keep(event, body):
                todo.put(event)
        except sqlite3.Error as error:
            self.log_error("%s", error)
            return self.answer(500, "try again later\n")  # it is sent again
        # A duplicate is a 200 too: it was accepted before, and anything else would only bring it again.
        return self.answer(200, "")

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = receive

    def read(self):
        """Return the body, or None when it is too long or did not arrive as a whole."""
        body, size = bytearray(), 0
        try:
            for piece in self.pieces():
                size += len(piece)
                if size <= MAX_BODY:
                    body += piece  # the rest is read too, and dropped
        except ValueError:
            return None
        return bytes(body) if size <= MAX_BODY else None

    def pieces(self):
        """Yield the body as it arrives, also chunked: a proxy may send it so, and http.server leaves that to us."""
        lengths = self.headers.get_all("Content-Length", [])
        encodings = self.headers.get_all("Transfer-Encoding", [])
        if not encodings:
            if len(lengths) > 1:
                raise ValueError("two lengths")
            yield from self.exactly("".join(lengths).strip() or "0", "[0-9]{1,12}", 10)
            return
        if lengths or [encoding.strip().lower() for encoding in encodings] != ["chunked"]:
            raise ValueError("no telling where it ends")
        size = self.line().partition(";")[0]
        while size.strip("0"):
            yield from self.exactly(size, "[0-9A-Fa-f]{1,8}", 16)
            if self.line():
                raise ValueError("longer than its size")
            size = self.line().partition(";")[0]
        if not size:
            raise ValueError("no size")
        while self.line():
            pass  # a trailer

    def exactly(self, digits, form, base):
        if not re.fullmatch(form, digits):
            raise ValueError(digits)
        left = int(digits, base)
        while left:
            piece = self.rfile.read(min(left, 1 << 16))
            if not piece:
                raise ValueError("cut off")
            left -= len(piece)
            yield piece

    def line(self):
        line = self.rfile.readline(4096)
        if not line.endswith(b"\r\n"):
            raise ValueError("no line")
        return line[:-2].decode("latin-1")

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "close")
        if status == 405:
            self.send_header("Allow", "POST")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text.encode())


def main():
    if not os.environ.get("WEBHOOK_SECRET") or not os.environ.get("PORT"):
        sys.exit("WEBHOOK_SECRET and PORT must be set")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver)
    server.daemon_threads = False  # so that server_close waits for requests under way
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for event in unfinished():
        todo.put(event)
    worker = threading.Thread(target=work)
    worker.start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:  # what has begun is finished; what comes now is sent again later
        server.server_close()
        todo.put(None)
        worker.join()


if __name__ == "__main__":
    main()
