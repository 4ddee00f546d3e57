import type { ShownRequest } from "../jobs/report/job-plan.ts";

/** Formats a request as valid JSON with one record per line. */
export function renderRequest({
  method,
  path,
  body,
}: Pick<ShownRequest, "method" | "path" | "body">): string {
  const members = Object.entries(body).map(
    ([name, value]) =>
      `  ${JSON.stringify(name)}: ${name === "records" ? recordsText(value) : JSON.stringify(value)}`,
  );
  return [`${method} ${path}`, "{", members.join(",\n"), "}"].join("\n");
}

function recordsText(records: unknown): string {
  if (!Array.isArray(records) || records.length === 1) return JSON.stringify(records);
  const lines = records.map((record) => `    ${JSON.stringify(record)}`);
  return ["[", lines.join(",\n"), "  ]"].join("\n");
}
