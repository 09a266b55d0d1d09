// In: a text area over a copy of its text; out: a text with marked places. Knows no constraint.

/** The copy carries the marks and gives the height; the text area lies over it and shows the text. */
export class Editor {
  #marks = []; // [begin, end, kind], kind "bad" or "mind"

  /** `changed()` is called after each change by hand. */
  constructor(area, copy, changed) {
    this.area = area;
    this.copy = copy;
    area.addEventListener("input", () => {
      this.mark([]);
      changed();
    });
  }

  get text() {
    return this.area.value;
  }

  set text(text) {
    this.area.value = text;
    this.mark([]);
  }

  /** Marks places, [[begin, end], "bad" or "mind"] each; of those that overlap the first. An empty place is one character wide. */
  mark(places) {
    const wide = places.map(([[begin, end], kind]) => [begin, Math.max(end, begin + 1), kind]);
    wide.sort((one, other) => one[0] - other[0]);
    this.#marks = wide;
    this.area.setAttribute("aria-invalid", String(places.some(([, kind]) => kind === "bad")));
    this.#draw();
  }

  /** Puts the cursor on a place and shows it. */
  select([begin, end]) {
    this.area.focus();
    this.area.setSelectionRange(begin, end);
    for (const mark of this.copy.querySelectorAll("mark")) {
      if (Number(mark.dataset.begin) === begin) mark.scrollIntoView({ block: "nearest" });
    }
  }

  #draw() {
    const text = `${this.text} \n`; // the space is there to be marked: an error may be that the text ends
    const parts = [];
    let at = 0;
    for (const [begin, end, kind] of this.#marks) {
      if (begin < at) continue;
      const mark = document.createElement("mark");
      mark.className = kind;
      mark.dataset.begin = String(begin);
      mark.textContent = text.slice(begin, end);
      parts.push(text.slice(at, begin), mark);
      at = end;
    }
    this.copy.replaceChildren(...parts, text.slice(at));
  }
}
