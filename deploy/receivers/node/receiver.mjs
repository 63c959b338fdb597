// A merchant's server for webhooks, to start from: it verifies the signature, keeps each event once, answers and does the
// work afterwards. It needs Node 18 or later and no package.
//
//   WEBHOOK_SECRET=whsec_… PORT=3000 node receiver.mjs
//
// Register https://your-host/webhook. It listens on this computer only: TLS is the business of the proxy before it.
//
// The example shop in Go (deploy/examples/go) and the receivers in Node and Python answer alike:
//
// - 404 to another path than /webhook, compared as it was sent; what follows a ? does not matter.
// - 405 to another method than POST.
// - 400 to a body that did not arrive as a whole, has more than 1 MiB or is not signed, or was signed more than five
//   minutes ago, and to what is signed and not an event: an object in JSON (UTF-8, no byte order mark, at most 100 levels deep)
//   whose id is evt_ and 1 to 64 of 0-9, A-Z, a-z and _. Of two members of a name the last counts.
// - 200 to an event, also when it comes again.
//
// What is not proper HTTP is refused by the server of each language in its own way.
import { createHmac, timingSafeEqual } from "node:crypto";
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";

const { WEBHOOK_SECRET: secret, PORT: port } = process.env;
if (!secret || !port) {
  console.error("WEBHOOK_SECRET and PORT must be set");
  process.exit(1);
}

const maxBody = 1 << 20; // far more than an event has: nobody can fill the memory
const maxDepth = 100; // far more levels than an event has

// body: a Buffer with the raw bytes as they arrived; JSON that was parsed and written again has other bytes.
function verify(secret, header, body, now = Date.now() / 1000) {
  const parts = header.split(",").map((part) => part.split(/=(.*)/s)); // at the first =
  const times = parts.filter(([name]) => name === "t").map(([, value]) => value);
  if (times.length !== 1 || !/^[0-9]{1,12}$/.test(times[0] ?? "")) return false;
  if (Math.abs(now - Number(times[0])) > 300) return false; // somebody may be sending again what they have seen
  const want = Buffer.from(createHmac("sha256", secret).update(`${times[0]}.`).update(body).digest("hex"));
  return parts.some(([name, value]) => { // two v1 while a rotated secret still signs
    const got = Buffer.from(name === "v1" ? value ?? "" : "");
    // In constant time: with === the time it takes tells how many digits are right, and so, digit by digit, all of them.
    return got.length === want.length && timingSafeEqual(got, want);
  });
}

// parse returns the event of a body and throws when it is none.
function parse(body) {
  // As it is: Buffer.toString would replace what is not UTF-8, and a decoder by default drop a byte order mark.
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  const event = shallow(text) ? JSON.parse(text) : null;
  if (typeof event?.id !== "string" || !/^evt_[0-9A-Za-z_]{1,64}$/.test(event.id)) throw new Error("this is not an event");
  return event;
}

// shallow returns whether JSON is at most maxDepth levels deep. Parsers have limits of their own, each another.
function shallow(text) {
  let [depth, quoted] = [0, false];
  for (const [token] of text.matchAll(/\\.|["[\]{}]/gs)) { // what is escaped is no end of a string
    if (token === '"') quoted = !quoted;
    else if (!quoted && "[{".includes(token) && ++depth > maxDepth) return false;
    else if (!quoted && "]}".includes(token)) depth--;
  }
  return true;
}

// processEvent is your part: ship the goods, write the accounts. It runs after the answer, so it may take its time.
async function processEvent(event) {
  console.log("processed", event.id, event.type);
}

// The inbox is a directory with a file for each event that was ever accepted, and an empty file .done beside it when it
// has been processed. A real shop has a table instead, in its own database: the event's id in a unique column, inserted in
// the same transaction as the effect. Here a crash between processEvent and .done makes the work happen twice, there it
// cannot.
const inbox = "webhook-events";

// keep stores an event and returns whether it is new. It is on disk before it is answered: after a 200 it never comes
// again. A link, unlike a write, is made as a whole or not at all, and fails when there is one.
function keep(event, body) {
  const whole = `${inbox}/${event.id}.tmp`;
  writeFileSync(whole, body, { flush: true, mode: 0o600 }); // Node before 20.10 does not flush: a power cut may lose it
  try {
    linkSync(whole, `${inbox}/${event.id}.json`);
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  } finally {
    unlinkSync(whole);
  }
}

let work = Promise.resolve(); // one event after the other

function later(event) {
  work = work
    .then(() => processEvent(event))
    .then(() => writeFileSync(`${inbox}/${event.id}.done`, ""))
    .catch((error) => console.error(error)); // it is processed again after the next start
}

async function receive(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size <= maxBody) chunks.push(chunk); // the rest is read too, and dropped: leaving early would cut the answer off
  }
  const body = Buffer.concat(chunks);
  // Two headers become one with two timestamps, which is refused.
  const header = (request.headersDistinct["x-service-signature"] ?? []).join(",");
  if (size > maxBody || !verify(secret, header, body)) return [400, "the signature does not fit\n"];
  let event;
  try {
    event = parse(body);
  } catch {
    return [400, "this is not an event\n"];
  }
  if (keep(event, body)) later(event);
  // A duplicate is a 200 too: it was accepted before, and anything else would only bring it again.
  return [200, ""];
}

mkdirSync(inbox, { recursive: true, mode: 0o700 });
for (const name of readdirSync(inbox)) { // what was accepted and not processed when the program last ended
  if (name.endsWith(".json") && !existsSync(`${inbox}/${name.replace(/json$/, "done")}`)) {
    later(JSON.parse(readFileSync(`${inbox}/${name}`)));
  }
}

const server = createServer({ requestTimeout: 10_000 }, async (request, response) => {
  let [status, text] = [404, "POST /webhook\n"];
  if (request.url.split("?")[0] === "/webhook") {
    if (request.method !== "POST") {
      status = 405;
      response.setHeader("Allow", "POST");
    } else try {
      [status, text] = await receive(request);
    } catch (error) {
      console.error(error);
      [status, text] = [500, "try again later\n"]; // it is sent again
    }
  }
  response.writeHead(status, { "Content-Type": "text/plain" }).end(text);
});
server.listen(Number(port), "127.0.0.1");

// What has begun is finished, then nothing keeps the process; what comes now is sent again later.
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.once(signal, () => {
    server.close();
    server.closeIdleConnections();
  });
}
