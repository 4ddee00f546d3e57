/** JSON list of some JSON texts. Concatenated, not joined: the texts are copied only once, into the answer. */
export function listText(texts: readonly string[]): string {
  let list = "[";
  for (const text of texts) list += list === "[" ? text : `,${text}`;
  return `${list}]`;
}
