// In: what is typed as a constraint; out: its field for a request, what the server says of it, its marks, advice and picture.

import { Refusal } from "./api.js";
import { bodyText } from "./call.js";
import { KINDS, Malformed, placeOfError, pointerIn } from "./constraints.js";
import { Editor } from "./editor.js";
import { EXAMPLES } from "./examples.js";

const PAUSE_MS = 350; // after the last change, before the server is asked

/** The left half of the page. `changed()`: the constraint is another one, or more is known of it. */
export class ConstraintPanel {
  #api;
  #changed;
  #drafts = {}; // kind -> text
  #kind = "none";
  #asking = new AbortController();
  #timer = 0;
  #drawn = ""; // the body whose picture is shown

  constructor(api, changed) {
    this.#api = api;
    this.#changed = changed;
    this.facts = null; // of the constraint as it is now, null while they are not known
    this.editor = new Editor(byId("editor"), byId("editor-marks"), () => this.#edited());
    for (const radio of document.querySelectorAll("input[name=kind]")) {
      radio.addEventListener("change", () => this.show(radio.value));
    }
    byId("example").addEventListener("change", (event) => this.#example(Number(event.target.value)));
    byId("automaton").addEventListener("toggle", () => this.#draw());
  }

  /** Turns to another kind, with the text that was there last. */
  show(kind) {
    if (this.#kind !== "none") this.#drafts[this.#kind] = this.editor.text;
    this.#kind = kind;
    const examples = EXAMPLES[kind];
    byId("example").replaceChildren(...examples.map(({ name }, index) => new Option(name, String(index))));
    byId("constraint-body").hidden = kind === "none";
    byId("constraint-none").hidden = kind !== "none";
    byId("editor-label").textContent = KINDS[kind]?.label ?? "";
    if (this.#drafts[kind] === undefined) this.#example(0);
    else {
      this.editor.text = this.#drafts[kind];
      this.#edited(0);
    }
  }

  /** {field: value}, empty for none. Throws Malformed. */
  field() {
    if (this.#kind === "none") return {};
    const { field, value } = KINDS[this.#kind];
    return { [field]: value(this.editor.text) };
  }

  /** Asks anew, as after another key. */
  check() {
    this.#edited(0);
  }

  /** Shows an error of the constraint where it is; false where it speaks of something else. */
  refused(error) {
    if (this.#kind === "none") return false;
    const text = this.editor.text;
    const place = error instanceof Malformed ? error.place : placeOfError(this.#kind, text, error.param);
    const ours = place !== null || error.param === KINDS[this.#kind].field;
    if (ours) {
      this.editor.mark([[place ?? [0, 0], "bad"]]);
      // The mark stands for what follows the first line, which shows the place to a terminal.
      this.#say(error.message.split("\n")[0].replace(`${KINDS[this.#kind].field}: `, ""), true);
    }
    return ours;
  }

  #example(index) {
    const { text, prompt } = EXAMPLES[this.#kind][index];
    this.editor.text = text;
    byId("prompt").value = prompt;
    this.#edited(0);
  }

  #edited(pause = PAUSE_MS) {
    this.#asking.abort();
    this.#asking = new AbortController();
    clearTimeout(this.#timer);
    this.facts = null;
    this.#changed();
    if (this.#kind === "none") return;
    this.#say("checking …"); // at once: what was said before was said of another text
    this.#timer = setTimeout(() => this.#ask(this.#asking.signal), pause);
  }

  async #ask(signal) {
    try {
      const body = bodyText(this.field());
      this.facts = await this.#api.compile(body, signal);
      this.#showFacts();
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Refusal || error instanceof Malformed)) throw error;
      byId("facts").hidden = byId("advice").hidden = true;
      if (!this.refused(error)) this.#say(error.message, true);
    }
    this.#changed();
    this.#draw();
  }

  #say(text, isBad = false) {
    const verdict = byId("verdict");
    verdict.textContent = text;
    verdict.classList.toggle("bad", isBad);
  }

  #showFacts() {
    const { facts } = this;
    const growing = facts.closed ? "" : "+"; // the rest is found when it is needed
    const seconds = Object.values(facts.seconds).reduce((sum, one) => sum + one, 0);
    byId("fact-fewest").textContent = facts.fewest_tokens ?? "unknown";
    byId("fact-typical").textContent = facts.typical_tokens === null ? "unknown" : `≈ ${facts.typical_tokens}`;
    byId("fact-most").textContent = facts.most_tokens?.toLocaleString("en") ?? "no bound";
    byId("fact-states").textContent = facts.states.toLocaleString("en") + growing;
    byId("fact-bytes").textContent = bytes(facts.bytes) + growing;
    byId("fact-seconds").textContent = seconds > 0 ? duration(seconds) : "before";
    byId("facts").hidden = false;
    this.#say("The server can enforce this.");
    this.#showAdvice(facts.warnings);
  }

  #showAdvice(warnings) {
    const text = this.editor.text;
    const places = warnings.map(({ pointer }) => pointerIn(text, pointer));
    this.editor.mark(places.filter((place) => place !== null).map((place) => [place, "mind"]));
    const items = warnings.map(({ pointer, message }, index) => {
      const item = document.createElement("li");
      const there = document.createElement("button");
      there.type = "button";
      there.textContent = pointer || "/";
      there.title = "Show the place";
      there.addEventListener("click", () => this.editor.select(places[index] ?? [0, 0]));
      item.append(there, message);
      return item;
    });
    byId("advice-list").replaceChildren(...items);
    byId("advice").hidden = items.length === 0;
  }

  /** The picture, where it is open and another one than before. */
  async #draw() {
    if (!byId("automaton").open || this.facts === null) return;
    const { signal } = this.#asking;
    const body = bodyText(this.field());
    if (body === this.#drawn) return;
    const [message, picture] = [byId("automaton-message"), byId("automaton-picture")];
    message.textContent = "drawing …";
    try {
      const address = URL.createObjectURL(await this.#api.plot(body, signal));
      URL.revokeObjectURL(picture.src);
      picture.src = byId("automaton-file").href = address;
      picture.alt = `State diagram of the constraint, ${this.facts.states.toLocaleString("en")} states in its index.`;
      byId("automaton-figure").hidden = false;
      message.textContent = "";
      this.#drawn = body;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Refusal)) throw error;
      byId("automaton-figure").hidden = true;
      message.textContent = error.message;
    }
  }
}

function byId(id) {
  return document.getElementById(id);
}

function bytes(count) {
  const steps = ["B", "KiB", "MiB", "GiB"];
  const step = Math.min(Math.floor(Math.log2(Math.max(count, 1)) / 10), steps.length - 1);
  const shown = count / 1024 ** step;
  return `${shown < 10 && step > 0 ? shown.toFixed(1) : Math.round(shown)} ${steps[step]}`;
}

function duration(seconds) {
  return seconds < 1 ? `${Math.max(1, Math.round(seconds * 1000))} ms` : `${seconds.toFixed(1)} s`;
}
