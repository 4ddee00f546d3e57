import { enrichEndpoint, type matchConditionFields } from "../../schemas/enrich.ts";
import { refuse } from "../http/outcome.ts";
import { hash } from "../population/hash.ts";
import { meetsConditions } from "../population/match-conditions.ts";
import { filled, hasAddress, hasName, matchPerson, type SentPerson } from "../population/match-person.ts";
import { chooseFields, type FieldChoice, personFieldNames } from "../population/person-fields.ts";
import { STREAM } from "../population/streams.ts";
import { writeResults } from "../http/result-list.ts";
import type { World } from "../world.ts";
import { contentOf } from "./record-content.ts";
import { lookupRoute } from "./lookup-route.ts";
import { findMalformed, type ValidationErrors } from "./validation-errors.ts";

/** The request of {@link enrichEndpoint}, beside its records. */
interface EnrichParameters {
  readonly match_condition_fields?: readonly (typeof matchConditionFields)[number][];
  readonly return_fields?: readonly string[];
  readonly include_premium_fields?: boolean;
}

/**
 * The one field that `include_premium_fields` adds. The interface doesn't say what premium adds, so it is a field
 * that the interface doesn't name.
 */
const PREMIUM_FIELD = "net_worth_percentile";
const returnable: ReadonlySet<string> = new Set([...personFieldNames, PREMIUM_FIELD]);
const everyField = chooseFields(null);
/** An average result of every field takes a little less. */
const EXPECTED_BYTES = 8192;

/** The combinations of identifiers that the sandbox takes (the interface leaves them open). */
function findUnusable(sent: SentPerson): ValidationErrors {
  const usable =
    filled(sent.service_pid) ||
    filled(sent.linkedin_url) ||
    [...(sent.emails ?? []), ...(sent.phones ?? [])].some(filled) ||
    (hasName(sent) && hasAddress(sent));
  return usable
    ? null
    : { record: ["one of service_pid, linkedin_url, emails, phones, or a name with an address required"] };
}

interface Asked {
  readonly fields: FieldChoice;
  readonly premium: boolean;
  readonly conditions: readonly (typeof matchConditionFields)[number][];
  readonly day: number;
}

function answerRecord(
  world: World,
  sent: SentPerson,
  asked: Asked,
): { readonly text: string; readonly matched: boolean } {
  const { people } = world;
  const { day } = asked;
  const unusable = findUnusable(sent);
  let match = unusable ? null : matchPerson(people, sent, day, { reverse: true });
  if (match && !meetsConditions(people, match.index, day, asked.conditions)) match = null;
  const id = JSON.stringify(sent.record_id ?? null);
  const errors = JSON.stringify(unusable ?? findMalformed(sent));
  if (!match) {
    const text = `{"record_id":${id},"is_match":false,"service_pid":null,"match_score":null,"validation_errors":${errors}${asked.fields.unmatchedText}}`;
    return { text, matched: false };
  }
  const percentile = (hash(people.key, match.index, STREAM.person + 99) % 1000) / 10;
  const premium = asked.premium ? `,"${PREMIUM_FIELD}":${percentile}` : "";
  const text = `{"record_id":${id},"is_match":true,"service_pid":"${people.pidOf(match.index, day)}","match_score":${match.score},"validation_errors":${errors}${asked.fields.text(people, match.index, day)}${premium}}`;
  return { text, matched: true };
}

/** `POST /v2/enrich`: a match is billed. */
export const enrichRoute = lookupRoute({
  endpoint: enrichEndpoint,
  stamp: "offset",
  resultsLast: true,
  needsCapacity: true,
  answer(world, body) {
    // The body passed enrichEndpoint.request, which has these members.
    const parameters = body as EnrichParameters;
    const names = parameters.return_fields ?? [];
    const unknown = names.flatMap((name, i) =>
      returnable.has(name) ? [] : [{ loc: ["body", "return_fields", String(i)], type: "enum" }],
    );
    if (unknown.length > 0) {
      return refuse(422, "validation_error", "return_fields names a field that does not exist.", {
        details: unknown,
      });
    }
    const asked: Asked = {
      fields: names.length === 0 ? everyField : chooseFields(names),
      premium:
        parameters.include_premium_fields === true && (names.length === 0 || names.includes(PREMIUM_FIELD)),
      conditions: parameters.match_condition_fields ?? [],
      day: world.clock.today(),
    };
    let matched = 0;
    const results = writeResults(body.records.length * EXPECTED_BYTES);
    for (const record of body.records) {
      // As above: the records passed their schema.
      const answered = answerRecord(world, record as SentPerson, asked);
      if (answered.matched) matched += 1;
      world.ledger.countContent(enrichEndpoint.path, contentOf(record), answered.matched);
      results.add(answered.text);
    }
    return { kind: "results", results: results.finish(), matched, billed: matched };
  },
});
