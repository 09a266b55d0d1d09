// In: the folder with node_modules as the argument, JSON [[name, object], ...] on stdin; out: a line per violation.
//
// Each object is checked twice: by the validator that was compiled from the CRD's schema (patterns, bounds, required fields), and by
// the TypeScript compiler as a literal of the CRD's type, which finds fields that do not exist. An object whose kind none of the
// packages knows is a violation too.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const ts = createRequire(pathToFileURL(join(folder, "package.json")))("typescript");
const PACKAGES = {
  "karpenter.sh": "karpenter",
  "karpenter.k8s.aws": "karpenter",
  "keda.sh": "keda",
  "monitoring.coreos.com": "prometheus-operator",
};

const objects = JSON.parse(readFileSync(0, "utf8"));
const known = [];
for (const [name, object] of objects) {
  const [group] = object.apiVersion.split("/");
  if (!(group in PACKAGES)) {
    console.log(`${name}: no schema for ${object.apiVersion} ${object.kind}`);
    continue;
  }
  const module = `@kubernetes-models/${PACKAGES[group]}/${object.apiVersion}/${object.kind}`;
  known.push([name, object, module]);
  const models = await import(pathToFileURL(join(folder, "node_modules", `${module}.js`)));
  try {
    new models[object.kind](object).validate();
  } catch (error) {
    console.log(`${name}: ${error.message}`);
  }
}

const source = known.map(([, object, module], i) =>
  `import type { I${object.kind} as T${i} } from "${module}"; export const c${i}: T${i} = ${JSON.stringify(object)};`);
const file = join(folder, "objects-under-test.ts");
writeFileSync(file, source.join("\n"));
const program = ts.createProgram([file], {
  noEmit: true, strict: true, skipLibCheck: true, types: [],
  module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext,
});
for (const { messageText, file: where, start } of ts.getPreEmitDiagnostics(program)) {
  const line = where ? where.getLineAndCharacterOfPosition(start).line : 0;
  console.log(`${known[line]?.[0]}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`);
}
