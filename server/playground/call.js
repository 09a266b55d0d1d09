// In: the fields of a request; out: its body, and the same call for curl and for Python. The key itself is in none of them.

import { Verbatim } from "./constraints.js";

/** JSON text of a body; `Verbatim` values stand in it as they are. */
export function bodyText(fields) {
  const members = Object.entries(fields).map(([name, value]) => `${JSON.stringify(name)}: ${written(value)}`);
  return `{${members.join(", ")}}`;
}

function written(value) {
  return value instanceof Verbatim ? value.text : JSON.stringify(value);
}

/** A command for a POSIX shell. */
export function curlCall(base, fields, hasKey) {
  const key = hasKey ? ' \\\n  -H "Authorization: Bearer $GUIDED_API_KEY"' : "";
  // Strings in JSON hold no line breaks, so what follows one may be indented.
  const members = Object.entries(fields).map(([name, value]) => `  ${JSON.stringify(name)}: ${written(value).replaceAll("\n", "\n  ")}`);
  const body = `{\n${members.join(",\n")}\n}`.replaceAll("'", "'\\''");
  return `curl -s ${base}/v1/chat/completions -H 'Content-Type: application/json'${key} -d '${body}'`;
}

/** A program for OpenAI's client. */
export function pythonCall(base, fields, hasKey) {
  const { model, messages, ...rest } = fields;
  const key = hasKey ? 'os.environ["GUIDED_API_KEY"]' : '"none"';
  const options = [];
  let constant = "";
  let extra = "";
  for (const [name, value] of Object.entries(rest)) {
    if (name.startsWith("guided_")) {
      const constantName = { guided_json: "SCHEMA", guided_regex: "PATTERN", guided_choice: "CHOICES", guided_grammar: "GRAMMAR" }[name];
      constant = `\n${constantName} = ${pythonValue(value)}\n`;
      extra = `\n    extra_body={"${name}": ${constantName}},`;
    } else options.push(`\n    ${name}=${pythonValue(value)},`);
  }
  return `${hasKey ? "import os\n\n" : ""}from openai import OpenAI

client = OpenAI(base_url=${pythonText(`${base}/v1`)}, api_key=${key})
${constant}
answer = client.chat.completions.create(
    model=${pythonText(model)},
    messages=[{"role": "user", "content": ${pythonText(messages[0].content)}}],${options.join("")}${extra}
)
print(answer.choices[0].message.content)
`;
}

/** A Python literal of a text, a number or a list of texts; a schema stays JSON text, which the server reads as well. */
function pythonValue(value) {
  if (value instanceof Verbatim) return pythonText(value.text);
  if (Array.isArray(value)) return `[${value.map(pythonText).join(", ")}]`;
  return typeof value === "string" ? pythonText(value) : String(value);
}

/** As a person would write it: raw where there are backslashes, in three quotes where there are lines. */
function pythonText(text) {
  const quotes = text.includes("\n") ? '"""' : '"';
  const fits = !text.includes(quotes) && !text.endsWith('"') && !text.endsWith("\\") && !/[\r\0]/.test(text);
  if (!fits || (text.includes("\\") && /[\ud800-\udfff]/.test(text.replace(/[\ud800-\udbff][\udc00-\udfff]/g, "")))) {
    return JSON.stringify(text);
  }
  return `${text.includes("\\") ? "r" : ""}${quotes}${text}${quotes}`;
}
