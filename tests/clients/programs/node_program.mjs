// OpenAI's client for Node: chat, stream, parse helper, an error, and tools. Arguments: URL, model, way. Prints one line of JSON.
import { createRequire } from "node:module";

const require = createRequire(process.env.CLIENTS_FOLDER + "/");
const { OpenAI } = require("openai");

const [url, model, way] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "Sentiment of: every customer was logged out. One word:" }];
const choice = { guided_choice: ["POSITIVE", "NEUTRAL", "NEGATIVE"] };
const parameters = {
  type: "object",
  properties: { x: { type: "integer", minimum: 0, maximum: 9 }, y: { type: "integer", minimum: 0, maximum: 9 } },
  required: ["x", "y"],
  additionalProperties: false,
};

const ways = {
  async chat() {
    const made = await client.chat.completions.create({ model, messages, ...choice });
    return made.choices[0].message.content;
  },
  async stream() {
    const stream = await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true }, ...choice });
    let text = "";
    let tokens = 0;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta?.content ?? "";
      tokens = chunk.usage?.completion_tokens ?? tokens;
    }
    if (!(tokens > 0)) throw new Error("no usage");
    return text;
  },
  async schema() {
    const response_format = { type: "json_schema", json_schema: { name: "sum", strict: true, schema: parameters } };
    const made = await client.chat.completions.parse({ model, messages, max_tokens: 80, response_format });
    return made.choices[0].message.parsed;
  },
  async responses() {
    const format = { type: "json_schema", name: "sum", strict: true, schema: parameters };
    const made = await client.responses.create({ model, input: "two digits as JSON", max_output_tokens: 80, text: { format } });
    return JSON.parse(made.output_text);
  },
  async error() {
    try {
      await client.chat.completions.create({ model, messages, stream: true, guided_regex: "(a" });
    } catch (error) {
      return { status: error.status, code: error.code, param: error.param, type: error.type };
    }
    throw new Error("no error");
  },
  async tools() {
    const tools = [{ type: "function", function: { name: "add", parameters } }];
    const made = await client.chat.completions.create({ model, messages, max_tokens: 200, tools, tool_choice: "required" });
    const call = made.choices[0].message.tool_calls[0];
    return { name: call.function.name, arguments: JSON.parse(call.function.arguments), reason: made.choices[0].finish_reason };
  },
};
console.log(JSON.stringify(await ways[way]()));
