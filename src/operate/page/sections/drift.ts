import { count } from "../../../figures.ts";
import { readSchemaDrift } from "../../../load/history/schema-drift.ts";
import { html } from "hono/html";
import { type Html, past, table } from "../elements.ts";
import type { View } from "../view.ts";

/** Fields shown, the last seen ones. */
const FIELDS = 30;

/** Renders fields of the service's answers that differ from their declaration. */
export async function showDrift({ services, nowMs }: View): Promise<Html> {
  const fields = await readSchemaDrift(services.db, FIELDS);
  return table(
    "Schema drift",
    [
      { name: "field" },
      { name: "endpoint" },
      { name: "difference" },
      { name: "type", isExtra: true },
      { name: "times", isNumber: true },
      { name: "first seen", isExtra: true },
      { name: "last seen", isExtra: true },
    ],
    fields.map((field) => [
      html`<code>${field.path}</code>`,
      field.endpoint,
      field.kind.replace("_", " "),
      field.observedType,
      count(field.occurrences),
      past(field.firstSeenAt, nowMs),
      past(field.lastSeenAt, nowMs),
    ]),
    "The service's answers have only declared fields.",
  );
}
