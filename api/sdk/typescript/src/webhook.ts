import { createHmac, timingSafeEqual } from "node:crypto";
import type { components } from "./openapi.js";

type Event = components["schemas"]["Event"];

// SignatureError and NoEventError are what constructEvent throws. Answer both with 400. The reason: "missing", there is no
// signature of the known form; "stale", its time is more than five minutes away, so a clock is wrong or somebody sends again
// what they have seen; "wrong", it does not fit the body and the secret.
export class SignatureError extends Error {
  constructor(readonly reason: "missing" | "stale" | "wrong") {
    super(`the signature is ${reason}`);
  }
}
export class NoEventError extends Error {}

// maxBody is far more bytes than an event has. Keep no more of a body: nobody can fill the memory.
export const maxBody = 1 << 20;

const maxDepth = 100; // far more levels than an event has

// body: a Buffer with the raw bytes as they arrived; JSON that was parsed and written again has other bytes.
function verify(secret: string, header: string, body: Uint8Array, now = Date.now() / 1000): boolean {
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

// reasonOf returns why verify refused a header.
function reasonOf(header: string): SignatureError["reason"] {
  const times = [...header.matchAll(/(?:^|,)t=([0-9]{1,12})(?=,|$)/g)];
  if (times.length !== 1 || !/(?:^|,)v1=/.test(header)) return "missing";
  return Math.abs(Date.now() / 1000 - Number(times[0]?.[1])) > 300 ? "stale" : "wrong";
}

// constructEvent returns the event of a delivery after it has verified the signature with the webhook's secret, "whsec_"
// included. The body must be the raw bytes as they arrived, or the text that they are: await request.text() in Next.js, Hono and
// Workers. A text that was parsed and written again is another one. The signature is the header X-Service-Signature: its value, or
// all values as request.headersDistinct has them. The event may have a type that this version does not know: answer 200 to
// it, too. The same event may come again: its id tells. It throws a SignatureError or a NoEventError.
export function constructEvent(body: Uint8Array | string, signature: string | string[] | null | undefined, secret: string): Event {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const header = [signature ?? []].flat().join(","); // two headers become one with two timestamps, which is refused
  if (bytes.length > maxBody || /\s/.test(header) || !verify(secret, header, bytes)) throw new SignatureError(reasonOf(header));
  return parseStored(bytes);
}

// parseStored returns the event of a body that constructEvent took before, such as one that you stored. It verifies nothing.
export function parseStored(body: Uint8Array): Event {
  try {
    // As it is: Buffer.toString would replace what is not UTF-8, and a decoder by default drop a byte order mark.
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    const event = shallow(text) ? JSON.parse(text) : null;
    if (typeof event?.id === "string" && /^evt_[0-9A-Za-z_]{1,64}$/.test(event.id)) return event;
  } catch {
    // not JSON
  }
  throw new NoEventError("this is not an event");
}

// shallow returns whether JSON is at most maxDepth levels deep. Parsers have limits of their own, each another.
function shallow(text: string): boolean {
  let [depth, quoted] = [0, false];
  for (const [token] of text.matchAll(/\\.|["[\]{}]/gs)) { // what is escaped is no end of a string
    if (token === '"') quoted = !quoted;
    else if (!quoted && "[{".includes(token) && ++depth > maxDepth) return false;
    else if (!quoted && "]}".includes(token)) depth--;
  }
  return true;
}
