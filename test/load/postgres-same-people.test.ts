import { expect, test } from "vitest";
import { openWarehouse } from "../support/bound-load.ts";
import { useContext } from "./postgres-context.ts";
import { columnOf, valueOf } from "./suite/context.ts";
import { ANSWERED_AT, commitOf, reserveAt, runOf } from "./suite/nights.ts";
import { enrichSpec } from "./suite/people.ts";
import { looseRecord, readRows, wholePerson } from "./suite/person-updates.ts";
import type { LookupCommit } from "../../src/load/lookups/commit.ts";

const context = useContext();

const PEOPLE = 60;
const ROWS_PER_PERSON = 5;
const BATCH_SIZE = 10;
const LOADERS = 4;
const spec = enrichSpec();
const run = runOf(spec, "run-1");

/** Person of each row, in the order of sending: five batches in a row are about the same ten people. */
const sent = Array.from(
  { length: PEOPLE * ROWS_PER_PERSON },
  (_, i) => `p-${BATCH_SIZE * Math.floor(i / (BATCH_SIZE * ROWS_PER_PERSON)) + (i % BATCH_SIZE)}`,
);

test("rows of the same people, loaded by several loaders at once, are loaded once each, at the first try", async () => {
  const loaders = Array.from({ length: LOADERS }, () => openWarehouse({ url: context.url }));
  const keys = sent.map((pid, i) => `${pid} in call ${Math.floor(i / BATCH_SIZE) + 1}`);
  await readRows(context, spec, run, keys);
  const waiting: LookupCommit[] = [];
  for (let callNumber = 1; (callNumber - 1) * BATCH_SIZE < sent.length; callNumber++) {
    const replies = sent.slice((callNumber - 1) * BATCH_SIZE, callNumber * BATCH_SIZE).map((pid) => {
      const person = wholePerson(pid, {
        full_name: `call ${callNumber}`,
        phones: [{ phone_rank: 0, phone_number: `of call ${callNumber}` }],
      });
      return [looseRecord(`${pid} in call ${callNumber}`), { pid, person }] as const;
    });
    const commit = commitOf(context.warehouse, spec, run, replies);
    await reserveAt(context.warehouse, run, commit.ledger, { at: ANSWERED_AT, callNumber });
    waiting.push(commit);
  }
  const rolledBack = () =>
    valueOf(context, "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()");
  const before = await rolledBack();

  await Promise.all(
    loaders.map(async (loader) => {
      for (let commit = waiting.shift(); commit; commit = waiting.shift()) await loader.commitLookup(commit);
      // A session reports its rollbacks when it ends.
      await loader.close();
    }),
  );

  expect(await rolledBack()).toBe(before);
  const count = (table: string) => valueOf(context, `SELECT count(*) FROM ${table}`);
  expect(await count("person_data.enrichment WHERE is_match")).toBe("300");
  expect(await count("person_data_state.lookup_answer WHERE outcome = 'matched'")).toBe("300");
  // The latest of the five answers about each person.
  expect(
    await columnOf(
      context,
      `SELECT concat_ws(' ', service_pid, full_name, phone_number) FROM person_data.person
        JOIN person_data.person_phone USING (service_pid) ORDER BY service_pid COLLATE "C"`,
    ),
  ).toEqual(
    Array.from({ length: PEOPLE }, (_, n) => `p-${n}`)
      .toSorted()
      .map((pid) => {
        const call = Math.floor(sent.lastIndexOf(pid) / BATCH_SIZE) + 1;
        return `${pid} call ${call} of call ${call}`;
      }),
  );
});
