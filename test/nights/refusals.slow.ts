import { describe, expect, test } from "vitest";
import { names, openWorld } from "./night.ts";

/** A change of a table by somebody else, and how to take it back. */
interface Refusal {
  readonly title: string;
  readonly make: string;
  readonly repair: string;
  /** Names in the error's message. */
  readonly named: readonly string[];
}

const trigger = (body: string) => ({
  make: `CREATE FUNCTION crm.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body} RETURN NEW; END $$;
    CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON person_data.enrichment FOR EACH ROW EXECUTE FUNCTION crm.refuse()`,
  repair: "DROP TRIGGER refuse ON person_data.enrichment; DROP FUNCTION crm.refuse()",
});

const refusals: readonly Refusal[] = [
  {
    title: "a column that must not be null",
    make: "ALTER TABLE person_data.enrichment ADD COLUMN owner text NOT NULL",
    repair: "ALTER TABLE person_data.enrichment DROP COLUMN owner",
    named: ["enrichment", "owner"],
  },
  {
    title: "a check that one of the rows fails",
    make: "ALTER TABLE person_data.enrichment ADD CONSTRAINT known_people CHECK (service_pid <> 'p-ann')",
    repair: "ALTER TABLE person_data.enrichment DROP CONSTRAINT known_people",
    named: ["enrichment", "known_people"],
  },
  {
    title: "a foreign key",
    make: `CREATE TABLE crm.known (pid text PRIMARY KEY);
      ALTER TABLE person_data.enrichment ADD CONSTRAINT known_people FOREIGN KEY (service_pid) REFERENCES crm.known`,
    repair: "ALTER TABLE person_data.enrichment DROP CONSTRAINT known_people; DROP TABLE crm.known",
    named: ["enrichment", "known_people"],
  },
  { title: "a trigger that raises", ...trigger("RAISE EXCEPTION 'not today';"), named: ["enrichment"] },
  {
    title: "a trigger that can't cast the value of any row",
    ...trigger("PERFORM NEW.source_key::uuid;"),
    named: ["enrichment"],
  },
  {
    title: "a full disk",
    ...trigger("RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full';"),
    named: ["The disk is full"],
  },
  {
    title: "a check on people",
    make: "ALTER TABLE person_data.person ADD CONSTRAINT adults CHECK (gender = 'male')",
    repair: "ALTER TABLE person_data.person DROP CONSTRAINT adults",
    named: ["person", "adults"],
  },
];

describe("a table that refuses what was paid for", () => {
  test.each(refusals)(
    "by $title fails the job, and loses and rejects nothing",
    async ({ make, repair, named }) => {
      const world = await openWorld();
      await world.sql(make);
      const refused = await world.night({ edit: names("Ann", "Bob", "Nobody") });
      expect(refused.sent).toEqual({ enrich: ["Ann", "Bob", "Nobody"] });
      const [job] = refused.report?.jobs ?? [];
      expect(job?.status).toBe("failed");
      for (const name of named) expect(job?.error?.message).toContain(name);
      expect(job?.error?.message).not.toMatch(/p-ann|Ann|Bob/u);
      expect(await world.lines("SELECT code FROM reject")).toEqual([]);

      const again = await world.night();
      expect([again.sent, again.report?.status]).toEqual([{}, "failed"]);

      const repaired = await world.night({ edit: repair });
      expect([repaired.sent, repaired.report?.status]).toEqual([{}, "succeeded"]);
      expect(await world.lines("SELECT source_key, service_pid FROM enrichment")).toEqual([
        "1|p-ann",
        "2|p-bob",
        "3|",
      ]);
      expect(await world.lines("SELECT code FROM reject")).toEqual([]);
      expect((await world.night()).sent).toEqual({});
    },
  );
});
