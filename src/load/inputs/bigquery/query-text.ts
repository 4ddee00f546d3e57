/**
 * GoogleSQL tokens for finding a query's end: string literals in their eight forms, quoted names, comments, and the
 * semicolon. Everything else is read one character at a time.
 */
const TOKEN =
  /--[^\n]*|#[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|"""(?:\\[\s\S]|(?!""")[^\\])*(?:"""|$)|'''(?:\\[\s\S]|(?!''')[^\\])*(?:'''|$)|"(?:\\[\s\S]|[^"\\])*(?:"|$)|'(?:\\[\s\S]|[^'\\])*(?:'|$)|`(?:\\[\s\S]|[^`\\])*(?:`|$)|[\s\S]/g;

/** Removes a query's final semicolons and the comments after them, so that it can be put in parentheses. */
export function withoutSemicolon(query: string): string {
  let end: number | null = null;
  TOKEN.lastIndex = 0;
  for (let match = TOKEN.exec(query); match !== null; match = TOKEN.exec(query)) {
    const [token] = match;
    const isComment = token.startsWith("--") || token.startsWith("#") || token.startsWith("/*");
    if (token === ";") end ??= match.index;
    else if (!isComment && token.trim() !== "") end = null;
  }
  return end === null ? query : query.slice(0, end);
}
