// The client of hey-api as it is by default. Its imports end with .js, as Node needs them.
export default { input: "openapi.yaml", output: { path: "hey", importFileExtension: ".js" } };
