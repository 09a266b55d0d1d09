// In: a prompt, options and the constraint's field; out: the streamed answer, its figures, and the call as text.

import { Refusal } from "./api.js";
import { Answer, percent } from "./answer.js";
import { bodyText, curlCall, pythonCall } from "./call.js";
import { Malformed } from "./constraints.js";

const FREE_TOKENS = 200; // of an answer that nothing bounds
const OPTIONS = { max_tokens: "max-tokens", temperature: "temperature", seed: "seed" };
const ENDINGS = {
  stop: "Complete.",
  length: "Ended with the last token that it may have.",
  tool_calls: "Ended in a tool call.",
};

/** The right half of the page. `model()`: the chosen one. `unauthorised(message)`: the server wants another key. */
export class RequestPanel {
  #api;
  #constraint;
  #model;
  #unauthorised;
  #running = null; // the AbortController of an answer under way

  constructor(api, constraint, model, unauthorised) {
    this.#api = api;
    this.#constraint = constraint;
    this.#model = model;
    this.#unauthorised = unauthorised;
    this.answer = new Answer(byId("tokens"), byId("thoughts"), byId("token-note"));
    byId("request").addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    byId("request").addEventListener("input", () => this.showCall());
    byId("stop").addEventListener("click", () => this.stop());
    byId("copy").addEventListener("click", () => this.#copy());
    for (const radio of document.querySelectorAll("input[name=language]")) {
      radio.addEventListener("change", () => this.showCall());
    }
    document.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.run();
      else if (event.key === "Escape") this.stop();
    });
  }

  // --- the call ----------------------------------------------------------------------------------------------------

  /** The fields of the request as a program would send them. Throws Malformed. */
  #fields() {
    const given = Object.entries(OPTIONS).map(([name, id]) => [name, byId(id).value]);
    const options = Object.fromEntries(given.filter(([, value]) => value !== "").map(([name, value]) => [name, Number(value)]));
    const messages = [{ role: "user", content: byId("prompt").value }];
    return { model: this.#model(), messages, max_tokens: this.#suggestedTokens(), ...options, ...this.#constraint.field() };
  }

  #suggestedTokens() {
    return this.#constraint.facts?.max_tokens ?? FREE_TOKENS;
  }

  showCall() {
    byId("max-tokens").placeholder = `auto: ${this.#suggestedTokens()}`;
    const language = document.querySelector("input[name=language]:checked").value;
    const base = new URL(".", document.baseURI).href.replace(/\/$/, "");
    try {
      byId("call").textContent = (language === "curl" ? curlCall : pythonCall)(base, this.#fields(), this.#api.key !== "");
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      byId("call").textContent = `${KINDLY}${error.message}`;
    }
    byId("copied").textContent = "";
  }

  async #copy() {
    const text = byId("call").textContent;
    try {
      await navigator.clipboard.writeText(text);
      this.#copied("Copied");
    } catch {
      // The clipboard is for https and localhost only; elsewhere the text is selected, for the reader's own keys.
      getSelection().selectAllChildren(byId("call"));
      this.#copied("Selected: press Ctrl+C");
    }
  }

  #copied(text) {
    byId("copied").textContent = text;
    byId("copy").textContent = text;
    setTimeout(() => (byId("copy").textContent = "Copy"), 2000);
  }

  // --- an answer ---------------------------------------------------------------------------------------------------

  stop() {
    this.#running?.abort();
  }

  async run() {
    if (this.#running !== null) return;
    this.#running = new AbortController();
    this.#clear();
    const begin = performance.now();
    try {
      await this.#stream(this.#fields(), begin);
    } catch (error) {
      if (error.name === "AbortError") this.#say(`Stopped after ${this.answer.count} tokens.`);
      else if (error instanceof Refusal || error instanceof Malformed) this.#refused(error);
      else throw error;
    } finally {
      this.#running = null;
      byId("run").disabled = false;
      byId("stop").disabled = true;
      byId("tokens").setAttribute("aria-busy", "false");
    }
  }

  async #stream(fields, begin) {
    const { signal } = this.#running;
    let [first, ending, report, usage] = [null, null, null, null];
    for await (const chunk of this.#chunks(fields, signal)) {
      const choice = chunk.choices[0];
      report = chunk.guided ?? report;
      usage = chunk.usage ?? usage;
      if (choice === undefined) continue;
      const tokens = choice.token_ids?.length ?? 0;
      const text = choice.delta.content ?? "";
      const thought = choice.delta.reasoning ?? choice.delta.reasoning_content ?? "";
      if (first === null && (text !== "" || thought !== "")) first = performance.now();
      if (thought !== "") this.answer.think(thought, text === "" ? tokens || 1 : 0);
      if (thought === "" || text !== "") this.answer.add(text, tokens || (text === "" ? 0 : 1));
      ending = choice.finish_reason ?? ending;
    }
    if (report !== null) this.answer.colour(report);
    byId("legend").hidden = !report?.token_mass;
    this.#say(ENDINGS[ending] ?? `Ended: ${ending ?? "the server gave no reason"}.`);
    this.#showFigures(usage, report, first === null ? null : first - begin, performance.now() - begin);
  }

  /** The chunks of an answer; of a constrained one with the server's report. */
  #chunks(fields, signal) {
    const streamed = { ...fields, stream: true, stream_options: { include_usage: true }, return_token_ids: true };
    const constrained = Object.keys(fields).some((name) => name.startsWith("guided_"));
    return this.#api.chat(bodyText(constrained ? { ...streamed, guided_options: { report: true } } : streamed), signal);
  }

  #clear() {
    this.answer.clear();
    this.#say("");
    byId("legend").hidden = byId("figures").hidden = true;
    byId("run").disabled = true;
    byId("stop").disabled = false;
    byId("tokens").setAttribute("aria-busy", "true");
    for (const id of Object.values(OPTIONS)) byId(id).removeAttribute("aria-invalid");
  }

  #refused(error) {
    this.#say(error.message, true);
    this.#constraint.refused(error);
    byId(OPTIONS[error.param] ?? "")?.setAttribute("aria-invalid", "true");
    if (error.status === 401) this.#unauthorised(error.message);
  }

  #say(text, isBad = false) {
    const outcome = byId("outcome");
    outcome.textContent = text;
    outcome.classList.toggle("bad", isBad);
  }

  #showFigures(usage, report, firstMs, wholeMs) {
    const tokens = usage?.completion_tokens ?? this.answer.count;
    const rest = firstMs === null ? 0 : wholeMs - firstMs;
    const figures = [
      ["tokens", tokens],
      ["first token", firstMs === null ? "none" : `${Math.round(firstMs)} ms`],
      ["tokens/s", rest > 0 && tokens > 1 ? ((tokens - 1) / (rest / 1000)).toFixed(1) : "n/a"],
    ];
    if (report !== null) {
      if (report.forced_tokens !== null) figures.push(["forced", report.forced_tokens]);
      if (report.mass !== null) figures.push(["left, mean", percent(report.mass.mean)], ["left, least", percent(report.mass.min)]);
      figures.push(["index from", report.cache]);
    }
    const items = figures.map(([name, value]) => {
      const [item, term, description] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
      term.textContent = name;
      description.textContent = String(value);
      item.append(term, description);
      return item;
    });
    byId("figures").replaceChildren(...items);
    byId("figures").hidden = false;
  }
}

const KINDLY = "Not yet a call that can be sent: ";

function byId(id) {
  return document.getElementById(id);
}
