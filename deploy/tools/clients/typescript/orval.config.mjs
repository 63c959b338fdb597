// Zod schemas of every answer, as orval writes them by default.
export default { checkout: { input: "openapi.yaml", output: { client: "zod", mode: "single", target: "zod.ts" } } };
