import { expect, test } from "vitest";
import { openWorld } from "./night.ts";
import type { Script } from "./scripted-service.ts";

test("a link that cuts large answers gets smaller batches, and the next run starts with those", async () => {
  const world = await openWorld();
  const sizes = () => world.service.calls.map(({ records }) => records.length);
  const link: Script = { call: ({ records }) => (records.length > 12 ? "cut" : undefined) };
  const edit =
    "INSERT INTO crm.customers (id, name) SELECT n, 'Person ' || n FROM generate_series(1, 40) AS n";
  await world.night({ edit, service: link });
  // One half is cut, too, and waits for the next run: no record is sent more than twice.
  expect(sizes()).toEqual([40, 20, 10, 10]);
  await world.night({ service: link });
  expect(sizes()).toEqual([10, 10]);
  expect(await world.lines("SELECT count(*) FROM enrichment")).toEqual(["40"]);
  await world.night({ days: 8, edit: edit.replaceAll("Person", "Human"), service: link });
  expect(sizes()[0]).toBe(40);
});
