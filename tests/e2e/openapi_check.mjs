// Reads {document, samples: [{what, schema, value}]} on standard input: is the document OpenAPI, and is
// each sample what its schema in the document says, without a field that the schema does not have? Prints
// a line for each fault.
//
//   node openapi_check.mjs NODE_MODULES
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const require = createRequire(process.argv[2] + "/");
const { Validator } = await import(
  require.resolve("@seriousme/openapi-schema-validator"));
const { default: Ajv } = await import(require.resolve("ajv/dist/2020.js"));

const { document, samples } = JSON.parse(readFileSync(0, "utf8"));
const text = JSON.stringify(document);
const faults = [];

const verdict = await new Validator().validate(JSON.parse(text));
if (!verdict.valid) {
  faults.push("the document: " + JSON.stringify(verdict.errors).slice(0, 2000));
}

/** Objects have no other fields than the schema names. */
function strict(node) {
  if (node === null || typeof node !== "object") return;
  if (node.type === "object" && node.properties !== undefined) node.additionalProperties ??= false;
  Object.values(node).forEach(strict);
}

const exact = JSON.parse(text);
strict(exact.components.schemas);
const ajv = new (Ajv.default ?? Ajv)({ strict: false, allErrors: true });
ajv.addSchema(exact, "document");
for (const { what, schema, value } of samples) {
  const validate = ajv.getSchema("document#/components/schemas/" + schema);
  if (!validate(value)) {
    faults.push(`${what} is no ${schema}: ` + ajv.errorsText(validate.errors) + " in " +
                JSON.stringify(value).slice(0, 500));
  }
}
console.log(faults.join("\n"));
process.exit(faults.length ? 1 : 0);
