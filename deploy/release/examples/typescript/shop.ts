// A small shop that takes payments with the SDK: it creates a session, sends the customer to the hosted page, verifies the
// webhook, keeps each event once, and fulfils each order once. It needs Node 18 or later.
//
//   CHECKOUT_API_URL=http://127.0.0.1:8080 CHECKOUT_API_KEY=sk_test_… WEBHOOK_SECRET=whsec_… PORT=3000 node out/shop.js
//
// Open http://127.0.0.1:3000/shop. Register https://your-host/webhook. It listens on this computer only: TLS is the business
// of the proxy before it. It answers webhooks as the other examples do; deploy/release/receivers/python/receiver.py says how.
import { randomUUID } from "node:crypto";
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { constructEvent, createCheckout, type Event, maxBody, NoEventError, parseStored, SignatureError } from "checkout-sdk";

function setting(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} must be set`);
  return value;
}

const checkout = createCheckout(setting("CHECKOUT_API_URL"), setting("CHECKOUT_API_KEY"));
const secret = setting("WEBHOOK_SECRET");
const port = Number(setting("PORT"));

// An Answer is a status, headers and a body.
type Answer = [number, Record<string, string>, string];

const text = (status: number, words: string): Answer => [status, { "Content-Type": "text/plain" }, words];
const page = (html: string): Answer => [200, { "Content-Type": "text/html; charset=utf-8" }, `<!doctype html><title>Shop</title><p>${html}</p>`];

// buy creates an order and its session, and sends the customer to the hosted page.
async function buy(): Promise<Answer> {
  const order = randomUUID(); // a real shop writes the order into its database first
  const { data: session, error } = await checkout.POST("/v1/checkout", {
    params: { header: { "Idempotency-Key": `order-${order}` } },
    body: {
      amount: 59.97, currency: "EUR", payout_currency: "USDC", metadata: { order_id: order },
      redirect_url: `http://127.0.0.1:${port}/thanks`,
    },
  });
  if (!session) {
    console.error(error.error, error.request_id);
    return text(502, "the payment cannot be started now\n");
  }
  return [303, { Location: session.url }, ""];
}

// processEvent is your part: ship the goods, write the accounts. It runs after the answer, so it may take its time.
async function processEvent(event: Event) {
  switch (event.type) {
    case "checkout.completed": {
      const order = event.data?.metadata?.order_id;
      if (order) fulfil(String(order), event.data.session_id);
      break;
    }
    case "payout.failed":
      console.error("a person must look at the payout", event.data?.id);
  }
  console.log("processed", event.id, event.type);
}

// fulfil ships an order once, whatever comes twice. Its mark is a file of its own; a real shop changes the order's row from
// open to shipped.
function fulfil(order: string, session: string) {
  if (existsSync(`${orders}/${session}`)) return;
  writeFileSync(`${orders}/${session}`, "", { flag: "wx" });
  console.log("fulfilled", order);
}

// The inbox is a directory with a file for each event that was ever accepted, and an empty file .done beside it when it
// has been processed. A real shop has a table instead, in its own database: the event's id in a unique column, inserted in
// the same transaction as the effect. Here a crash between processEvent and .done makes the work happen twice, there it
// cannot.
const inbox = "webhook-events";
const orders = "orders";

// keep stores an event and returns whether it is new. It is on disk before it is answered: after a 200 it never comes
// again. A link, unlike a write, is made as a whole or not at all, and fails when there is one.
function keep(event: Event, body: Uint8Array): boolean {
  const whole = `${inbox}/${event.id}.tmp`;
  writeFileSync(whole, body, { flush: true, mode: 0o600 } as object); // Node before 20.10 does not flush: a power cut may lose it
  try {
    linkSync(whole, `${inbox}/${event.id}.json`);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    unlinkSync(whole);
  }
}

let work: Promise<void> = Promise.resolve(); // one event after the other

function later(event: Event) {
  work = work
    .then(() => processEvent(event))
    .then(() => writeFileSync(`${inbox}/${event.id}.done`, ""))
    .catch((error) => console.error(error)); // it is processed again after the next start
}

async function receive(request: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size <= maxBody) chunks.push(chunk); // the rest is read too, and dropped: leaving early would cut the answer off
  }
  if (size > maxBody) return text(400, "the body is too large\n");
  const body = Buffer.concat(chunks);
  let event: Event;
  try {
    event = constructEvent(body, request.headersDistinct["x-service-signature"], secret);
  } catch (error) {
    if (error instanceof SignatureError || error instanceof NoEventError) return text(400, `${error.message}\n`);
    throw error;
  }
  if (keep(event, body)) later(event);
  // A duplicate is a 200 too: it was accepted before, and anything else would only bring it again.
  return text(200, "");
}

async function answer(request: IncomingMessage): Promise<Answer> {
  const path = request.url?.split("?")[0];
  if (path === "/webhook" && request.method === "POST") return receive(request);
  if (path === "/webhook") return [405, { Allow: "POST" }, "POST /webhook\n"];
  if (path === "/shop" && request.method === "POST") return buy();
  if (path === "/shop") return page('<form method="post"><button>Buy a teapot for 59.97 EUR</button></form>');
  if (path === "/thanks") return page("Thank you. We send the teapot when the payment has arrived."); // the webhook proves that
  return text(404, "POST /webhook\n");
}

for (const dir of [inbox, orders]) mkdirSync(dir, { recursive: true, mode: 0o700 });
for (const name of readdirSync(inbox)) { // what was accepted and not processed when the program last ended
  if (name.endsWith(".json") && !existsSync(`${inbox}/${name.replace(/json$/, "done")}`)) {
    later(parseStored(readFileSync(`${inbox}/${name}`)));
  }
}

const server = createServer({ requestTimeout: 10_000 }, async (request, response) => {
  let [status, headers, body]: Answer = text(500, "try again later\n"); // a delivery is sent again
  try {
    [status, headers, body] = await answer(request);
  } catch (error) {
    console.error(error);
  }
  response.writeHead(status, headers).end(body);
});
server.listen(port, "127.0.0.1");

// What has begun is finished, then nothing keeps the process; what comes now is sent again later.
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.once(signal, () => {
    server.close();
    server.closeIdleConnections();
  });
}
