import { sql } from "kysely";
import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { Drift } from "../../../src/schemas/drift.ts";
import { enrichSpec } from "./people.ts";
import { callOf, commitOf, countersOf, rejectOf, runOf } from "./nights.ts";
import { looseRecord, readRows, wholePerson } from "./person-updates.ts";
import { columnOf, type GetContext, type Context, valueOf, schemaNames } from "./context.ts";
import { schemaOf } from "../../../src/schemas/registry.ts";
import type { LookupCommit } from "../../../src/load/lookups/commit.ts";

const spec = enrichSpec();

/** A commit of persons, each for a separate row. Reads the rows. */
export async function commitPeople(
  context: Context,
  pids: readonly string[],
  changes: Partial<LookupCommit> = {},
): Promise<LookupCommit> {
  const run = runOf(spec, "run-1");
  const replies = pids.map(
    (pid, i) => [looseRecord(`key ${i}`), { pid, person: wholePerson(pid, { full_name: pid }) }] as const,
  );
  if (pids.length > 0)
    await readRows(
      context,
      spec,
      run,
      replies.flatMap(([record]) => record.keys),
    );
  return { ...commitOf(context.warehouse, spec, run, replies), ...changes };
}

const drift = (path: string, occurrences: number, observedType: string): Drift => ({
  endpoint: "POST /v2/enrich",
  path,
  kind: "unexpected_type",
  observedType,
  occurrences,
});

async function countRows(context: Context): Promise<Readonly<Record<string, string | null>>> {
  const tables = ["person", "person_state", "enrichment", "match_history", "lookup_answer", "reject"];
  const counts = tables.map(async (table) => [
    table,
    await valueOf(context, `SELECT count(*) FROM ${schemaNames[schemaOf(table)]}.${table}`),
  ]);
  return Object.fromEntries(await Promise.all(counts));
}

/** Tests of commits. */
export function describeCommits(getContext: GetContext): void {
  describe("a commit", () => {
    test("writes its calls into the ledger", async () => {
      const context = getContext();
      const call = callOf({
        recordsSent: 2,
        recordsMatched: 1,
        possiblyBilled: true,
        httpStatus: 500,
        attempt: 2,
      });
      const failed = callOf({
        apiRequestId: null,
        requestCompletedAt: null,
        httpStatus: null,
        recordsMatched: null,
      });
      await context.warehouse.commitLookup({
        ...(await commitPeople(context, ["p-1"])),
        ledger: [call, failed],
      });
      const entry = {
        run_id: "run-1",
        job: "enrich_people",
        endpoint: "POST /v2/enrich",
        started_at: "2026-11-21 04:00:00.000001+00",
        milliseconds: "120",
        response_bytes: "2048",
      };
      expect(
        await context.sql(`SELECT call_id, run_id, job, endpoint, api_request_id, started_at, request_completed_at,
          milliseconds, http_status, attempt, records_sent, records_matched, response_bytes, possibly_billed
          FROM person_data_ops.api_call ORDER BY attempt DESC`),
      ).toEqual([
        {
          ...entry,
          call_id: call.callId,
          api_request_id: "request-1",
          request_completed_at: "2026-11-21 04:00:00.123456+00",
          http_status: "500",
          attempt: "2",
          records_sent: "2",
          records_matched: "1",
          possibly_billed: "true",
        },
        {
          ...entry,
          call_id: failed.callId,
          api_request_id: null,
          request_completed_at: null,
          http_status: null,
          attempt: "1",
          records_sent: "1",
          records_matched: null,
          possibly_billed: "false",
        },
      ]);
    });

    test("applied twice changes nothing the second time", async () => {
      const context = getContext();
      const { warehouse } = context;
      await warehouse.beginRun(runOf(spec, "run-1"));
      await readRows(context, spec, runOf(spec, "run-1"), ["refused"]);
      const commit = {
        ...(await commitPeople(context, ["p-1", "p-2"])),
        rejects: [rejectOf(looseRecord("refused"), "unprocessable_entity")],
        drift: [drift("age", 2, "string")],
      };
      await warehouse.commitLookup(commit);
      const version = `${context.rowVersion} AS version`;
      const everything = async () => [
        await countRows(context),
        await context.sql(`SELECT ${version}, * FROM person_data.person ORDER BY service_pid`),
        await context.sql(`SELECT ${version}, * FROM person_data.enrichment ORDER BY source_key`),
        await context.sql(`SELECT ${version}, * FROM person_data_state.lookup_answer ORDER BY content`),
        await context.sql("SELECT * FROM person_data_ops.schema_drift"),
        await context.sql("SELECT requests, rows_written FROM person_data_ops.sync_run"),
      ];
      const before = await everything();
      expect(await warehouse.commitLookup(commit)).toMatchObject({ rowsWritten: 0, notLoadable: [] });
      expect(await everything()).toEqual(before);
      expect(before[0]).toEqual({
        person: "2",
        person_state: "2",
        enrichment: "2",
        match_history: "2",
        lookup_answer: "3",
        reject: "1",
      });
    });

    test("leaves out the answers of calls that are loaded, and loads the others", async () => {
      const context = getContext();
      const { warehouse } = context;
      const first = await commitPeople(context, ["p-1"]);
      await warehouse.commitLookup(first);
      const run = runOf(spec, "run-1");
      await readRows(context, spec, run, ["other"]);
      const second = commitOf(warehouse, spec, run, [[looseRecord("other"), { pid: "p-other" }]]);
      await warehouse.commitLookup({
        ...second,
        ledger: [...first.ledger, ...second.ledger],
        answers: [...first.answers, ...second.answers],
      });
      expect(await columnOf(context, "SELECT is_first FROM person_data_state.lookup_answer")).toEqual([
        "true",
        "true",
      ]);
      expect(await columnOf(context, "SELECT service_pid FROM person_data.enrichment ORDER BY 1")).toEqual([
        "p-1",
        "p-other",
      ]);
    });

    test("adds its counters to the run's, and the rows that it wrote", async () => {
      const context = getContext();
      const { warehouse } = context;
      const run = runOf(spec, "run-1");
      await warehouse.beginRun(run);
      const { rowsWritten } = await warehouse.commitLookup(await commitPeople(context, ["p-1", "p-2"]));
      await readRows(context, spec, run, ["x"]);
      const again = callOf({ attempt: 2, possiblyBilledTwice: 1 });
      await warehouse.commitLookup(
        commitOf(warehouse, spec, run, [[looseRecord("x"), null]], { call: again }),
      );
      await warehouse.recordAttempts(run, [callOf({ httpStatus: 503 })], { requests: 1, retries: 1 });
      // Two persons, two enrichments, two intervals.
      expect(rowsWritten).toBe(6);
      expect(
        await context.sql(`SELECT requests, retries, possibly_billed_twice, rows_written, status
          FROM person_data_ops.sync_run`),
      ).toEqual([
        {
          requests: "3",
          retries: "2",
          possibly_billed_twice: "1",
          rows_written: "8",
          status: "running",
        },
      ]);
      expect(await valueOf(context, "SELECT count(*) FROM person_data_ops.api_call")).toBe("3");
      const coverage = {
        source: "people",
        inputRows: 4,
        answered: 3,
        matched: 2,
        unmatched: 1,
        rejected: 0,
        due: 1,
        oldestAnswerAt: "2026-11-21T04:00:00Z",
      };
      const final = countersOf({ records_read: 4, records_sent: 3, records_remaining: 1, requests: 5 });
      await warehouse.endRun(
        run,
        { status: "limited", limitedBy: "max_records", error: null, counters: final, tables: [] },
        coverage,
      );
      expect(
        await context.sql(`SELECT status, limited_by, records_read, records_sent, requests, rows_written
          FROM person_data_ops.sync_run`),
      ).toEqual([
        {
          status: "limited",
          limited_by: "max_records",
          records_read: "4",
          records_sent: "3",
          requests: "5",
          rows_written: "0",
        },
      ]);
      expect(await warehouse.jobStatus("enrich_people")).toMatchObject({
        job: "enrich_people",
        lastRun: { runId: "run-1", status: "limited", limitedBy: "max_records" },
        lastSuccessAt: expect.stringMatching(/Z$/),
        coverage,
        openRejects: {},
      });
    });

    test("adds up drift by place and kind", async () => {
      const context = getContext();
      await context.warehouse.commitLookup(
        await commitPeople(context, [], { drift: [drift("age", 2, "string")] }),
      );
      await context.warehouse.commitLookup(
        await commitPeople(context, [], {
          drift: [drift("age", 40, "object"), drift("phones[].x", 1, "null")],
        }),
      );
      expect(
        await context.sql(`SELECT endpoint, path, kind, observed_type, occurrences,
          last_seen_at > first_seen_at AS is_later FROM person_data_ops.schema_drift ORDER BY path`),
      ).toEqual([
        {
          endpoint: "POST /v2/enrich",
          path: "age",
          kind: "unexpected_type",
          observed_type: "object",
          occurrences: "42",
          is_later: "true",
        },
        {
          endpoint: "POST /v2/enrich",
          path: "phones[].x",
          kind: "unexpected_type",
          observed_type: "null",
          occurrences: "1",
          is_later: "false",
        },
      ]);
    });

    test("an attempt that is recorded again, as its reply was lost, counts once", async () => {
      const context = getContext();
      const { warehouse } = context;
      const run = runOf(spec, randomUUID());
      await warehouse.beginRun(run);
      const failed = callOf({ httpStatus: 503, recordsMatched: null });
      for (let tries = 0; tries < 2; tries++) {
        await warehouse.recordAttempts(run, [failed], { requests: 1, retries: 1 });
      }
      expect(
        await context.sql(
          `SELECT requests, retries FROM person_data_ops.sync_run WHERE run_id = '${run.runId}'`,
        ),
      ).toEqual([{ requests: "1", retries: "1" }]);
    });

    test("survives a crash of the server, whatever the role's default for commits", async () => {
      const { db } = getContext().warehouse;
      const client = await db.pool.connect();
      await client.query("SET synchronous_commit = off");
      client.release();
      const shown = await db.transaction(runOf(spec), (session) =>
        session.rows<{ synchronous_commit: string }>(sql`SHOW synchronous_commit`),
      );
      expect(shown).toEqual([{ synchronous_commit: "on" }]);
    });

    test("with only attempts leaves a ledger", async () => {
      const context = getContext();
      expect(await context.warehouse.commitLookup(await commitPeople(context, []))).toMatchObject({
        rowsWritten: 0,
        notLoadable: [],
      });
      expect(await valueOf(context, "SELECT count(*) FROM person_data_ops.api_call")).toBe("1");
    });
  });

  describe("a value that the warehouse refuses", () => {
    const deep = `${"[".repeat(50_000)}${"]".repeat(50_000)}`;
    test.each([
      ["a PID too long for an index", { servicePid: randomBytes(1500).toString("hex") }, "54000"],
      ["a number beyond every exponent in _extra", { extra: '{"x": 1e999999}' }, "22003"],
      ["JSON nested beyond every depth in _extra", { extra: `{"x": ${deep}}` }, "54001"],
      ["a day that the calendar doesn't have", { dob: "2026-02-30" }, "22008"],
      ["a NUL in a text", { dob: null, extra: '{"x": "\\u0000"}' }, "22P05"],
    ])("(%s) costs its record only", async (_, fault, sqlstate) => {
      const context = getContext();
      const { warehouse } = context;
      const refusal = context.refusalOf(sqlstate);
      const run = runOf(spec, "run-1");
      await warehouse.beginRun(run);
      const replies = Array.from({ length: 9 }, (__, i) => {
        const pid = i === 4 && "servicePid" in fault ? fault.servicePid : `p-${i}`;
        const whole = wholePerson(pid, { full_name: `Person ${i}` });
        const dobAt = 7 - 1;
        const person =
          i !== 4
            ? whole
            : {
                ...whole,
                extra: "extra" in fault ? fault.extra : null,
                scalars: "dob" in fault ? whole.scalars.with(dobAt, fault.dob) : whole.scalars,
              };
        return [looseRecord(`key ${i}`), { pid, person }] as const;
      });
      await readRows(
        context,
        spec,
        run,
        replies.flatMap(([record]) => record.keys),
      );
      const commit = commitOf(warehouse, spec, run, replies);
      const result = await warehouse.commitLookup(commit);
      // Eight persons, enrichments and intervals, and a reject; or nine of all.
      expect(result).toMatchObject(
        refusal
          ? { notLoadable: [replies[4]?.[0].recordId], rowsWritten: 25 }
          : { notLoadable: [], rowsWritten: 27 },
      );
      // SQL can't check a value that Postgres rejects.
      if (!refusal) return;
      expect(await columnOf(context, "SELECT full_name FROM person_data.person ORDER BY 1")).toEqual(
        [0, 1, 2, 3, 5, 6, 7, 8].map((i) => `Person ${i}`),
      );
      expect(
        await context.sql("SELECT source_key, stage, code, details, api_request_id FROM person_data.reject"),
      ).toEqual([
        {
          source_key: "key 4",
          stage: "load",
          code: "not_loadable",
          details: refusal.details,
          api_request_id: "request-1",
        },
      ]);
      expect(
        await columnOf(
          context,
          "SELECT encode(content, 'hex') FROM person_data_state.lookup_answer WHERE outcome = 'rejected'",
        ),
      ).toEqual([looseRecord("key 4").content]);
      expect(await valueOf(context, "SELECT count(*) FROM person_data_state.lookup_answer")).toBe("9");
      expect(await context.sql("SELECT requests, rows_written FROM person_data_ops.sync_run")).toEqual([
        {
          requests: "1",
          rows_written: String(result.rowsWritten),
        },
      ]);
      expect(await valueOf(context, "SELECT count(*) FROM person_data_ops.api_call")).toBe("1");
    });
  });
}
