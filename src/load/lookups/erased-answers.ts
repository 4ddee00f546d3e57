import type { Cell } from "../../schemas/convert.ts";
import { enrichFields } from "../../schemas/enrich.ts";
import { tableNamed } from "../../schemas/registry.ts";
import { resolveFields } from "../../schemas/resolve.ts";
import { validateFields } from "../../schemas/validate-emails.ts";
import { namingOf } from "../erasure/subjects.ts";
import { normalizedEmail } from "../inputs/columns.ts";
import { type Erased, findErased, type Named, namesErased } from "../write/erased.ts";
import type { Writing } from "../write/upsert.ts";
import type { LoadSpec, LookupAnswer, LookupReject } from "./lookup.ts";
import {
  bytesOf,
  createRowStore,
  decodePerson,
  decodeRows,
  type EncodedPerson,
  encodePerson,
  listGroups,
  PERSON_COLUMNS,
} from "./person-groups.ts";

interface Outcomes {
  readonly answers: readonly LookupAnswer[];
  readonly rejects: readonly LookupReject[];
}

/**
 * Removes erased people from answers and rejects: those about them; in those about others, their addresses, relatives with their PIDs,
 * the PID of a spouse, and JSON that names them. Returns also the contents that were answered with one: they would be sent again every
 * night.
 */
export async function withoutErased(
  { session, erasureKey }: Writing,
  { spec, answers, rejects }: Outcomes & { readonly spec: LoadSpec },
): Promise<Outcomes & { readonly erased: readonly string[] }> {
  if (erasureKey === null) return { answers, rejects, erased: [] };
  const about = new Map([...answers, ...rejects].map((one) => [one, subjectOf(spec, one)]));
  const named = new Map(answers.map((answer) => [answer, othersIn(spec, answer)]));
  const found = await findErased(session, erasureKey, [...about.values(), ...named.values()]);
  const isNamed = (list: Named | undefined) => list !== undefined && namesErased(found, list);
  const isKept = (one: LookupAnswer | LookupReject) => !isNamed(about.get(one));
  // The answer to a row that was erased itself may still be on disk.
  const answered = [...about.keys()].filter((one) => !isKept(one) && !found.contents.has(one.record.content));
  return {
    erased: answered.map(({ record }) => record.content),
    answers: answers
      .filter(isKept)
      .map((answer) => (isNamed(named.get(answer)) ? withoutOthers(spec, answer, found) : answer)),
    rejects: rejects.filter(isKept),
  };
}

/** Whom an answer or reject is about: content and identifiers that were sent, and the PIDs of the answer. */
function subjectOf({ type }: LoadSpec, one: LookupAnswer | LookupReject): Named {
  const { content, address, json, sentPid } = one.record;
  const answered = "cells" in one ? [one.servicePid, one.person?.pid ?? null] : [];
  // Every record is built from input rows by this program.
  const sent = (type === "validate_emails" ? { emails: [address ?? ""] } : JSON.parse(json)) as {
    readonly emails?: readonly string[];
    readonly service_pid?: string;
  };
  return {
    contents: [content],
    pids: [sentPid, sent.service_pid ?? null, ...answered].filter((pid) => pid !== null),
    emails: (sent.emails ?? []).map(normalizedEmail),
    json: [],
  };
}

/** Positions of JSON among the cells of an answer. */
function jsonCells({ type }: LoadSpec): readonly number[] {
  const fields = { resolve: resolveFields, enrich: enrichFields, validate_emails: validateFields }[type];
  return Object.values(fields).flatMap((field, at) => (field.type === "json" ? [at] : []));
}

/** Positions of cells that may name people, in rows of a table. */
type NamingCells = Readonly<Record<"pids" | "emails" | "clears" | "json", readonly number[]>>;

/** The PID of the person itself is not among them. */
function namingCells(table: string, columns: readonly string[]): NamingCells {
  const naming = namingOf(tableNamed(table), columns);
  const at = (kind: keyof NamingCells) =>
    (naming?.[kind] ?? []).filter((name) => name !== "service_pid").map((name) => columns.indexOf(name));
  return { pids: at("pids"), emails: at("emails"), clears: at("clears"), json: at("json") };
}

/** By group of an encoded person. */
const cellsOfGroups: readonly NamingCells[] = [
  namingCells("person", PERSON_COLUMNS),
  ...listGroups.map(({ table, columns }) => namingCells(table, columns)),
];

const emailAt = (row: readonly Cell[], at: number) => normalizedEmail(row[at] ?? "");

/** Whom else an answer may name. */
function othersIn(spec: LoadSpec, { person, cells, extra }: LookupAnswer): Named {
  const json = [extra, ...jsonCells(spec).map((at) => cells[at] ?? null)];
  const named: Named = { contents: [], pids: [], emails: [], json: json.filter((text) => text !== null) };
  if (person === null) return named;
  for (const [group, cells] of cellsOfGroups.entries()) {
    const hasNames = cells.pids.length + cells.emails.length + cells.clears.length > 0;
    // Few rows have JSON, which is an object: others need not be decoded.
    if (!hasNames && !bytesOf(person, group).includes("{")) continue;
    for (const row of decodeRows(person, group)) {
      for (const at of [...cells.pids, ...cells.clears]) named.pids.push(row[at] ?? "");
      for (const at of cells.emails) named.emails.push(emailAt(row, at));
      for (const at of cells.json) if (row[at]) named.json.push(row[at]);
    }
  }
  return named;
}

/** Removes erased people whom an answer about someone else names. */
function withoutOthers(spec: LoadSpec, answer: LookupAnswer, erased: Erased): LookupAnswer {
  const without = (text: Cell) => (erased.json.has(text ?? "") ? null : text);
  const json = jsonCells(spec);
  return {
    ...answer,
    person: answer.person && personWithout(answer.person, erased),
    extra: without(answer.extra),
    cells: answer.cells.map((cell, at) => (json.includes(at) ? without(cell) : cell)),
  };
}

/** Removes erased people from a person. Its hashes are the same as if the service had omitted them. */
function personWithout(person: EncodedPerson, erased: Erased): EncodedPerson {
  const isKept = ({ pids, emails }: NamingCells, row: readonly Cell[]) =>
    !pids.some((at) => erased.pids.has(row[at] ?? "")) &&
    !emails.some((at) => erased.emails.has(emailAt(row, at)));
  const cleared = <C extends Cell | undefined>({ clears, json }: NamingCells, row: readonly C[]) =>
    row.map((cell, at) => {
      const isNamed =
        (clears.includes(at) && erased.pids.has(cell ?? "")) ||
        (json.includes(at) && erased.json.has(cell ?? ""));
      return isNamed ? null : cell;
    });
  const [ofPerson, ...ofLists] = cellsOfGroups;
  const { scalars, extra, lists, servicePid } = decodePerson(person);
  // Stored as in `cellsOfGroups`.
  const [, ...cells] = ofPerson ? cleared(ofPerson, [servicePid, ...scalars, extra]) : [];
  return encodePerson(
    {
      servicePid,
      scalars: cells.slice(0, -1),
      extra: cells.at(-1),
      lists: lists.map((list, i) => {
        const naming = ofLists[i];
        if (!list || !naming) return list;
        return { rows: list.rows.filter((row) => isKept(naming, row)).map((row) => cleared(naming, row)) };
      }),
    },
    createRowStore(1024),
  );
}
