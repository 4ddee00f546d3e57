import { validateEmailsEndpoint } from "../../schemas/validate-emails.ts";
import { sanitizeEmail } from "../population/contacts.ts";
import { writeResults } from "../http/result-list.ts";
import type { World } from "../world.ts";
import { stampText } from "../world-clock.ts";
import { lookupRoute } from "./lookup-route.ts";

function answerAddress(
  world: World,
  address: string,
  day: number,
): { readonly text: string; readonly matched: boolean } {
  const { contacts } = world.people;
  // The population stores sanitized addresses only, so the sanitized form is the better match of the two.
  const found = contacts.findByEmail(sanitizeEmail(address), day);
  const validity = found && contacts.validityOf(found, day);
  const seenMs = validity?.lastSeenMs ?? null;
  // As Python writes it: whole seconds come without a fraction.
  const seen = seenMs === null ? null : stampText(seenMs, seenMs % 977, "zoneless").replace(/\.000000$/, "");
  const text = JSON.stringify({
    email_address: address,
    is_match: found !== null,
    email_validation_status: validity?.status ?? null,
    email_last_seen: seen,
  });
  return { text, matched: found !== null };
}

/** `POST /v2/validate_emails`: every address is billed, matched or not. */
export const validateEmailsRoute = lookupRoute({
  endpoint: validateEmailsEndpoint,
  stamp: "z",
  resultsLast: false,
  needsCapacity: false,
  answer(world, body) {
    const day = world.clock.today();
    let matched = 0;
    const results = writeResults(body.records.length * 300);
    for (const record of body.records) {
      const address = String(record);
      const answered = answerAddress(world, address, day);
      if (answered.matched) matched += 1;
      world.ledger.countContent(validateEmailsEndpoint.path, JSON.stringify(address), true);
      results.add(answered.text);
    }
    return { kind: "results", results: results.finish(), matched, billed: body.records.length };
  },
});
