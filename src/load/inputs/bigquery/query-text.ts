/**
 * What matters in GoogleSQL for finding a query's end: texts in their eight spellings, quoted names, comments, and the
 * semicolon. Anything else is one character at a time.
 */
const TOKEN =
  /--[^\n]*|#[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|"""(?:\\[\s\S]|(?!""")[^\\])*(?:"""|$)|'''(?:\\[\s\S]|(?!''')[^\\])*(?:'''|$)|"(?:\\[\s\S]|[^"\\])*(?:"|$)|'(?:\\[\s\S]|[^'\\])*(?:'|$)|`(?:\\[\s\S]|[^`\\])*(?:`|$)|[\s\S]/g;

/** A query without the semicolons that end it and the comments after them, so that it can stand in parentheses. */
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
