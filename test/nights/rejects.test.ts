import { describe, expect, test } from "vitest";
import { testNights } from "./cases.ts";
import { names, openWorld, put } from "./night.ts";

const rejects = "SELECT source_key, stage, code, resolved_at IS NULL FROM reject";

testNights("a record that the service refuses", {
  "is found by the place that the service names, and its neighbors are sent once more": [
    {
      edit: names("Ann", "Poison", "Bob"),
      sent: ["Ann", "Ann", "Bob", "Bob", "Poison"],
      ends: "3 read, 3 sent, 2 matched, 1 rejected",
      tables: {
        [rejects]: ["2|send|value_error|t"],
        "SELECT source_key FROM enrichment WHERE is_present": ["1", "3"],
      },
      billed: { enrich: ["Ann", "Bob"] },
    },
    { ends: "3 read, 3 unchanged" },
  ],
  "is resolved when a changed content is answered": [
    { edit: names("Poison"), sent: ["Poison"], ends: "1 read, 1 sent, 1 rejected" },
    { edit: names("Ann"), sent: ["Ann"], tables: { [rejects]: ["1|send|value_error|f"] } },
  ],
  "takes the answer of an equal row when it changes, without a call": [
    { edit: names("Ann", "Poison", "Poison"), sent: ["Ann", "Ann", "Poison"] },
    {
      edit: put(2, "Ann"),
      ends: "3 read, 2 unchanged, 1 duplicate",
      tables: {
        "SELECT source_key, service_pid, is_present FROM enrichment": ["1|p-ann|t", "2|p-ann|t"],
        "SELECT source_key FROM reject WHERE resolved_at IS NULL": ["3"],
      },
    },
    { ends: "3 read, 3 unchanged" },
  ],
  "recovers by rejects retry once the service takes it": [
    { edit: names("Ann", "Poison"), sent: ["Ann", "Ann", "Poison"] },
    {
      commands: [["rejects", "retry", "--code", "value_error", "--yes"]],
      service: { hasPoison: false },
      sent: ["Poison"],
      ends: "2 read, 1 unchanged, 1 sent, 1 matched",
      tables: {
        [rejects]: ["2|send|value_error|f"],
        "SELECT service_pid FROM enrichment WHERE source_key = '2' AND is_present": ["p-poison"],
      },
    },
    { service: { hasPoison: false }, ends: "2 read, 2 unchanged" },
  ],
  "stays rejected after rejects drop, without an open reject": [
    { edit: names("Poison"), sent: ["Poison"], ends: "1 read, 1 sent, 1 rejected" },
    {
      commands: [["rejects", "drop", "--yes"]],
      ends: "1 read, 1 unchanged",
      tables: { [rejects]: ["1|send|value_error|f"] },
    },
  ],
  "has no open reject once it left the input, and one again when it returns": [
    { edit: names("Poison", "Ann"), sent: ["Ann", "Ann", "Poison"] },
    {
      edit: "DELETE FROM crm.customers WHERE id = 1",
      ends: "1 read, 1 unchanged",
      tables: { [rejects]: ["1|send|value_error|f"] },
    },
    {
      edit: put(1, "Poison"),
      ends: "2 read, 2 unchanged",
      tables: { [rejects]: ["1|send|value_error|f", "1|send|value_error|t"] },
    },
  ],
  "leaves neither its values nor its addresses in the table": [
    {
      edit: put(1, "Poison Lee", { email: "secret@x", phone: "5559876", city: "Atlantis" }),
      sent: ["Poison Lee secret@x 5559876 Atlantis"],
      tables: {
        "SELECT count(*) FROM reject AS r WHERE r::text ~* 'lee|secret|5559876|atlantis'": ["0"],
        "SELECT details::text ~ 'emails' FROM reject": ["t"],
      },
    },
  ],
});

describe("a value", () => {
  test("that the database refuses is rejected alone", async () => {
    const world = await openWorld();
    await world.sql(`CREATE FUNCTION crm.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.service_pid = 'p-ann' THEN PERFORM 'x'::int; END IF; RETURN NEW; END $$;
      CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON person_data.enrichment FOR EACH ROW EXECUTE FUNCTION crm.refuse()`);
    const night = await world.night({ edit: names("Ann", "Bob", "Cid") });
    expect(night.report?.status).toBe("succeeded");
    expect(await world.lines("SELECT source_key, code FROM reject")).toEqual(["1|not_loadable"]);
    expect(await world.lines("SELECT service_pid FROM enrichment")).toEqual(["p-bob", "p-cid"]);
  });
});
