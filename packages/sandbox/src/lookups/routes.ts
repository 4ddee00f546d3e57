import { stampText } from "../population/calendar.ts";
import type { LookupEndpoint } from "../../../../src/schemas/answer.ts";
import { enrichEndpoint, type matchConditionFields } from "../../../../src/schemas/enrich.ts";
import { resolveEndpoint } from "../../../../src/schemas/resolve.ts";
import { validateEmailsEndpoint } from "../../../../src/schemas/validate-emails.ts";
import { type Refusal, type RefusedField, type Results } from "../http/answer.ts";
import { listIn, MAX_TEXT_LENGTH, type Route, route, unprocessable } from "../http/route.ts";
import { sanitizeEmail } from "../population/contacts.ts";
import { hash, STREAM } from "../population/hash.ts";
import { CHANNELS, fieldsOf, type Person, personFieldNames, READERS } from "../population/person-fields.ts";
import type { World } from "../world.ts";
import { filled, hasAddress, hasName, matchPerson, type SentPerson } from "./match-person.ts";

interface AnsweredRecord {
  readonly result: object;
  readonly isMatched: boolean;
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

/** A path that takes batches of records. */
function lookupRoute(endpoint: LookupEndpoint, prepare: Prepare, bodyOf?: Results["body"]): Route {
  const { method, path, maxRecords, request: body } = endpoint;
  return route({
    method,
    path,
    maxRecords,
    records: "records",
    body,
    answer(world, call) {
      const records = listIn(call.body, "records");
      const tooLong = [...longTexts(records, ["body", "records"])];
      if (tooLong.length > 0) return unprocessable(tooLong);
      const answerRecord = prepare(world, call.body);
      if (typeof answerRecord !== "function") return answerRecord;
      let [matched, billed, resolvable] = [0, 0, 0];
      const results = records.map((record) => {
        const { result, isMatched, isResolvable = true } = answerRecord(record);
        const isBilled = isMatched || world.billing.perRecord.has(path);
        if (isBilled && path === enrichEndpoint.path) world.capacity.bill(1);
        if (isMatched) matched += 1;
        if (isBilled) billed += 1;
        if (isResolvable) resolvable += 1;
        world.ledger.countContent(path, contentOf(record), isBilled);
        return JSON.stringify(result);
      });
      return {
        kind: "results",
        results,
        matched,
        billed,
        resolvable,
        ...(bodyOf ? { body: bodyOf } : {}),
      };
    },
  });
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

/** `POST /v1/resolve` */
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
    const result = {
      record_id: sent.record_id ?? null,
      is_match: match !== null,
      service_pid: match && people.pidOf(match.index, day),
      match_score: match && match.score,
      is_resolvable_record: unusable === null,
      validation_errors: unusable ?? findMalformed(sent),
    };
    const isMatched = match !== null;
    return { result, isMatched, isResolvable: unusable === null };
  };
});

/** `POST /v2/validate_emails` */
const validateEmailsRoute = lookupRoute(validateEmailsEndpoint, ({ people: { contacts }, clock }) => {
  const day = clock.today();
  return (record) => {
    const address = String(record);
    // The population has sanitized addresses only, so the sanitized form is the better match of the two.
    const found = contacts.findByEmail(sanitizeEmail(address), day);
    const validity = found && contacts.validityOf(found, day);
    const seenMs = validity?.lastSeenMs ?? null;
    const result = {
      email_address: address,
      is_match: found !== null,
      email_validation_status: validity?.status ?? null,
      email_last_seen: seenMs === null ? null : stampText(seenMs, seenMs % 977, ""),
    };
    return { result, isMatched: found !== null };
  };
});

/** The interface doesn't define match conditions; in the sandbox the person must have the named field. */
const CONDITIONS: Record<(typeof matchConditionFields)[number], (person: Person) => boolean> = {
  ...CHANNELS,
  linkedin_url: CHANNELS.linkedin,
  emails: CHANNELS.email,
  gender: (person) => READERS.gender(person) !== null,
  estimated_income_range: (person) => READERS.estimated_income_range(person) !== null,
  estimated_wealth_range: (person) => READERS.estimated_wealth_range(person) !== null,
  home_ownership_status: (person) => READERS.home_ownership_status(person) !== null,
};

interface EnrichParameters {
  readonly match_condition_fields?: readonly (keyof typeof CONDITIONS)[];
  readonly return_fields?: readonly string[];
  readonly include_premium_fields?: boolean;
}

/** Added by `include_premium_fields`. The interface names no premium field, so this is one that it doesn't name. */
const PREMIUM_FIELD = "net_worth_percentile";
const returnable: ReadonlySet<string> = new Set([...personFieldNames, PREMIUM_FIELD]);
const UNUSABLE = {
  record: ["one of service_pid, linkedin_url, emails, phones, or a name with an address required"],
};

/** True for the combinations of identifiers that the sandbox accepts (the interface leaves them open). */
function isUsable(sent: SentPerson): boolean {
  const hasIdentifier = filled(sent.service_pid) || filled(sent.linkedin_url) || hasContact(sent);
  return hasIdentifier || (hasName(sent) && hasAddress(sent));
}

/** `POST /v2/enrich`: what is billed uses the capacity (section 4.7 names 402 for enrich only). */
const enrichRoute = lookupRoute(
  enrichEndpoint,
  ({ people, clock, capacity }, body) => {
    // The body passed enrichEndpoint.request, which has these members.
    const parameters = body as EnrichParameters;
    const names = parameters.return_fields ?? [];
    const unknown = names.flatMap((name, i) =>
      returnable.has(name) ? [] : [{ loc: ["body", "return_fields", String(i)], type: "enum" }],
    );
    if (unknown.length > 0) return unprocessable(unknown, "return_fields names a field that does not exist.");
    const refusal = capacity.refuse(listIn(body, "records").length);
    if (refusal) return refusal;
    const day = clock.today();
    const chosen = names.length === 0 ? null : names;
    const hasPremium = parameters.include_premium_fields && (chosen?.includes(PREMIUM_FIELD) ?? true);
    const conditions = parameters.match_condition_fields ?? [];
    return (record) => {
      // As above: the records passed their schema.
      const sent = record as SentPerson;
      const unusable = isUsable(sent) ? null : UNUSABLE;
      const found = unusable ? null : matchPerson(people, sent, day, { reverse: true });
      const person = found && { people, index: found.index, day };
      const match = person && conditions.every((one) => CONDITIONS[one](person)) ? person : null;
      const isMatched = match !== null;
      const head = {
        record_id: sent.record_id ?? null,
        is_match: isMatched,
        service_pid: match && people.pidOf(match.index, day),
        match_score: match && found ? found.score : null,
        validation_errors: unusable ?? findMalformed(sent),
      };
      const result = fieldsOf(match, chosen, head);
      if (hasPremium && match)
        result[PREMIUM_FIELD] = (hash(people.key, match.index, STREAM.person + 99) % 1000) / 10;
      return { result, isMatched };
    };
  },
  // Another zone and order than elsewhere: clients can't count on either.
  (results, envelope) => ({
    ...envelope,
    request_completed_at: envelope.request_completed_at.replace("Z", "+00:00"),
    results,
  }),
);

export const lookupRoutes: readonly Route[] = [resolveRoute, validateEmailsRoute, enrichRoute];
