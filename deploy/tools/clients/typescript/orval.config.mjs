// Zod schemas of every answer and a client that uses fetch, as orval writes them by default.
const written = (client) => ({
  input: "openapi.yaml",
  output: { client, mode: "single", target: `${client}.ts`, baseUrl: { getBaseUrlFromSpecification: true } },
});
export default { zod: written("zod"), fetch: written("fetch") };
