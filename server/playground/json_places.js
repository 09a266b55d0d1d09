// In: JSON text; out: where each value stands in it, by JSON pointer, or where the text is no JSON. Knows no schema.

const SHORT = 60; // characters of a value that is shown whole
const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORD = /true|false|null/y;

/** A text that is no JSON; `at` is the offset where reading it failed. */
export class NotJson extends Error {
  constructor(message, at) {
    super(message);
    this.at = at;
  }
}

/** Map of JSON pointer -> {value, name}, [begin, end) in `text`; the name is null where there is none. Of a repeated name the last. Throws NotJson. */
export function placesOf(text) {
  const places = new Map();
  let at = 0;

  function take(pattern) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found !== null) at = pattern.lastIndex;
    return found === null ? null : found[0];
  }

  function expect(character, what) {
    take(SPACE);
    if (text[at] !== character) throw new NotJson(`${what} is expected here`, at);
    at += 1;
  }

  function members(pointer, end, one) {
    at += 1;
    take(SPACE);
    if (text[at] === end) {
      at += 1;
      return;
    }
    for (let position = 0; ; position += 1) {
      one(pointer, position);
      take(SPACE);
      if (text[at] === end) {
        at += 1;
        return;
      }
      expect(",", `a comma or ${end}`);
    }
  }

  function member(pointer) {
    take(SPACE);
    const name = take(STRING);
    if (name === null) throw new NotJson("a name in double quotes is expected here", at);
    const place = [at - name.length, at];
    expect(":", "a colon");
    value(`${pointer}/${JSON.parse(name).replaceAll("~", "~0").replaceAll("/", "~1")}`, place);
  }

  function value(pointer, name = null) {
    take(SPACE);
    const begin = at;
    if (text[at] === "{") members(pointer, "}", member);
    else if (text[at] === "[") members(pointer, "]", (inside, position) => value(`${inside}/${position}`));
    else if (take(STRING) === null && take(NUMBER) === null && take(WORD) === null) {
      throw new NotJson(at < text.length ? "a JSON value is expected here" : "the text ends too early", at);
    }
    places.set(pointer, { value: [begin, at], name });
  }

  value("");
  take(SPACE);
  if (at < text.length) throw new NotJson("nothing may follow the value", at);
  return places;
}

/** What to show for a pointer, [begin, end) in `text`: the value, its name where it is long, or its first character. */
export function placeOf(text, pointer) {
  const places = placesOf(text);
  let inner = pointer;
  while (!places.has(inner)) inner = inner.slice(0, inner.lastIndexOf("/")); // the nearest value around it
  const { value, name } = places.get(inner);
  const isShort = value[1] - value[0] <= SHORT && !text.slice(...value).includes("\n");
  return isShort ? value : (name ?? [value[0], value[0] + 1]);
}
