import { resolveEndpoint } from "../../schemas/resolve.ts";
import { filled, hasName, matchPerson, type SentPerson } from "../population/match-person.ts";
import { writeResults } from "../http/result-list.ts";
import type { World } from "../world.ts";
import { contentOf } from "./record-content.ts";
import { lookupRoute } from "./lookup-route.ts";
import { findMalformed, type ValidationErrors } from "./validation-errors.ts";

/** Why section 4.7 calls a record not usable; null when it is. */
function findUnusable(sent: SentPerson): ValidationErrors {
  const errors: Record<string, readonly string[]> = {};
  if (!hasName(sent)) errors["name"] = ["first_name and last_name, or full_name, required"];
  if (![...(sent.emails ?? []), ...(sent.phones ?? [])].some(filled)) {
    errors["contact"] = ["at least one entry in emails or phones required"];
  }
  return Object.keys(errors).length > 0 ? errors : null;
}

function answerRecord(
  world: World,
  sent: SentPerson,
  day: number,
): { readonly text: string; readonly matched: boolean; readonly usable: boolean } {
  const unusable = findUnusable(sent);
  const match = unusable ? null : matchPerson(world.people, sent, day, { reverse: false });
  const text = JSON.stringify({
    record_id: sent.record_id ?? null,
    is_match: match !== null,
    service_pid: match && world.people.pidOf(match.index, day),
    match_score: match && match.score,
    is_resolvable_record: unusable === null,
    validation_errors: unusable ?? findMalformed(sent),
  });
  return { text, matched: match !== null, usable: unusable === null };
}

/** `POST /v1/resolve`: a match is billed. */
export const resolveRoute = lookupRoute({
  endpoint: resolveEndpoint,
  stamp: "z",
  resultsLast: false,
  needsCapacity: false,
  answer(world, body) {
    const day = world.clock.today();
    let [matched, resolvable] = [0, 0];
    const results = writeResults(body.records.length * 300);
    for (const record of body.records) {
      // The body passed resolveEndpoint.request, whose records these are.
      const answered = answerRecord(world, record as SentPerson, day);
      if (answered.matched) matched += 1;
      if (answered.usable) resolvable += 1;
      world.ledger.countContent(resolveEndpoint.path, contentOf(record), answered.matched);
      results.add(answered.text);
    }
    return { kind: "results", results: results.finish(), matched, billed: matched, resolvable };
  },
});
