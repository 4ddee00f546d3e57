import { afterAll, beforeAll, expect, test } from "vitest";
import { schemaOf } from "../../src/schemas/registry.ts";
import { createView } from "../../src/load/db/ddl.ts";
import { inputViews, queryOf, shownRow, viewResults, viewRows } from "../publish/view-rows.ts";
import { openPostgresContext, type PostgresContext } from "./postgres-context.ts";

const schemas = { data: "person_data", ops: "person_data_ops", state: "person_data_state" };
const ref = (name: string) =>
  `${/^(?:link|profile)_/u.test(name) ? schemas.data : schemas[schemaOf(name)]}.${name}`;

let context: PostgresContext;
beforeAll(async () => {
  context = await openPostgresContext();
  for (const view of inputViews) await context.sql(createView(view, schemas));
  for (const { table, rows } of viewRows) {
    await context.sql(
      `INSERT INTO ${ref(table)} SELECT * FROM json_populate_recordset(NULL::${ref(table)}, $1)`,
      [
        JSON.stringify(
          (rows ?? []).map((row) => ({
            ...row,
            content: JSON.parse((row["content"] as string | null) ?? "null"),
          })),
        ),
      ],
    );
  }
});
afterAll(() => context.close());

test.each(viewResults)("%s", async (query, expected) => {
  const rows = await context.sql(queryOf(query, ref));
  expect(rows.map(shownRow)).toEqual(expected);
});
