"""A merchant's server for webhooks, to start from: it verifies the signature, keeps each event once, answers and does the
work afterwards. It needs Python 3.8 or later and no package.

    WEBHOOK_SECRET=whsec_… PORT=3000 python3 receiver.py

Register https://your-host/webhook. It listens on this computer only: TLS is the business of the proxy before it.
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


def process(event):
    """Your part: ship the goods, write the accounts. It runs after the answer, so it may take its time."""
    print("processed", event["id"], event["type"], flush=True)


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
        return [json.loads(body) for (body,) in db.execute("SELECT body FROM event WHERE processed_at IS NULL")]


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

    def do_POST(self):
        if self.path != "/webhook":
            return self.answer(404, "POST /webhook\n")
        length = self.headers.get("Content-Length", "")
        length = int(length) if re.fullmatch("[0-9]{1,12}", length) else 0
        body = self.rfile.read(min(length, MAX_BODY + 1))
        # Two headers become one with two timestamps, which is refused.
        header = ",".join(self.headers.get_all("X-Service-Signature", []))
        if len(body) > MAX_BODY or not verify(os.environ["WEBHOOK_SECRET"], header, body):
            return self.answer(400, "the signature does not fit\n")
        try:
            event = json.loads(body)
            if not re.fullmatch("evt_[0-9A-Za-z]+", event["id"]):
                raise ValueError(event["id"])
        except (ValueError, TypeError, LookupError):
            return self.answer(400, "this is not an event\n")
        try:
            if keep(event, body):
                todo.put(event)
        except sqlite3.Error as error:
            self.log_error("%s", error)
            return self.answer(500, "try again later\n")  # it is sent again
        # A duplicate is a 200 too: it was accepted before, and anything else would only bring it again.
        return self.answer(200, "")

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
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
