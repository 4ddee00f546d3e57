import { randomUUID } from "node:crypto";

/** Text that starts what stands for a number in {@link parseDeeply}; nobody can have sent it. */
const MARK = `number ${randomUUID()} `;

const NUMBER = /-?\d[\d.eE+-]*/g;

/** Position behind the string that begins at `open`. */
function endOfString(text: string, open: number): number {
  for (let quote = text.indexOf('"', open + 1); ; quote = text.indexOf('"', quote + 1)) {
    let escapes = 0;
    while (text[quote - 1 - escapes] === "\\") escapes += 1;
    if (escapes % 2 === 0) return quote + 1;
  }
}

/** The same JSON, with marked strings in place of the numbers that aren't exact; `text` is known to be JSON. */
function mark(text: string, isExact: (source: string) => boolean): string {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    const open = text.indexOf('"', at);
    const end = open < 0 ? text.length : open;
    pieces.push(
      text.slice(at, end).replaceAll(NUMBER, (source) => (isExact(source) ? source : `"${MARK}${source}"`)),
    );
    at = open < 0 ? end : endOfString(text, open);
    pieces.push(text.slice(end, at));
  }
  return pieces.join("");
}

function sourceOf(value: unknown): string | null {
  return typeof value === "string" && value.startsWith(MARK) ? value.slice(MARK.length) : null;
}

/** Puts the numbers back in place of their marks, without recursion. */
function unmark(root: unknown): unknown {
  const holder: object = { root };
  const open: object[] = [holder];
  for (let container = open.pop(); container; container = open.pop()) {
    for (const [key, value] of Object.entries(container)) {
      const source = sourceOf(value);
      if (source !== null) Reflect.set(container, key, JSON.rawJSON(source));
      else if (typeof value === "object" && value !== null) open.push(value);
    }
  }
  return Object.values(holder)[0];
}

/** Parses what is known to be JSON, of any depth; numbers that aren't `isExact` become a `JSON.rawJSON` of their source text. */
export function parseDeeply(text: string, isExact: (source: string) => boolean): unknown {
  return unmark(JSON.parse(mark(text, isExact)));
}
