// What a merchant writes around clients that are generated from the served OpenAPI document: openapi-fetch with the types
// of openapi-typescript makes the calls, and orval's zod schemas read the answers. The clients of orval, hey-api and
// swagger-typescript-api retrieve the same sessions. The test of deploy/proof/e2e generates all beside it, in a copy of
// this directory.
import { deepStrictEqual } from "node:assert";
import createClient from "openapi-fetch";
import { getSession as getByOrval } from "./fetch.js";
import { getSession as getByHey } from "./hey/index.js";
import type { components, paths } from "./openapi.js";
import { Api } from "./swagger.js";
import * as zod from "./zod.js";

type Schemas = components["schemas"];

const [url, key, hook] = process.argv.slice(2);
if (!url || !key || !hook) throw new Error("usage: main URL KEY WEBHOOK");
const authorized = { headers: { Authorization: `Bearer ${key}` } };
const client = createClient<paths>({ baseUrl: url, ...authorized });
const swagger = new Api({ baseUrl: url, baseApiParams: authorized });

// getters retrieve a session with each of the other clients.
const getters = [
  async (id: string) => (await getByOrval(id, authorized)).data,
  async (id: string) => answered(await getByHey({ baseUrl: url, auth: key, path: { id } })),
  async (id: string) => (await swagger.v1.getSession(id)).data,
];

// answered returns the data of an answer, and fails when there is an error instead.
function answered<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

async function create(amount: number, order: string) {
  return client.POST("/v1/checkout", {
    body: { amount, currency: "EUR", payout_currency: "USDC", metadata: { order_id: order, items: 3, gift: true } },
  });
}

async function sessions() {
  for (const amount of [300000.33, 999999.99, 0.5, 10.1]) {
    const created = answered(await create(amount, `order-${amount}`));
    const read = answered(await client.GET("/v1/checkout/{id}", { params: { path: { id: created.id } } }));
    for (const get of getters) deepStrictEqual(await get(created.id), read);
    console.log("amount", zod.getSessionResponse.parse(read).amount.toFixed(2));
  }
  const last = answered(await create(20, "order-20"));

  let [pages, seen] = [0, 0];
  for (let cursor: string | null | undefined; cursor !== null; pages++) {
    const page = answered(await client.GET("/v1/checkout", { params: { query: { limit: 2, cursor } } }));
    seen += zod.listSessionsResponse.parse(page).data.length;
    cursor = page.next_cursor;
  }
  console.log("pages", pages, "sessions", seen);

  const { error } = await create(20, "order-20");
  if (error?.error === "order_id_in_use") console.log("refused", error.error, error.status, error.session_id === last.id);
  const expired = answered(await client.POST("/v1/checkout/{id}/expire", { params: { path: { id: last.id } } }));
  console.log(zod.expireSessionResponse.parse(expired).status, expired.payout === null);
}

// told describes an event. The compiler knows the data of each type.
function told(event: Schemas["Event"]): string {
  switch (event.type) {
    case "checkout.completed":
    case "refund.succeeded":
      return `${event.type} ${event.data.amount.toFixed(2)}`;
    case "payout.sent":
      return `${event.type} ${event.data.amount}`;
    case "checkout.failed":
    case "payout.failed":
    case "refund.failed":
      return `${event.type} ${event.data.failure?.code}`;
    case "dispute.opened":
    case "dispute.closed":
      return `${event.type} ${event.data.status}`;
    case "payout.reduced":
      return `${event.type} ${event.data.deductions?.[0]?.amount.toFixed(2)}`;
    case "merchant.updated":
      return `${event.type} ${event.data.changed.length}`;
  }
}

async function events() {
  const webhook = answered(await client.POST("/v1/webhooks", { body: { url: hook, events: ["*"] } }));
  const path = { id: webhook.id };
  let delivery = "";
  for (const type of [
    "checkout.completed", "checkout.failed", "payout.sent", "payout.failed", "merchant.updated", "refund.succeeded",
    "refund.failed", "dispute.opened", "dispute.closed", "payout.reduced",
  ] as const) {
    const sent = answered(await client.POST("/v1/webhooks/{id}/test", { params: { path }, body: { type } }));
    delivery = sent.delivery.id;
  }
  const list = answered(await client.GET("/v1/events"));
  zod.listEventsResponse.parse(list);
  for (const event of list.data) console.log(told(event));

  for (let attempt = 0; ; attempt++) {
    const params = { path: { id: delivery } };
    const got = answered(await client.GET("/v1/deliveries/{id}", { params }));
    if (zod.getDeliveryResponse.parse(got).status === "delivered") {
      const { data } = await client.POST("/v1/deliveries/{id}/replay", { params }); // 409 until the first run has ended
      if (data) {
        console.log("replayed", data.id === delivery);
        break;
      }
    }
    if (attempt === 600) throw new Error(`not delivered: ${got.status}`);
    await new Promise((done) => setTimeout(done, 100));
  }
  console.log("deleted", answered(await client.DELETE("/v1/webhooks/{id}", { params: { path } })).deleted);
}

await sessions();
await events();
