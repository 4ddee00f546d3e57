import type { LookupEndpoint } from "../../../../src/schemas/answer.ts";
import { enrichEndpoint, type matchConditionFields } from "../../../../src/schemas/enrich.ts";
import { resolveEndpoint } from "../../../../src/schemas/resolve.ts";
import { validateEmailsEndpoint } from "../../../../src/schemas/validate-emails.ts";
import { type Refusal, type RefusedField, refuse } from "../http/answer.ts";
import { checkAgainst, listIn, MAX_TEXT_LENGTH, type Route, unprocessable } from "../http/route.ts";
import { sanitizeEmail } from "../population/contacts.ts";
import { hash, STREAM } from "../population/hash.ts";
import { chooseFields, meetsConditions, personFieldNames } from "../population/person-fields.ts";
import { stampText } from "../clock.ts";
import type { World } from "../world.ts";
import { filled, hasAddress, hasName, matchPerson, type SentPerson } from "./match-person.ts";

/** Answer to one record. */
interface AnsweredRecord {
  /** JSON text of the result. */
  readonly text: string;
  readonly isMatched: boolean;
  readonly isBilled: boolean;
  readonly isResolvable?: boolean;
}

/** Answers the records of one request, whose body passed the endpoint's schema. */
type Prepare = (world: World, body: unknown) => Refusal | ((record: unknown) => AnsweredRecord);

/** Content of a record as the ledger compares it: without `record_id`. */
function contentOf(record: unknown): string {
  return JSON.stringify(record, (key, value: unknown) => (key === "record_id" ? undefined : value));
}

function* longTexts(value: unknown, loc: readonly string[]): Generator<RefusedField> {
  if (typeof value === "string") {
    if (value.length > MAX_TEXT_LENGTH) yield { loc, type: "string_too_long" };
  } else if (typeof value === "object" && value !== null) {
    for (const [key, inner] of Object.entries(value)) yield* longTexts(inner, [...loc, key]);
  }
}

/** Checks a parsed body against an endpoint's declared request; null if the service would accept it. */
function checkRecords(endpoint: LookupEndpoint, body: unknown): Refusal | null {
  const records = listIn(body, "records");
  if (records.length > endpoint.maxRecords) {
    const message = `At most ${endpoint.maxRecords} records per request; this one has ${records.length}.`;
    return refuse(413, "payload_too_large", message);
  }
  const refusal = checkAgainst(endpoint.request, body);
  if (refusal) return refusal;
  const tooLong = [...longTexts(records, ["body", "records"])];
  return tooLong.length > 0 ? unprocessable(tooLong) : null;
}

/** A path that takes batches of records. */
function lookupRoute(endpoint: LookupEndpoint, prepare: Prepare, more: Partial<Route> = {}): Route {
  return {
    ...more,
    method: endpoint.method,
    path: endpoint.path,
    records: "records",
    check: ({ body }) => checkRecords(endpoint, body),
    answer(world, { body }) {
      const answerRecord = prepare(world, body);
      if (typeof answerRecord !== "function") return answerRecord;
      const items: string[] = [];
      let [matched, billed, resolvable] = [0, 0, 0];
      for (const record of listIn(body, "records")) {
        const { text, isMatched, isBilled, isResolvable = true } = answerRecord(record);
        items.push(text);
        if (isMatched) matched += 1;
        if (isBilled) billed += 1;
        if (isResolvable) resolvable += 1;
        world.ledger.countContent(endpoint.path, contentOf(record), isBilled);
      }
      return { kind: "results", items, matched, billed, resolvable };
    },
  };
}

/** Problems by field; null if there are none. */
function noneIfEmpty(errors: Readonly<Record<string, readonly string[]>>) {
  return Object.keys(errors).length > 0 ? errors : null;
}

const EMAIL = /^\s*[^\s@]+@[^\s@]+\.[^\s@]+\s*$/;

/** Finds malformed values; their record is answered anyway. */
function findMalformed({ emails, phones }: SentPerson) {
  const hasBadEmail = emails?.some((email) => !EMAIL.test(email));
  const hasBadPhone = phones?.some((phone) => phone.replace(/\D/g, "").length < 7);
  return noneIfEmpty({
    ...(hasBadEmail ? { emails: ["value is not a valid email address"] } : {}),
    ...(hasBadPhone ? { phones: ["value is not a valid phone number"] } : {}),
  });
}

const hasContact = ({ emails, phones }: SentPerson) => [...(emails ?? []), ...(phones ?? [])].some(filled);

/** `POST /v1/resolve`: matches are billed. */
const resolveRoute = lookupRoute(resolveEndpoint, ({ people, clock }) => {
  const day = clock.today();
  return (record) => {
    // The body passed resolveEndpoint.request.
    const sent = record as SentPerson;
    const unusable = noneIfEmpty({
      ...(hasName(sent) ? {} : { name: ["first_name and last_name, or full_name, required"] }),
      ...(hasContact(sent) ? {} : { contact: ["at least one entry in emails or phones required"] }),
    });
    const match = unusable ? null : matchPerson(people, sent, day, { reverse: false });
    const isMatched = match !== null;
    const text = JSON.stringify({
      record_id: sent.record_id ?? null,
      is_match: isMatched,
      service_pid: match && people.pidOf(match.index, day),
      match_score: match && match.score,
      is_resolvable_record: unusable === null,
      validation_errors: unusable ?? findMalformed(sent),
    });
    return { text, isMatched, isBilled: isMatched, isResolvable: unusable === null };
  };
});

/** `POST /v2/validate_emails`: every address is billed. */
const validateEmailsRoute = lookupRoute(validateEmailsEndpoint, ({ people: { contacts }, clock }) => {
  const day = clock.today();
  return (record) => {
    const address = String(record);
    // The population has sanitized addresses only, so the sanitized form is the better match of the two.
    const found = contacts.findByEmail(sanitizeEmail(address), day);
    const validity = found && contacts.validityOf(found, day);
    const seenMs = validity?.lastSeenMs ?? null;
    // As Python writes it: whole seconds have no fraction.
    const seenText =
      seenMs === null ? null : stampText(seenMs, seenMs % 977, "zoneless").replace(/\.000000$/, "");
    const text = JSON.stringify({
      email_address: address,
      is_match: found !== null,
      email_validation_status: validity?.status ?? null,
      email_last_seen: seenText,
    });
    return { text, isMatched: found !== null, isBilled: true };
  };
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
const enrichRoute = lookupRoute(
  enrichEndpoint,
  ({ people, clock }, body) => {
    // The body passed enrichEndpoint.request, which has these members.
    const parameters = body as EnrichParameters;
    const names = parameters.return_fields ?? [];
    const unknown = names.flatMap((name, i) =>
      returnable.has(name) ? [] : [{ loc: ["body", "return_fields", String(i)], type: "enum" }],
    );
    if (unknown.length > 0) return unprocessable(unknown, "return_fields names a field that does not exist.");
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
      const isMatched = match !== null;
      const pid = match ? `"${people.pidOf(match.index, day)}"` : null;
      const errors = JSON.stringify(unusable ?? findMalformed(sent));
      const head = `{"record_id":${JSON.stringify(sent.record_id ?? null)},"is_match":${isMatched},"service_pid":${pid},"match_score":${match && match.score},"validation_errors":${errors}`;
      if (!match) return { text: `${head}${fields.unmatchedText}}`, isMatched, isBilled: false };
      const percentile = (hash(people.key, match.index, STREAM.person + 99) % 1000) / 10;
      const premium = hasPremium ? `,"${PREMIUM_FIELD}":${percentile}` : "";
      return {
        text: `${head}${fields.text(people, match.index, day)}${premium}}`,
        isMatched,
        isBilled: true,
      };
    };
  },
  { stamp: "offset", resultsLast: true, needsCapacity: true },
);

/** Every path that takes batches of records. */
export const lookupRoutes: readonly Route[] = [resolveRoute, validateEmailsRoute, enrichRoute];
