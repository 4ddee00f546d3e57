import type { LookupEndpoint } from "../../schemas/endpoint.ts";
import { enrichEndpoint, type matchConditionFields } from "../../schemas/enrich.ts";
import { resolveEndpoint } from "../../schemas/resolve.ts";
import { validateEmailsEndpoint } from "../../schemas/validate-emails.ts";
import { checkLookup } from "../http/check-request.ts";
import { type Refusal, refuse } from "../http/outcome.ts";
import { writeResults } from "../http/result-list.ts";
import { sanitizeEmail } from "../population/contacts.ts";
import { hash } from "../population/hash.ts";
import { filled, hasAddress, hasName, matchPerson, type SentPerson } from "../population/match-person.ts";
import { chooseFields, meetsConditions, personFieldNames } from "../population/person-fields.ts";
import { STREAM } from "../population/streams.ts";
import type { World } from "../world.ts";
import { stampText } from "../world-clock.ts";
import { listIn, type Route } from "./route.ts";

/** Answer to one record. */
interface AnsweredRecord {
  /** JSON text of the result. */
  readonly text: string;
  readonly isMatched: boolean;
  readonly isBilled: boolean;
  readonly isResolvable?: boolean;
}

/** A path that takes batches of records. */
interface Lookup extends Pick<Route, "stamp" | "resultsLast" | "needsCapacity"> {
  readonly endpoint: LookupEndpoint;
  /** Bytes of an average result. */
  readonly expectedBytes: number;
  /** Answers the records of one request, whose body passed the endpoint's schema. */
  prepare(this: void, world: World, body: unknown): Refusal | ((record: unknown) => AnsweredRecord);
}

/** Content of a record as the ledger compares it: without `record_id`. */
export function contentOf(record: unknown): string {
  return JSON.stringify(record, (key, value: unknown) => (key === "record_id" ? undefined : value));
}

function lookupRoute({ endpoint, expectedBytes, prepare, ...rest }: Lookup): Route {
  return {
    ...rest,
    method: endpoint.method,
    path: endpoint.path,
    recordsOf: ({ body }) => listIn(body, "records"),
    check: ({ body }) => checkLookup(endpoint, body),
    answer(world, { body }) {
      const answerRecord = prepare(world, body);
      if (typeof answerRecord !== "function") return answerRecord;
      const records = listIn(body, "records");
      const results = writeResults(records.length * expectedBytes);
      let [matched, billed, resolvable] = [0, 0, 0];
      for (const record of records) {
        const { text, isMatched, isBilled, isResolvable = true } = answerRecord(record);
        results.add(text);
        if (isMatched) matched += 1;
        if (isBilled) billed += 1;
        if (isResolvable) resolvable += 1;
        world.ledger.countContent(endpoint.path, contentOf(record), isBilled);
      }
      return { kind: "results", results: results.finish(), matched, billed, resolvable };
    },
  };
}

/** Problems of a record by field; null if there are none. */
type ValidationErrors = Readonly<Record<string, readonly string[]>> | null;

const EMAIL = /^\s*[^\s@]+@[^\s@]+\.[^\s@]+\s*$/;
const noneIfEmpty = (errors: Record<string, readonly string[]>): ValidationErrors =>
  Object.keys(errors).length > 0 ? errors : null;

/** Finds malformed values; their record is answered anyway. */
function findMalformed({ emails, phones }: SentPerson): ValidationErrors {
  return noneIfEmpty({
    ...(emails?.some((email) => !EMAIL.test(email))
      ? { emails: ["value is not a valid email address"] }
      : {}),
    ...(phones?.some((phone) => phone.replace(/\D/g, "").length < 7)
      ? { phones: ["value is not a valid phone number"] }
      : {}),
  });
}

const hasContact = ({ emails, phones }: SentPerson) => [...(emails ?? []), ...(phones ?? [])].some(filled);

/** `POST /v1/resolve`: matches are billed. */
const resolveRoute = lookupRoute({
  endpoint: resolveEndpoint,
  expectedBytes: 300,
  prepare(world) {
    const day = world.clock.today();
    return (record) => {
      // The body passed resolveEndpoint.request.
      const sent = record as SentPerson;
      const unusable = noneIfEmpty({
        ...(hasName(sent) ? {} : { name: ["first_name and last_name, or full_name, required"] }),
        ...(hasContact(sent) ? {} : { contact: ["at least one entry in emails or phones required"] }),
      });
      const match = unusable ? null : matchPerson(world.people, sent, day, { reverse: false });
      const text = JSON.stringify({
        record_id: sent.record_id ?? null,
        is_match: match !== null,
        service_pid: match && world.people.pidOf(match.index, day),
        match_score: match && match.score,
        is_resolvable_record: unusable === null,
        validation_errors: unusable ?? findMalformed(sent),
      });
      const isMatched = match !== null;
      return { text, isMatched, isBilled: isMatched, isResolvable: unusable === null };
    };
  },
});

/** `POST /v2/validate_emails`: every address is billed. */
const validateEmailsRoute = lookupRoute({
  endpoint: validateEmailsEndpoint,
  expectedBytes: 300,
  prepare({ people: { contacts }, clock }) {
    const day = clock.today();
    return (record) => {
      const address = String(record);
      // The population has sanitized addresses only, so the sanitized form is the better match of the two.
      const found = contacts.findByEmail(sanitizeEmail(address), day);
      const validity = found && contacts.validityOf(found, day);
      const seenMs = validity?.lastSeenMs ?? null;
      const text = JSON.stringify({
        email_address: address,
        is_match: found !== null,
        email_validation_status: validity?.status ?? null,
        // As Python writes it: whole seconds have no fraction.
        email_last_seen:
          seenMs === null ? null : stampText(seenMs, seenMs % 977, "zoneless").replace(/\.000000$/, ""),
      });
      return { text, isMatched: found !== null, isBilled: true };
    };
  },
});

/** Parameters of an enrich request, without its records. */
interface EnrichParameters {
  readonly match_condition_fields?: readonly (typeof matchConditionFields)[number][];
  readonly return_fields?: readonly string[];
  readonly include_premium_fields?: boolean;
}

/** Added by `include_premium_fields`. The interface names no premium field, so this is one that it doesn't name. */
const PREMIUM_FIELD = "net_worth_percentile";
const returnable: ReadonlySet<string> = new Set([...personFieldNames, PREMIUM_FIELD]);
const everyField = chooseFields(null);
const UNUSABLE = {
  record: ["one of service_pid, linkedin_url, emails, phones, or a name with an address required"],
};

/** True for the combinations of identifiers that the sandbox accepts (the interface leaves them open). */
function isUsable(sent: SentPerson): boolean {
  const hasIdentifier = filled(sent.service_pid) || filled(sent.linkedin_url) || hasContact(sent);
  return hasIdentifier || (hasName(sent) && hasAddress(sent));
}

/** `POST /v2/enrich`: matches are billed. */
const enrichRoute = lookupRoute({
  endpoint: enrichEndpoint,
  stamp: "offset",
  resultsLast: true,
  needsCapacity: true,
  expectedBytes: 8192,
  prepare({ people, clock }, body) {
    // The body passed enrichEndpoint.request, which has these members.
    const parameters = body as EnrichParameters;
    const names = parameters.return_fields ?? [];
    const details = names.flatMap((name, i) =>
      returnable.has(name) ? [] : [{ loc: ["body", "return_fields", String(i)], type: "enum" }],
    );
    if (details.length > 0) {
      return refuse(422, "validation_error", "return_fields names a field that does not exist.", { details });
    }
    const day = clock.today();
    const fields = names.length === 0 ? everyField : chooseFields(names);
    const hasPremium =
      parameters.include_premium_fields === true && (names.length === 0 || names.includes(PREMIUM_FIELD));
    const conditions = parameters.match_condition_fields ?? [];
    return (record) => {
      // As above: the records passed their schema.
      const sent = record as SentPerson;
      const unusable = isUsable(sent) ? null : UNUSABLE;
      const found = unusable ? null : matchPerson(people, sent, day, { reverse: true });
      const match = found && meetsConditions(people, found.index, day, conditions) ? found : null;
      const id = JSON.stringify(sent.record_id ?? null);
      const errors = JSON.stringify(unusable ?? findMalformed(sent));
      if (!match) {
        const text = `{"record_id":${id},"is_match":false,"service_pid":null,"match_score":null,"validation_errors":${errors}${fields.unmatchedText}}`;
        return { text, isMatched: false, isBilled: false };
      }
      const percentile = (hash(people.key, match.index, STREAM.person + 99) % 1000) / 10;
      const premium = hasPremium ? `,"${PREMIUM_FIELD}":${percentile}` : "";
      const text = `{"record_id":${id},"is_match":true,"service_pid":"${people.pidOf(match.index, day)}","match_score":${match.score},"validation_errors":${errors}${fields.text(people, match.index, day)}${premium}}`;
      return { text, isMatched: true, isBilled: true };
    };
  },
});

/** Every path that takes batches of records. */
export const lookupRoutes: readonly Route[] = [resolveRoute, validateEmailsRoute, enrichRoute];
