import { describe, expect, test } from "vitest";
import { enrichSpec, makePeople, resolveSpec, validateSpec } from "./people.ts";
import { type Reply, runNight } from "./nights.ts";
import { columnOf, type GetContext, type Context, valueOf } from "./context.ts";

const day = (n: number) => `2026-11-0${n}T00:00:00+00:00`;
const shown = (n: number) => `2026-11-0${n} 00:00:00+00`;

/** Answers one row on the given days, and returns its answer and its history. */
async function answerOn(context: Context, replies: readonly (readonly [number, Reply])[]) {
  await makePeople(context, [{ id: "1", first_name: "Ann", last_name: "Lee", email: "ann@example.com" }]);
  const spec = resolveSpec({ resend: true });
  for (const [n, reply] of replies) await runNight(context, spec, () => reply, { at: day(n) });
  const [answer] =
    await context.sql(`SELECT is_match, service_pid, match_score, request_completed_at, first_matched_at,
    last_matched_at, last_matched_service_pid FROM person_data.resolution`);
  const history = await context.sql(`SELECT valid_from, valid_to, is_match, service_pid, match_score
    FROM person_data.match_history ORDER BY valid_from`);
  return { answer, history };
}

/** Tests of `resolution`, `enrichment` and `match_history`. */
export function describeAnswers(getContext: GetContext): void {
  describe("answers", () => {
    test("a match, a non-match and another match leave one row each time and an interval each", async () => {
      const { answer, history } = await answerOn(getContext(), [
        [1, { pid: "p-1", score: "80.25" }],
        [2, null],
        [3, { pid: "p-2", score: "60" }],
      ]);
      expect(answer).toEqual({
        is_match: "true",
        service_pid: "p-2",
        match_score: "60",
        request_completed_at: shown(3),
        first_matched_at: shown(1),
        last_matched_at: shown(3),
        last_matched_service_pid: "p-2",
      });
      expect(history).toEqual([
        {
          valid_from: shown(1),
          valid_to: shown(2),
          is_match: "true",
          service_pid: "p-1",
          match_score: "80.25",
        },
        { valid_from: shown(2), valid_to: shown(3), is_match: "false", service_pid: null, match_score: null },
        { valid_from: shown(3), valid_to: null, is_match: "true", service_pid: "p-2", match_score: "60" },
      ]);
    });

    test("a non-match after a match keeps the time and PID of the last match", async () => {
      const { answer } = await answerOn(getContext(), [
        [1, { pid: "p-1" }],
        [2, { pid: "p-2" }],
        [3, null],
      ]);
      expect(answer).toEqual({
        is_match: "false",
        service_pid: null,
        match_score: null,
        request_completed_at: shown(3),
        first_matched_at: shown(1),
        last_matched_at: shown(2),
        last_matched_service_pid: "p-2",
      });
    });

    test("a match after non-matches is the first one", async () => {
      const { answer } = await answerOn(getContext(), [
        [1, null],
        [2, { pid: "p-1" }],
      ]);
      expect(answer).toMatchObject({ first_matched_at: shown(2), last_matched_at: shown(2) });
    });

    test("an equal answer opens no interval; a changed score does", async () => {
      const { history } = await answerOn(getContext(), [
        [1, { pid: "p-1", score: "80.25" }],
        [2, { pid: "p-1", score: "80.250" }],
        [3, { pid: "p-1", score: "80.26" }],
      ]);
      expect(history.map((row) => [row["valid_from"], row["valid_to"]])).toEqual([
        [shown(1), shown(3)],
        [shown(3), null],
      ]);
    });

    test("two answers of one instant leave two intervals, none of them empty", async () => {
      const { answer, history } = await answerOn(getContext(), [
        [1, { pid: "p-1" }],
        [1, { pid: "p-2" }],
      ]);
      expect(answer).toMatchObject({ service_pid: "p-2" });
      const next = "2026-11-01 00:00:00.000001+00";
      expect(history.map((row) => [row["valid_from"], row["valid_to"]])).toEqual([
        [shown(1), next],
        [next, null],
      ]);
    });

    test("the answer of an earlier call changes neither the row, nor its history, nor its state", async () => {
      const context = getContext();
      await answerOn(context, [[2, { pid: "p-1" }]]);
      const read = () =>
        columnOf(
          context,
          `SELECT ${context.rowVersion} FROM person_data.resolution UNION ALL
          SELECT ${context.rowVersion} FROM person_data.match_history UNION ALL
          SELECT ${context.rowVersion} FROM person_data_state.lookup_answer ORDER BY 1`,
        );
      const before = await read();
      await runNight(context, resolveSpec({ resend: true }), () => ({ pid: "p-old" }), {
        at: day(3),
        callNumber: -1,
      });
      expect(await read()).toEqual(before);
    });

    test("the answer of a later call counts, though the service's clock ran backwards", async () => {
      const { answer, history } = await answerOn(getContext(), [
        [3, { pid: "p-1" }],
        [1, { pid: "p-2" }],
        [2, { pid: "p-3" }],
      ]);
      expect(answer).toMatchObject({ service_pid: "p-3", request_completed_at: shown(2) });
      expect(history.map((row) => [row["service_pid"], row["valid_from"], row["valid_to"]])).toEqual([
        ["p-1", shown(3), "2026-11-03 00:00:00.000001+00"],
        ["p-2", "2026-11-03 00:00:00.000001+00", "2026-11-03 00:00:00.000002+00"],
        ["p-3", "2026-11-03 00:00:00.000002+00", null],
      ]);
    });

    test("an answer's own columns and request id stand in its row", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann", last_name: "Lee", email: "ann@example.com" }]);
      const { run } = await runNight(context, resolveSpec(), () => ({ pid: "p-1", score: "88.125" }), {
        at: day(1),
      });
      expect(await context.sql("SELECT * FROM person_data.resolution")).toEqual([
        {
          job: "resolve_people",
          source: "people",
          source_key: "1",
          is_match: "true",
          service_pid: "p-1",
          match_score: "88.125",
          is_resolvable_record: "true",
          validation_errors: null,
          api_request_id: "request-1",
          request_completed_at: shown(1),
          is_present: "true",
          first_matched_at: shown(1),
          last_matched_at: shown(1),
          last_matched_service_pid: "p-1",
          _extra: null,
          _synced_at: expect.stringContaining("+00"),
          _run_id: run.runId,
        },
      ]);
      expect(
        await context.sql("SELECT outcome, is_first, call_id FROM person_data_state.lookup_answer"),
      ).toEqual([
        {
          outcome: "matched",
          is_first: "true",
          call_id: await valueOf(context, "SELECT call_id FROM person_data_ops.api_call"),
        },
      ]);
    });

    test("resolve and enrich keep their answers apart, and both in the history", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann", last_name: "Lee", email: "ann@example.com" }]);
      await runNight(context, resolveSpec(), () => ({ pid: "p-1" }), { at: day(1) });
      await runNight(context, enrichSpec(), () => null, { at: day(2) });
      expect(await columnOf(context, "SELECT is_match FROM person_data.resolution")).toEqual(["true"]);
      expect(await columnOf(context, "SELECT is_match FROM person_data.enrichment")).toEqual(["false"]);
      expect(await context.sql("SELECT job, is_match FROM person_data.match_history ORDER BY job")).toEqual([
        { job: "enrich_people", is_match: "false" },
        { job: "resolve_people", is_match: "true" },
      ]);
    });
  });

  describe("identity_link", () => {
    test("is the best present match of each input row", async () => {
      const context = getContext();
      const rows = [
        { id: "1", first_name: "Ann", last_name: "Lee", email: "ann@example.com" },
        { id: "2", first_name: "Bob", last_name: "Ray", email: "bob@example.com" },
        { id: "3", first_name: "Eve", last_name: "Roe", email: "eve@example.com" },
        { id: "4", first_name: "Dan", last_name: "Fox", email: "dan@example.com" },
      ];
      await makePeople(context, rows);
      const resolved: Readonly<Record<string, Reply>> = {
        1: { pid: "p-low", score: "60" },
        2: { pid: "p-bob", score: "70" },
        3: { pid: "p-older", score: "50" },
      };
      const enriched: Readonly<Record<string, Reply>> = {
        1: { pid: "p-high", score: "61.5" },
        3: { pid: "p-newer", score: "50" },
      };
      await runNight(context, resolveSpec(), (r) => resolved[r.keys[0] ?? ""] ?? null, {
        at: day(1),
      });
      await runNight(context, enrichSpec(), (r) => enriched[r.keys[0] ?? ""] ?? null, {
        at: day(2),
      });
      expect(await context.sql("SELECT * FROM person_data.identity_link ORDER BY source_key")).toEqual([
        {
          source: "people",
          source_key: "1",
          service_pid: "p-high",
          job: "enrich_people",
          match_score: "61.5",
          matched_at: shown(2),
        },
        {
          source: "people",
          source_key: "2",
          service_pid: "p-bob",
          job: "resolve_people",
          match_score: "70",
          matched_at: shown(1),
        },
        {
          source: "people",
          source_key: "3",
          service_pid: "p-newer",
          job: "enrich_people",
          match_score: "50",
          matched_at: shown(2),
        },
      ]);
    });
  });

  describe("validated addresses", () => {
    test("keep the status before the present one, and when it changed", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", email: "Ann@Example.com " }]);
      const spec = validateSpec({ resend: true });
      const read = () =>
        context.sql(`SELECT email_address, is_match, email_validation_status, previous_status, status_changed_at,
          request_completed_at FROM person_data.email_validation`);
      const expected = {
        email_address: "Ann@Example.com ",
        is_match: "true",
        email_validation_status: "valid",
        previous_status: null,
        status_changed_at: null,
        request_completed_at: shown(1),
      };
      await runNight(context, spec, () => ({ pid: "", status: "valid" }), { at: day(1) });
      expect(await read()).toEqual([expected]);
      await runNight(context, spec, () => ({ pid: "", status: "valid" }), { at: day(2) });
      expect(await read()).toEqual([{ ...expected, request_completed_at: shown(2) }]);
      await runNight(context, spec, () => ({ pid: "", status: "invalid" }), { at: day(3) });
      const invalid = {
        ...expected,
        email_validation_status: "invalid",
        previous_status: "valid",
        status_changed_at: shown(3),
        request_completed_at: shown(3),
      };
      expect(await read()).toEqual([invalid]);
      await runNight(context, spec, () => ({ pid: "", status: "invalid" }), { at: day(4) });
      expect(await read()).toEqual([{ ...invalid, request_completed_at: shown(4) }]);
      await runNight(context, spec, () => null, { at: day(5) });
      expect(await read()).toEqual([
        {
          ...expected,
          is_match: "false",
          email_validation_status: null,
          previous_status: "invalid",
          status_changed_at: shown(5),
          request_completed_at: shown(5),
        },
      ]);
    });

    test("the answer of an earlier call changes nothing", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", email: "ann@example.com" }]);
      await runNight(context, validateSpec(), () => ({ pid: "", status: "valid" }), { at: day(2) });
      const before = await context.sql("SELECT * FROM person_data.email_validation");
      await runNight(context, validateSpec({ resend: true }), () => ({ pid: "", status: "invalid" }), {
        at: day(3),
        callNumber: -1,
      });
      expect(await context.sql("SELECT * FROM person_data.email_validation")).toEqual(before);
    });

    test("the answer of the later call stays, in any order of loading", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", email: "ann@example.com" }]);
      const spec = validateSpec({ resend: true });
      await runNight(context, spec, () => ({ pid: "", status: "valid" }), { at: day(2), callNumber: 2 });
      await runNight(context, spec, () => ({ pid: "", status: "invalid" }), { at: day(1), callNumber: 1 });
      expect(
        await context.sql(
          "SELECT email_validation_status, previous_status FROM person_data.email_validation",
        ),
      ).toEqual([{ email_validation_status: "valid", previous_status: null }]);
      expect(await columnOf(context, "SELECT call_number FROM person_data_state.lookup_answer")).toEqual([
        "2",
      ]);
    });
  });
}
