import { readFileSync } from "node:fs";

/** A query of docs/model-your-data.md. */
export interface DocQuery {
  readonly number: number;
  /** The question that it answers. */
  readonly question: string;
  readonly sql: string;
}

/** Reads the numbered queries as they stand in the page. */
export function docQueries(): readonly DocQuery[] {
  const page = readFileSync(new URL("../docs/model-your-data.md", import.meta.url), "utf8");
  const blocks = page.matchAll(/^\*\*(\d+)\. (.+?)\*\*.*\n\n```sql\n([^`]+)```$/gmu);
  return [...blocks].map(([, number, question = "", sql = ""]) => ({
    number: Number(number),
    question,
    sql,
  }));
}
