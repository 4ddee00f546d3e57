import type { ShownRequest } from "../jobs/report/job-plan.ts";

/** Formats a request as valid JSON with one record per line. */
export function renderRequest({
  method,
  path,
  body,
}: Pick<ShownRequest, "method" | "path" | "body">): string {
  return `${method} ${path}\n${bodyText(body)}`;
}

function bodyText(body: unknown): string {
  // A body is an object; anything else has no records to break into lines.
  if (typeof body !== "object" || body === null) return JSON.stringify(body);
  const members = Object.entries(body).map(
    ([name, value]) => `  ${JSON.stringify(name)}: ${valueText(value)}`,
  );
  return ["{", members.join(",\n"), "}"].join("\n");
}

function valueText(value: unknown): string {
  if (!Array.isArray(value)) return JSON.stringify(value);
  const lines = value.map((item) => `    ${JSON.stringify(item)}`);
  return ["[", lines.join(",\n"), "  ]"].join("\n");
}
