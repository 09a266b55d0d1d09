// In: a kind of constraint and its text; out: the request field with its value, and which part of the text an error means.

import { NotJson, placeOf, placesOf } from "./json_places.js";

/** A value of a request body that stands there as it was typed: numbers keep all their digits, names their order. */
export class Verbatim {
  constructor(text) {
    this.text = text;
  }
}

/** A text that cannot be sent; `place` is [begin, end) in it. */
export class Malformed extends Error {
  constructor(message, place) {
    super(message);
    this.place = place;
  }
}

/** How each kind is named, sent and read. `place(text, rest)`: the part of the text that the rest of an error's param means. */
export const KINDS = {
  json: { label: "JSON Schema", field: "guided_json", value: jsonValue, place: pointerPlace },
  regex: { label: "Regular expression; the whole answer matches it", field: "guided_regex", value: plain, place: columnPlace },
  choice: { label: "Choices, one on each line", field: "guided_choice", value: choices, place: choicePlace },
  grammar: { label: "Grammar, in Lark's or GBNF's notation", field: "guided_grammar", value: plain, place: wordPlace },
};

/** The part of `text` that the `param` of an error names, [begin, end); null where it speaks of something else. */
export function placeOfError(kind, text, param) {
  const { field, place } = KINDS[kind];
  if (typeof param !== "string" || !param.startsWith(field)) return null;
  const rest = param.slice(field.length);
  return rest === "" ? null : place(text, rest);
}

function jsonValue(text) {
  try {
    placesOf(text);
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    throw new Malformed(`not JSON: ${error.message}`, [error.at, error.at + 1]);
  }
  return new Verbatim(text.trim());
}

function plain(text) {
  return text;
}

function choices(text) {
  return text.split("\n").filter((line) => line !== "");
}

function pointerPlace(text, rest) {
  return rest.startsWith("#") ? pointerIn(text, rest.slice(1)) : null;
}

/** The place of a JSON pointer in a schema's text; null where the text is no JSON. */
export function pointerIn(text, pointer) {
  try {
    return placeOf(text, pointer);
  } catch (error) {
    if (error instanceof NotJson) return null;
    throw error;
  }
}

/** ":column" or ":line:column", both from 1, in Unicode characters; JavaScript counts in UTF-16. */
function columnPlace(text, rest) {
  const numbers = rest.slice(1).split(":").map(Number);
  const line = numbers.length === 2 ? numbers[0] : 1;
  const column = numbers[numbers.length - 1];
  let begin = 0;
  for (let skipped = 1; skipped < line; skipped += 1) {
    const end = text.indexOf("\n", begin);
    if (end < 0) return [text.length, text.length];
    begin = end + 1;
  }
  const characters = Array.from(text.slice(begin));
  const before = characters.slice(0, column - 1).join("").length;
  return [begin + before, begin + before + (characters[column - 1] ?? "").length];
}

/** As `columnPlace`, with the rest of the name that begins there. */
function wordPlace(text, rest) {
  const [begin, end] = columnPlace(text, rest);
  const name = /\w+/uy;
  name.lastIndex = begin;
  return name.test(text) ? [begin, name.lastIndex] : [begin, end];
}

/** "#/3": the fourth line that is not empty. */
function choicePlace(text, rest) {
  let begin = 0;
  let position = Number(rest.slice(2));
  for (const line of text.split("\n")) {
    if (line !== "" && position-- === 0) return [begin, begin + line.length];
    begin += line.length + 1;
  }
  return null;
}
