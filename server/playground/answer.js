// In: the chunks of a streamed answer and, at its end, the server's report; out: tokens on the page, one of which can be looked at.

const LEVELS = [0.9, 0.5, 0.1, 0.01]; // of probability mass; below each, one more step of pressure

/** The tokens of one answer. A token whose text is not known yet (part of a character) is shown with the next one. */
export class Answer {
  #list;
  #thoughts;
  #note;
  #idle;
  #spans = []; // of tokens that have a text: {element, first, last}, numbers of its tokens
  #count = 0; // tokens so far
  #shown = 0; // of them on the page
  #report = null;
  #chosen = -1;

  /** `list`: the listbox; `thoughts`: the thinking before it; `note`: where one token is described. */
  constructor(list, thoughts, note) {
    this.#list = list;
    this.#thoughts = thoughts;
    this.#note = note;
    this.#idle = note.textContent;
    list.addEventListener("keydown", (event) => this.#key(event));
    list.addEventListener("pointerover", (event) => this.#choose(this.#spans.findIndex((s) => s.element === event.target)));
    list.addEventListener("blur", () => this.#choose(-1));
    list.addEventListener("pointerleave", () => this.#choose(-1));
  }

  get count() {
    return this.#count;
  }

  clear() {
    this.#list.replaceChildren();
    this.#thoughts.textContent = "";
    this.#thoughts.hidden = true;
    this.#spans = [];
    this.#count = this.#shown = 0;
    this.#report = null;
    this.#choose(-1);
  }

  /** `text` was thought in `tokens` more tokens, which are counted and have no place in the list. */
  think(text, tokens) {
    const follow = isAtEnd(this.#thoughts);
    this.#count += tokens;
    this.#shown = this.#count;
    this.#thoughts.append(text);
    this.#thoughts.hidden = false;
    if (follow) this.#thoughts.scrollTop = this.#thoughts.scrollHeight;
  }

  /** `text` was added by `tokens` more tokens. */
  add(text, tokens) {
    this.#count += tokens;
    if (text === "") {
      // Between thinking and answer that is the mark between the two, not the beginning of a character.
      if (!this.#thoughts.hidden && this.#spans.length === 0) this.#shown = this.#count;
      return;
    }
    const follow = isAtEnd(this.#list);
    const element = document.createElement("span");
    element.className = "token";
    element.id = `token-${this.#spans.length}`;
    element.setAttribute("role", "option");
    element.setAttribute("aria-selected", "false");
    element.textContent = text;
    this.#spans.push({ element, first: this.#shown, last: Math.max(this.#shown, this.#count - 1) });
    this.#shown = this.#count;
    this.#list.append(element);
    if (follow) this.#list.scrollTop = this.#list.scrollHeight;
  }

  /** Colours the tokens by the server's `guided` object; without one they stay as they are. */
  colour(report) {
    this.#report = report;
    for (const span of this.#spans) {
      const mass = this.#least("token_mass", span);
      if (mass !== null) span.element.classList.add(`pressure-${LEVELS.filter((level) => mass < level).length}`);
      if (this.#isForced(span)) span.element.classList.add("forced");
    }
  }

  /** The least value of a per-token list of the report over a span; null where there is none. */
  #least(name, { first, last }) {
    const values = (this.#report?.[name] ?? []).slice(first, last + 1).filter((value) => value !== null);
    return values.length === 0 ? null : Math.min(...values);
  }

  #isForced({ first, last }) {
    const allowed = this.#report?.token_allowed?.slice(first, last + 1) ?? [];
    return allowed.length > 0 && allowed.every((count) => count === 1);
  }

  // --- one token ---------------------------------------------------------------------------------------------------

  #key(event) {
    const last = this.#spans.length - 1;
    const next = {
      ArrowRight: Math.min(this.#chosen + 1, last),
      ArrowDown: Math.min(this.#chosen + 1, last),
      ArrowLeft: Math.max(this.#chosen - 1, 0),
      ArrowUp: Math.max(this.#chosen - 1, 0),
      Home: 0,
      End: last,
    }[event.key];
    if (next === undefined || last < 0) return;
    event.preventDefault();
    this.#choose(next);
    this.#spans[next].element.scrollIntoView({ block: "nearest" });
  }

  #choose(index) {
    const before = this.#spans[this.#chosen];
    before?.element.classList.remove("chosen");
    before?.element.setAttribute("aria-selected", "false");
    this.#chosen = index;
    const span = this.#spans[index];
    if (span === undefined) {
      this.#list.removeAttribute("aria-activedescendant");
      this.#note.textContent = this.#idle;
      return;
    }
    span.element.classList.add("chosen");
    span.element.setAttribute("aria-selected", "true");
    this.#list.setAttribute("aria-activedescendant", span.element.id);
    this.#note.textContent = this.#described(span);
  }

  #described(span) {
    const { first, last, element } = span;
    const which = first === last ? `Token ${first + 1}` : `Tokens ${first + 1} to ${last + 1}`;
    const parts = [`${which} of ${this.#count}: ${JSON.stringify(element.textContent)}`];
    const allowed = this.#least("token_allowed", span);
    const mass = this.#least("token_mass", span);
    if (this.#isForced(span)) parts.push("forced");
    else if (allowed !== null) parts.push(`${allowed.toLocaleString("en")} allowed`);
    if (mass !== null) parts.push(`${percent(mass)} left`);
    return parts.join(" · ");
  }
}

/** Has its reader not scrolled back? */
function isAtEnd(element) {
  return element.scrollHeight - element.scrollTop - element.clientHeight < 8;
}

/** A share in a form that tells small ones apart. */
export function percent(share) {
  return share >= 0.01 ? `${Math.round(share * 100)} %` : `${(share * 100).toPrecision(1)} %`;
}
