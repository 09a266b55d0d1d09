// In: what to ask this server; out: its answers, or a Refusal. The one place that knows HTTP; addresses are relative to the page.

const CHAT = "v1/chat/completions";

/** An error answer. `param` and `code` are the server's, null where it gave none; status 0: there was no answer at all. */
export class Refusal extends Error {
  constructor(message, { status = 0, param = null, code = null } = {}) {
    super(message);
    this.status = status;
    this.param = param;
    this.code = code;
  }
}

/** Speaks to the server with a key, if there is one. */
export class Api {
  constructor() {
    this.key = "";
  }

  async models() {
    const list = await (await this.#send("GET", "v1/models")).json();
    return list.data.map((model) => model.id);
  }

  /** What there is to know of the constraint in `body`, JSON text. */
  async compile(body, signal) {
    return (await this.#send("POST", "v1/guided/compile", body, signal)).json();
  }

  /** Its automaton, an SVG picture as a Blob. */
  async plot(body, signal) {
    return (await this.#send("POST", "v1/guided/plot", body, signal)).blob();
  }

  /** The chunks of a streamed chat completion. */
  async *chat(body, signal) {
    const response = await this.#send("POST", CHAT, body, signal);
    for await (const data of events(response.body)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error !== undefined) throw refusalOf(chunk, chunk.error.code);
      yield chunk;
    }
    throw new Refusal("the connection was closed before the answer was complete");
  }

  async #send(method, path, body, signal) {
    const headers = {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (this.key !== "") headers.Authorization = `Bearer ${this.key}`;
    let response;
    try {
      response = await fetch(path, { method, headers, body, signal, credentials: "omit", cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refusal("the server cannot be reached");
    }
    if (!response.ok) throw refusalOf(await bodyOf(response), response.status, response.headers.get("Retry-After"));
    return response;
  }
}

async function bodyOf(response) {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return { error: text };
  }
}

/** Of OpenAI's error body; in front of the server there may be others, with bodies of their own. */
function refusalOf(body, status, retryAfter = null) {
  const error = body.error ?? body;
  if (status === 401) {
    const isMissing = error.code !== "invalid_api_key";
    return new Refusal(isMissing ? "This server wants an API key: enter it above." : "The server does not know this API key.", { status });
  }
  const message = typeof error === "string" ? error : (error.message ?? JSON.stringify(error));
  const later = retryAfter === null ? "" : ` (try again in ${retryAfter} s)`;
  return new Refusal((message || `HTTP ${status}`) + later, {
    status: typeof status === "number" ? status : 0,
    param: error.param ?? null,
    code: typeof error.code === "string" ? error.code : null,
  });
}

/** The data of the server-sent events in a stream of bytes. */
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split(/\r?\n/);
      rest = lines.pop();
      for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
    }
  } finally {
    reader.cancel().catch(() => {}); // of a connection that is gone
  }
}
