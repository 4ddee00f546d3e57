import type { Cell } from "../../schemas/convert.ts";
import { dueAt } from "../due-at.ts";
import type { LoadSpec, LookupAnswer, LookupRecord, LookupReject } from "../warehouse.ts";
import { answerFields } from "./staged-columns.ts";
import type { StagedPerson } from "./staged-person.ts";
import { createTextSlab } from "./text-slab.ts";

/** `,"name":"text"`, nothing for null. */
function member(name: string, cell: Cell): string {
  return cell === null ? "" : `,"${name}":${JSON.stringify(cell)}`;
}

function recordMembers(
  seq: number,
  kind: "answer" | "reject",
  record: LookupRecord,
  callId: string | null,
  dueAtOf: (row: LookupRecord["rows"][number]) => Cell,
): string {
  const rows = record.rows.map(
    (row) =>
      `{"k":${JSON.stringify(row.sourceKey)},"h":"${row.inputHash}"${member("p", row.priorOutcome)}${member("d", dueAtOf(row))}}`,
  );
  return (
    `"seq":${seq},"kind":"${kind}","record_id":${JSON.stringify(record.recordId)},"sent_hash":"${record.sentHash}"` +
    `${member("call_id", callId)}${member("sent_pid", record.sentPid)},"input_rows":[${rows.join(",")}]`
  );
}

/** Lines wait here until they are written. */
const put = createTextSlab();

/** The line of an answer. */
export function answerLine(spec: LoadSpec, answer: LookupAnswer, seq: number): Buffer {
  const { record, outcome, servicePid, cells, extra, apiRequestId, answeredAt, callId } = answer;
  const fields = answerFields[spec.type];
  const head = recordMembers(seq, "answer", record, callId, (row) =>
    dueAt(spec, { outcome, answeredAt, sentHash: record.sentHash, isFirst: row.priorOutcome === null }),
  );
  const own = fields.map((name, i) => member(name, cells[i] ?? null)).join("");
  const text =
    `{${head},"outcome":"${outcome}","answered_at":"${answeredAt}"${member("returned_pid", servicePid)}` +
    `${member("api_request_id", apiRequestId)}${member("extra", extra)},"cells":{${own.slice(1)}}`;
  // Prepared persons come from this warehouse's own preparePerson, which is stagePerson.
  const person = answer.person as StagedPerson | null;
  const isStored = person !== null && spec.type === "enrich";
  return put(isStored ? [text, ",", person.line, "}\n"] : [text, "}\n"]);
}

/** The line of a reject. @param callId a call that it stands and falls with; null for none. */
export function rejectLine(reject: LookupReject, seq: number, callId: string | null): Buffer {
  const { record, stage, code, message, details, apiRequestId } = reject;
  const head = recordMembers(seq, "reject", record, callId, () => null);
  const detailsText = details === null || details === undefined ? null : JSON.stringify(details);
  return Buffer.from(
    `{${head},"stage":"${stage}","code":${JSON.stringify(code)},"message":${JSON.stringify(message)}` +
      `${member("details", detailsText)}${member("api_request_id", apiRequestId)}}\n`,
  );
}
