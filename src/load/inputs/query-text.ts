/** Tokens for finding a query's end. Matches only the start of a block comment. */
const TOKEN =
  /\s+|--[^\n]*|\/\*|e'(?:[^'\\]|''|\\[^])*'|'[^']*'|"[^"]*"|\$([a-z_\u0080-\uffff][\w\u0080-\uffff]*|)\$[^]*?\$\1\$|[\w\u0080-\uffff]+|[^]/giy;

/** End of a block comment, which may contain others. */
function endOfComment(text: string, start: number): number {
  let depth = 0;
  for (let i = start; i < text.length; i++) {
    const two = text.slice(i, i + 2);
    if (two !== "/*" && two !== "*/") continue;
    depth += two === "/*" ? 1 : -1;
    i++;
    if (depth === 0) return i + 1;
  }
  return text.length;
}

/** Removes a query's final semicolons and the comments after them, so that it can be parenthesized. */
export function withoutSemicolon(query: string): string {
  let end: number | null = null;
  TOKEN.lastIndex = 0;
  for (let match = TOKEN.exec(query); match !== null; match = TOKEN.exec(query)) {
    const [token] = match;
    if (token === "/*") TOKEN.lastIndex = endOfComment(query, match.index);
    else if (token === ";") end ??= match.index;
    else if (!token.startsWith("--") && token.trim() !== "") end = null;
  }
  return end === null ? query : query.slice(0, end);
}
