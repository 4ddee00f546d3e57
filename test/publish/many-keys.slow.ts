import { expect, onTestFinished, test } from "vitest";
import { takeBatch } from "../../src/load/publication/batch.ts";
import { addDestination } from "../../src/load/publication/registration.ts";
import { catalogOf } from "../../src/publish/destination.ts";
import { createMemoryDestination } from "./memory-destination.ts";
import { openSourceContext } from "./publication-context.ts";

test("a batch of more keys than one statement takes has as many as it may, and the next one the others", async () => {
  const source = await openSourceContext();
  onTestFinished(() => source.close());
  const { folder } = await source.publicationTo(createMemoryDestination());
  await source.db.transaction((session) => addDestination(session, "memory"));
  await source.sql(
    "INSERT INTO person_data_state.dirty_key (destination, table_name, key) SELECT 'memory', 'segment', jsonb_build_array(i) FROM generate_series(1, 1100000) AS i",
  );
  const { tables } = catalogOf([]);
  const options = {
    destination: "memory",
    tables,
    maxKeys: 1_050_000,
    format: "json",
    folder,
    measures: false,
  } as const;
  const counts = async () => {
    const [row] = await source.sql(
      "SELECT (SELECT count(DISTINCT key) FROM person_data_state.claimed_key) AS claimed, (SELECT count(*) FROM person_data_state.dirty_key) AS waiting",
    );
    return [row?.["claimed"], row?.["waiting"]];
  };
  expect(await source.db.snapshot((session) => takeBatch(session, options))).toMatchObject({ isLast: false });
  expect(await counts()).toEqual(["1050000", "50000"]);
  // An unconfirmed batch is repeated as it is.
  await source.db.snapshot((session) => takeBatch(session, options));
  expect(await counts()).toEqual(["1050000", "50000"]);
  await source.sql(
    "UPDATE person_data_state.destination SET confirmed = claimed; TRUNCATE person_data_state.claimed_key",
  );
  expect(await source.db.snapshot((session) => takeBatch(session, options))).toMatchObject({ isLast: true });
  expect(await counts()).toEqual(["50000", "0"]);
});
