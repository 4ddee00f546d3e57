import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Publication } from "../../src/jobs/publish/publication.ts";
import { publishDestination } from "../../src/jobs/publish/publish-destination.ts";
import { openDuckDbPlace, rowsOfFile } from "./duckdb-place.ts";
import { openSourcePlace, type SourcePlace } from "./publication-place.ts";

const insertPerson = `INSERT INTO person_data.person (service_pid, full_name) VALUES ($1, $2)
  ON CONFLICT (service_pid) DO UPDATE SET full_name = excluded.full_name, _synced_at = now(), _record_synced_at = now()`;
const insertEmail = `INSERT INTO person_data.person_email (service_pid, email_type, position, email_address)
  VALUES ($1, 'personal', $2, $3)`;

describe("a publication", () => {
  let source: SourcePlace;
  let target: Awaited<ReturnType<typeof openDuckDbPlace>>;
  let publication: Publication;

  const names = async (table: string, column: string) =>
    (await rowsOfFile(target.path, table)).map((row) => row[column]);
  const waiting = async () =>
    (await source.sql("SELECT keys_waiting, batch_number FROM person_data_ops.publication"))[0];

  beforeEach(async () => {
    source = await openSourcePlace();
    target = await openDuckDbPlace();
    publication = await source.publicationTo(target.destination);
  });
  afterEach(async () => {
    await target.destination.close();
    await source.close();
  });

  test("starts with every table as a whole, then follows each change", async () => {
    await source.sql(insertPerson, ["p1", "Ada"]);
    await source.sql(insertEmail, ["p1", 0, "ada@example.com"]);
    await publishDestination(publication);
    expect(await names("person", "full_name")).toEqual(["Ada"]);
    expect(await names("person_email", "email_address")).toEqual(["ada@example.com"]);

    await source.sql(insertPerson, ["p2", "Bob"]);
    await source.sql("BEGIN");
    await source.sql("DELETE FROM person_data.person_email");
    await source.sql(insertEmail, ["p1", 0, "ada@example.net"]);
    await source.sql(insertPerson, ["p1", "Ada L."]);
    await source.sql("COMMIT");
    expect(await waiting()).toMatchObject({ keys_waiting: "2" });
    await publishDestination(publication);
    expect(await names("person", "full_name")).toEqual(["Ada L.", "Bob"]);
    expect(await names("person_email", "email_address")).toEqual(["ada@example.net"]);
    expect(await waiting()).toMatchObject({ keys_waiting: "0" });
  });
});
