import { createHash } from "node:crypto";
import { z } from "zod";
import { text } from "../../config/schema/described.ts";
import type { JobComplaint, JobDeclaration, WrittenJob } from "../../config/schema/jobs.ts";
import { NAME } from "../../config/schema/values.ts";
import { MAX_QUERY_LENGTH, MAX_SEARCH_SIZE } from "../../schemas/person-search.ts";

/** Description of an audience. */
export function queryText() {
  return text(
    {
      expects: `a description of an audience, at most ${MAX_QUERY_LENGTH} characters`,
      hint: 'for example "registered nurses in Ohio with a personal email"',
    },
    (query) => Array.from(query).length > MAX_QUERY_LENGTH,
  );
}

/** Stream of a search: its identity, so that the same text is searched once, whatever its name. */
export function streamOf(query: string, size: number | null = null): string {
  return createHash("sha256")
    .update(JSON.stringify([query, size]))
    .digest("hex")
    .slice(0, 16);
}

const written = z.record(
  z.string(),
  z.object({ query: z.string(), size: z.number().default(MAX_SEARCH_SIZE) }),
);

/** Problems of the names and queries of a job's searches. */
export const searchComplaints: NonNullable<JobDeclaration["complaints"]> = (job: WrittenJob) => {
  const searches = written.safeParse(job["searches"]).data ?? {};
  const complaints: JobComplaint[] = [];
  const earlier = new Map<string, string>();
  for (const [name, { query, size }] of Object.entries(searches)) {
    const path = ["searches", name];
    if (!NAME.test(name)) {
      complaints.push({
        path,
        message: "is not a valid name",
        hint: "use lower-case letters, digits and _, starting with a letter; at most 63 characters",
      });
    }
    const stream = streamOf(query, size);
    const same = earlier.get(stream);
    if (same !== undefined) {
      complaints.push({ path, message: `is the same search as ${same}`, hint: "remove one of them" });
    }
    earlier.set(stream, name);
  }
  return complaints;
};
