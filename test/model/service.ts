import { type Endpoint, serve } from "../nights/scripted-service.ts";

/** Answer to one content. */
export interface Answer {
  readonly isMatch: boolean;
  readonly pid: string | null;
  /** Status of a validated address; null for a person. */
  readonly status: "valid" | "invalid" | null;
}

/** Call in the service's ledger. */
export interface Call {
  /** 1-based, in the order received. */
  readonly serial: number;
  readonly run: string;
  readonly job: string;
  /** Endpoint and parameters besides the records. */
  readonly kind: string;
  readonly contents: readonly string[];
  /** `api_request_id` of the answer; null for a refused call, which isn't billed. */
  readonly requestId: string | null;
  /** Answers by content. */
  readonly answers: ReadonlyMap<string, Answer>;
}

/** Records of a call; larger ones are refused, so that runs make several. */
const MAX_RECORDS = 4;

type Fields = Readonly<Record<string, unknown>>;

/** Content of a record: its fields in order, without `record_id`. */
export function contentOf(record: unknown): string {
  if (typeof record !== "object" || record === null) return String(record);
  const fields = Object.entries(record).filter(([name, value]) => name !== "record_id" && value !== null);
  return JSON.stringify(Object.fromEntries(fields.toSorted(([a], [b]) => (a < b ? -1 : 1))));
}

/** Kind of a job's requests. */
export function kindOf(endpoint: Endpoint, returnFields: readonly string[]): string {
  return [endpoint, ...returnFields].join(" ");
}

function hashOf(text: string): number {
  let hash = 7;
  for (const letter of text) hash = (Math.imul(hash, 31) + (letter.codePointAt(0) ?? 0)) >>> 0;
  return hash >>> 5;
}

/** Answer to a content: people called Nobody are unknown, those called Solo always the same, others change at times. */
function answerTo(endpoint: Endpoint, record: unknown, serial: number): Answer {
  const luck = (hashOf(contentOf(record)) + serial) % 6;
  if (endpoint === "validate_emails") {
    const isInvalid = luck < 2 && !String(record).startsWith("solo");
    return { isMatch: true, pid: null, status: isInvalid ? "invalid" : "valid" };
  }
  const fields: Fields = typeof record === "object" && record !== null ? { ...record } : {};
  const own = fields["service_pid"];
  if (typeof own === "string") return { isMatch: luck !== 5, pid: luck === 5 ? null : own, status: null };
  const given = fields["full_name"];
  const name = typeof given === "string" ? given.toLowerCase() : "someone";
  if (name.startsWith("solo")) return { isMatch: true, pid: `p-${name}`, status: null };
  const isMatch = luck > 0 && name !== "nobody";
  return { isMatch, pid: isMatch ? `p-${name}${luck === 1 ? "-b" : ""}` : null, status: null };
}

function resultOf(endpoint: Endpoint, record: unknown, { isMatch, pid, status }: Answer): object {
  if (endpoint === "validate_emails")
    return {
      email_address: record,
      is_match: isMatch,
      email_validation_status: status,
      email_last_seen: null,
    };
  const fields: Fields = typeof record === "object" && record !== null ? { ...record } : {};
  const found = {
    record_id: fields["record_id"],
    is_match: isMatch,
    service_pid: pid,
    match_score: isMatch ? 90 : null,
  };
  if (endpoint === "resolve") return { ...found, validation_errors: null, is_resolvable_record: true };
  return {
    ...found,
    validation_errors: null,
    ...(isMatch ? { full_name: fields["full_name"] ?? "Someone" } : {}),
  };
}

/** True for a record that the service refuses with its whole call. */
export function isPoison(content: string): boolean {
  return content.includes("Poison");
}

/** Starts a service that keeps a ledger and answers equal contents differently at times. Paths name run and job: `/v2/enrich?run=r&job=enrich`. */
export async function startModelService() {
  const calls: Call[] = [];

  /** Records a call; returns status and body of its response. */
  function answer(endpoint: Endpoint, at: URL, body: Fields): readonly [number, object] {
    const records: readonly unknown[] = Array.isArray(body["records"]) ? body["records"] : [];
    const returnFields = Array.isArray(body["return_fields"]) ? body["return_fields"].map(String) : [];
    const serial = calls.length + 1;
    const contents = records.map(contentOf);
    const call = {
      serial,
      run: at.searchParams.get("run") ?? "",
      job: at.searchParams.get("job") ?? "",
      kind: kindOf(endpoint, returnFields),
      contents,
    };
    const details = contents.flatMap((content, i) =>
      isPoison(content) ? [{ loc: ["body", "records", String(i), "emails"], type: "value_error" }] : [],
    );
    const isTooLarge = records.length > MAX_RECORDS;
    if (isTooLarge || details.length > 0) {
      calls.push({ ...call, requestId: null, answers: new Map() });
      const body = {
        code: isTooLarge ? "too_large" : "validation_error",
        message: "no",
        api_request_id: "r",
      };
      return [isTooLarge ? 413 : 422, isTooLarge ? body : { ...body, details }];
    }
    const requestId = `req-${serial}`;
    const answers = new Map<string, Answer>();
    const results = records.map((record) => {
      const one = answerTo(endpoint, record, serial);
      answers.set(contentOf(record), one);
      return resultOf(endpoint, record, one);
    });
    calls.push({ ...call, requestId, answers });
    const completed = new Date().toISOString().replace("Z", "000Z");
    return [200, { api_request_id: requestId, results, request_completed_at: completed }];
  }

  const server = await serve(async (endpoint, body, response, url) => {
    const [status, text] = answer(endpoint, url, body);
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(text));
  });
  return { ...server, calls: calls as readonly Call[] };
}
