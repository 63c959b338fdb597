// For merchants who write TypeScript or JavaScript. README.md shows how to use it.
import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./openapi.js";

export type { components, paths } from "./openapi.js";
export { constructEvent, maxBody, NoEventError, parseStored, SignatureError } from "./webhook.js";

// Schemas are the objects of the API by name, such as Schemas["Session"].
export type Schemas = components["schemas"];

// Event is what happened. Its `type` tells the compiler which `data` it has.
export type Event = Schemas["Event"];

// createCheckout returns a client of the API at an address, such as https://api.example.com. Its calls have the types of
// every path; an answer has either `data` or `error`, and `error.error` tells which. The key is a secret; keep it on your
// server.
export function createCheckout(address: string, key: string): Client<paths> {
  return createClient<paths>({ baseUrl: address, headers: { Authorization: `Bearer ${key}` } });
}
