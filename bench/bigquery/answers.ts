import { randomUUID } from "node:crypto";
import { parseExact } from "../../src/extract/exact-json.ts";
import { lookupAsked } from "../../src/jobs/lookup/lookup-types.ts";
import type { AnsweredPart } from "../../src/jobs/lookup/lookup-type.ts";
import { createPeople } from "../../src/sandbox/population/people.ts";
import { chooseFields } from "../../src/sandbox/population/person-fields.ts";
import { DriftLog } from "../../src/schemas/drift.ts";

const CALL_RECORDS = 500;
const { endpoint, read } = lookupAsked("enrich", {});
const everyField = chooseFields(null);

/** One answered record of a call. */
export interface BenchAnswer extends AnsweredPart {
  readonly index: number;
}

/** One call of the benchmark, as a job would have read it. */
export interface BenchCall {
  readonly callId: string;
  readonly answers: readonly BenchAnswer[];
  readonly bytes: number;
}

/** The enrich calls about the sandbox's first `count` people, as they are on a day. */
export function* callsAbout(count: number, day: number): Generator<BenchCall> {
  const people = createPeople(1, 1_000_000);
  const drift = new DriftLog(endpoint.name);
  for (let from = 0; from < count; from += CALL_RECORDS) {
    let bytes = 0;
    const answers: BenchAnswer[] = [];
    for (let index = from; index < Math.min(count, from + CALL_RECORDS); index++) {
      const pid = people.pidOf(index, day);
      const text =
        `{"record_id":"${index}","is_match":true,"service_pid":"${pid}","match_score":75.25,` +
        `"validation_errors":null${everyField.text(people, index, day)}}`;
      bytes += text.length;
      answers.push({ index, ...read(parseExact(text) as Record<string, unknown>, drift) });
    }
    yield { callId: randomUUID(), answers, bytes };
  }
}
