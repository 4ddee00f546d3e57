import { createPublication } from "./publication.ts";
import { lookupIndexes } from "./0006-answers-by-content.ts";
import { createTable } from "../src/load/db/ddl.ts";
import {
  CALL_NUMBERS,
  quoteIdentifier,
  quoteQualified,
  type SchemaNames,
  tableText,
} from "../src/load/db/names.ts";
import { tables } from "../src/schemas/registry.ts";

/** Fill factors, to keep frequent updates of a row on its page. */
const fillFactors: Readonly<Record<string, number>> = {
  resolution: 85,
  enrichment: 85,
  lookup_row: 90,
  lookup_answer: 85,
  person_state: 85,
  segment_push_member: 85,
  job_lock: 50,
  budget_use: 10,
};

/** Tables of searches that are looked up by person, for erasures and readers. */
const BY_PERSON = ["person_search_result", "audience_search_member", "contact_job_result"];

export function createTables(names: SchemaNames): readonly string[] {
  const at = (name: string) => tableText(names, name);
  return [
    ...tables.map((table) => createTable(table, names, fillFactors[table.name])),
    `CREATE SEQUENCE ${quoteQualified([names.state, CALL_NUMBERS])}`,
    `CREATE INDEX reject_open ON ${at("reject")} (job, source, source_key) WHERE resolved_at IS NULL`,
    `CREATE INDEX sync_run_by_job ON ${at("sync_run")} (job, started_at)`,
    `CREATE INDEX api_call_by_time ON ${at("api_call")} (reserved_at)`,
    `CREATE INDEX api_call_in_doubt ON ${at("api_call")} (job) WHERE records_in_doubt > 0 OR records_possibly_billed_twice > 0`,
    `CREATE INDEX schedule_slot_by_time ON ${at("schedule_slot")} (job, due_at)`,
    ...BY_PERSON.map((name) => `CREATE INDEX ${name}_by_pid ON ${at(name)} (service_pid)`),
    ...lookupIndexes(names),
    `CREATE INDEX erasure_subject_by_hash ON ${at("erasure_subject")} (subject_hash)`,
    `INSERT INTO ${at("erasure_key")} (name, epoch, _synced_at, _run_id) VALUES ('erasure', 0, now(), '')`,
    ...createPublication(quoteIdentifier(names.state), quoteIdentifier(names.ops)),
  ];
}
