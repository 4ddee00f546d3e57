import { tableNamed } from "../../schemas/registry.ts";
import { groupNames, HASH_LENGTH, listGroups, scalarNames, UNKNOWN_HASH } from "../person-groups.ts";
import type { LoadPlace } from "./load-place.ts";
import { quoteIdentifier, quoteLiteral, tableText } from "./names.ts";
import { NOW_NAME } from "./session.ts";
import { typeOf } from "./staged-columns.ts";
import { listColumn, stagedColumns, subjectsColumn, UNSPOKEN_HASH } from "./staged-person.ts";
import { isDistinct, typedValue } from "./typed-value.ts";

/** What is known of a commit's people before its statements are made. */
export interface PersonFacts {
  /** Of each list whether anybody has rows in it. */
  readonly filled: readonly boolean[];
  /** Somebody is answered more than once. */
  readonly hasRepeated: boolean;
  /** An answer was for another PID than the one that was sent. */
  readonly hasAliases: boolean;
}

const personColumns = [...scalarNames, "_extra"];

const isKnown = (group: number) => `w[OFFSET(${group + 2})] > 0`;
const MEMBERS = groupNames.map((_, g) => g);

/** `DECLARE`d by {@link personStatements}: counts of known and new people, then of known ones by group to be written. */
export const personVariables: readonly string[] = ["w ARRAY<INT64>", "round_no INT64 DEFAULT 1"];

/**
 * Statements that load people: new ones are appended, of known ones only those groups are written whose content differs.
 * Of two whole answers for one person (or two that speak of the same columns) only the later is applied; others follow in
 * rounds of their own, so that what they don't speak of keeps the earlier answer's value.
 */
export function personStatements(place: LoadPlace, facts: PersonFacts): readonly string[] {
  const { stage, isLoaded } = place;
  const own = `SELECT s.seq, s.pid, s.micros, s.mask, s.hashes, s.is_whole FROM ${stage} AS s
    WHERE s.pid IS NOT NULL AND ${isLoaded}`;
  if (!facts.hasRepeated) {
    return [
      `CREATE TEMP TABLE person_in AS SELECT *, 1 AS round FROM (${own})`,
      ...roundStatements(place, facts),
    ];
  }
  const spoken = MEMBERS.map(
    (g) => `SUBSTR(hashes, ${g * HASH_LENGTH + 1}, ${HASH_LENGTH}) = '${UNSPOKEN_HASH}'`,
  );
  return [
    `CREATE TEMP TABLE person_in AS
      SELECT *, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY micros, seq) AS round
      FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY pid, mask, speaks ORDER BY micros DESC, seq DESC) AS from_last,
          MAX(IF(is_whole, at_no, 0)) OVER (PARTITION BY pid) AS last_whole
        FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY micros, seq) AS at_no,
            TO_JSON_STRING([${spoken.join(", ")}]) AS speaks
          FROM (${own})))
      WHERE from_last = 1 AND at_no >= last_whole`,
    `WHILE round_no <= (SELECT IFNULL(MAX(round), 0) FROM person_in) DO
      ${[...roundStatements(place, facts), "SET round_no = round_no + 1"].join(";\n")};
    END WHILE`,
  ];
}

function hashAt(hashes: string, group: number): string {
  return `SUBSTR(${hashes}, ${group * HASH_LENGTH + 1}, ${HASH_LENGTH})`;
}

/** Whether an answer speaks of a group and is not older than what is stored of it; it may be older than 1970. */
function applied(group: number): string {
  return `(h${group} <> '${UNSPOKEN_HASH}' AND (NOT known OR micros >= sm${group}))`;
}

/** Of each person of a round: what is stored, which groups are written (`w0` …), and the state afterwards. */
function decided(place: LoadPlace): string {
  const state = tableText(place.names, "data", "person_state");
  const stored = groupNames.map(
    (name, g) => `${hashAt("i.hashes", g)} AS h${g}, ${hashAt("p.group_hashes", g)} AS sh${g},
      IF(p.service_pid IS NULL, 0, IFNULL(CAST(JSON_VALUE(p.group_answered_at, '$.${name}') AS INT64), UNIX_MICROS(p.answered_at))) AS sm${g}`,
  );
  const decisions = MEMBERS.map(
    (g) => `(${applied(g)} AND (NOT known OR h${g} <> sh${g} OR h${g} = '${UNKNOWN_HASH}')) AS w${g},
      IF(${applied(g)}, micros, sm${g}) AS n${g}, IF(${applied(g)}, h${g}, IF(known, sh${g}, '${UNKNOWN_HASH}')) AS nh${g}`,
  );
  const ages = MEMBERS.map((g) => `n${g}`).join(", ");
  const newer = groupNames.map(
    (name, g) => `IF(n${g} > LEAST(${ages}), CONCAT('"${name}":', CAST(n${g} AS STRING)), NULL)`,
  );
  return `SELECT seq, pid, mask, known, ${MEMBERS.map((g) => `w${g}`).join(", ")},
      CONCAT(${MEMBERS.map((g) => `nh${g}`).join(", ")}) AS next_hashes, TIMESTAMP_MICROS(LEAST(${ages})) AS next_answered_at,
      IF(GREATEST(${ages}) > LEAST(${ages}), CONCAT('{', ARRAY_TO_STRING([${newer.join(", ")}], ','), '}'), NULL) AS next_ages
    FROM (
      SELECT *, ${decisions.join(",\n      ")}
      FROM (
        SELECT i.seq, i.pid, i.micros, i.mask, p.service_pid IS NOT NULL AS known, ${stored.join(",\n      ")}
        FROM person_in AS i LEFT JOIN ${state} AS p ON p.service_pid = i.pid
        WHERE i.round = round_no))`;
}

function roundStatements(place: LoadPlace, facts: PersonFacts): readonly string[] {
  return [
    `CREATE OR REPLACE TEMP TABLE person_do AS ${decided(place)}`,
    `SET w = (SELECT [COUNTIF(known), COUNTIF(NOT known), ${MEMBERS.map((g) => `COUNTIF(known AND w${g})`).join(", ")}] FROM person_do)`,
    ...insertPersons(place),
    ...updatePersons(place),
    ...listTables(place, facts),
    ...writeStates(place),
  ];
}

function insertPersons({ names, stage, runId, count }: LoadPlace): readonly string[] {
  const list = personColumns.map(quoteIdentifier).join(", ");
  const values = personColumns.map((c) => typedValue(typeOf("person", c), `s.scalars.${quoteIdentifier(c)}`));
  return [
    `IF w[OFFSET(1)] > 0 THEN
      INSERT INTO ${tableText(names, "data", "person")} (service_pid, ${list}, _record_synced_at, _synced_at, _run_id)
        SELECT d.pid, ${values.join(", ")}, ${NOW_NAME}, ${NOW_NAME}, ${quoteLiteral(runId)}
        FROM person_do AS d JOIN ${stage} AS s ON s.seq = d.seq WHERE NOT d.known;
      ${count("person")}
    END IF`,
  ];
}

/** Whether the answer of a staged person `s` is applied to a column, and speaks of it. */
function isSpoken(column: number): string {
  return `s.has_scalars AND SUBSTR(s.mask, ${column + 1}, 1) = '1'`;
}

/** One UPDATE for the people of whom anything changes: BigQuery bills the whole table for each. */
function updatePersons({ names, stage, runId, count }: LoadPlace): readonly string[] {
  const table = tableText(names, "data", "person");
  const anyList = MEMBERS.slice(1)
    .map((g) => `d.w${g}`)
    .join(" OR ");
  const values = personColumns.map(
    (c) => `${typedValue(typeOf("person", c), `s.scalars.${quoteIdentifier(c)}`)} AS ${quoteIdentifier(c)}`,
  );
  const differs = personColumns
    .map(
      (c, i) =>
        `(${isSpoken(i)} AND ${isDistinct(typeOf("person", c), `t.${quoteIdentifier(c)}`, `s.${quoteIdentifier(c)}`)})`,
    )
    .join("\n        OR ");
  const set = personColumns.map(
    (c, i) => `${quoteIdentifier(c)} = IF(${isSpoken(i)}, s.${quoteIdentifier(c)}, t.${quoteIdentifier(c)})`,
  );
  return [
    `IF ${MEMBERS.map(isKnown).join(" OR ")} THEN
      CREATE OR REPLACE TEMP TABLE person_new AS
        SELECT d.pid AS new_pid, d.mask, d.w0 AS has_scalars, (${anyList}) AS has_lists, ${values.join(", ")}
        FROM person_do AS d JOIN ${stage} AS s ON s.seq = d.seq WHERE d.known AND (d.w0 OR ${anyList});
      CREATE OR REPLACE TEMP TABLE person_changed AS
        SELECT s.new_pid AS changed_pid FROM person_new AS s JOIN ${table} AS t ON t.service_pid = s.new_pid
        WHERE ${differs};
      ${count("person", "(SELECT COUNT(*) FROM person_changed)")}
      UPDATE ${table} AS t SET ${set.join(", ")}, _record_synced_at = ${NOW_NAME}, _run_id = ${quoteLiteral(runId)},
          _synced_at = IF(s.is_changed, ${NOW_NAME}, t._synced_at)
        FROM (
          SELECT n.*, c.changed_pid IS NOT NULL AS is_changed FROM person_new AS n
          LEFT JOIN person_changed AS c ON c.changed_pid = n.new_pid) AS s
        WHERE t.service_pid = s.new_pid AND (s.is_changed OR s.has_lists);
    END IF`,
  ];
}

/** A table of lists, and the lists that share it. */
interface ListTable {
  readonly table: string;
  readonly groups: readonly number[];
  /** The rows below those of a list. */
  readonly isBelow: boolean;
}

function tablesOfLists(): readonly ListTable[] {
  const byTable = Map.groupBy(listGroups.keys(), (i) => listGroups[i]?.table ?? "");
  return [...byTable].flatMap(([table, groups]): ListTable[] => {
    const below = groups.filter((i) => listGroups[i]?.subjects);
    const subjects = listGroups[below[0] ?? -1]?.subjects;
    return [
      { table, groups, isBelow: false },
      ...(subjects ? [{ table: subjects.table, groups: below, isBelow: true }] : []),
    ];
  });
}

/** Replaces the lists that differ: a shortened one leaves no orphan. Nothing is deleted where everybody is new. */
function listTables(place: LoadPlace, facts: PersonFacts): readonly string[] {
  const { names, count } = place;
  return tablesOfLists().flatMap(({ table, groups, isBelow }) => {
    const target = tableText(names, "data", table);
    const gone = groups.map((i) => {
      const only = isBelow ? null : (listGroups[i]?.discriminator ?? null);
      const which = only ? ` AND ${quoteIdentifier(only.column)} = ${quoteLiteral(only.value)}` : "";
      return `(service_pid IN (SELECT pid FROM person_do WHERE known AND w${i + 1})${which})`;
    });
    const filled = groups.filter((i) => facts.filled[i]);
    return [
      `IF ${groups.map((i) => isKnown(i + 1)).join(" OR ")} THEN
        DELETE FROM ${target} WHERE ${gone.join(" OR ")};
        ${count(table)}
      END IF`,
      ...(filled.length === 0 ? [] : insertLists(place, { table, groups: filled, isBelow })),
    ];
  });
}

function insertLists({ names, stage, runId, count }: LoadPlace, of: ListTable): readonly string[] {
  const { table, groups, isBelow } = of;
  const all = tableNamed(table)
    .columns.map((c) => c.name)
    .filter((name) => name !== "_synced_at" && name !== "_run_id");
  const selects = groups.map((i) => {
    const group = listGroups[i];
    const staged: readonly string[] = !group ? [] : isBelow ? all.slice(1) : stagedColumns(group);
    const values = all.map((name) => {
      if (name === "service_pid") return "d.pid";
      if (!staged.includes(name)) return quoteLiteral(group?.discriminator?.value ?? "");
      return typedValue(typeOf(table, name), `e.${quoteIdentifier(name)}`);
    });
    return `SELECT ${values.join(", ")}, ${NOW_NAME}, ${quoteLiteral(runId)}
        FROM person_do AS d JOIN ${stage} AS s ON s.seq = d.seq, UNNEST(s.${isBelow ? subjectsColumn(i) : listColumn(i)}) AS e
        WHERE d.w${i + 1}`;
  });
  return [
    `INSERT INTO ${tableText(names, "data", table)} (${all.map(quoteIdentifier).join(", ")}, _synced_at, _run_id)
      ${selects.join("\n      UNION ALL ")}`,
    count(table),
  ];
}

function writeStates({ names, runId }: LoadPlace): readonly string[] {
  const state = tableText(names, "data", "person_state");
  const ages = typedValue("json", "d.next_ages");
  return [
    `IF w[OFFSET(0)] > 0 THEN
      UPDATE ${state} AS t SET group_hashes = d.next_hashes, answered_at = d.next_answered_at, group_answered_at = ${ages},
          _synced_at = ${NOW_NAME}, _run_id = ${quoteLiteral(runId)}
        FROM person_do AS d WHERE t.service_pid = d.pid AND d.known;
    END IF`,
    `IF w[OFFSET(1)] > 0 THEN
      INSERT INTO ${state} (service_pid, group_hashes, answered_at, group_answered_at, _synced_at, _run_id)
        SELECT d.pid, d.next_hashes, d.next_answered_at, ${ages}, ${NOW_NAME}, ${quoteLiteral(runId)}
        FROM person_do AS d WHERE NOT d.known;
    END IF`,
  ];
}

/** Keeps which PID came back for a PID that was sent, also where no person came with it. */
export function aliasStatements(
  place: LoadPlace,
  { hasAliases }: Pick<PersonFacts, "hasAliases">,
): readonly string[] {
  if (!hasAliases) return [];
  const { names, stage, isLoaded, runId, count } = place;
  const table = tableText(names, "data", "person_pid_alias");
  return [
    `INSERT INTO ${table} (sent_service_pid, returned_service_pid, first_seen_at, _synced_at, _run_id)
      SELECT a.sent_pid, a.returned_pid, a.at, ${NOW_NAME}, ${quoteLiteral(runId)}
      FROM (
        SELECT s.sent_pid, s.returned_pid, MAX(${typedValue("timestamptz", "s.answered_at")}) AS at FROM ${stage} AS s
        WHERE s.sent_pid <> s.returned_pid AND ${isLoaded} GROUP BY 1, 2) AS a
      LEFT JOIN ${table} AS t ON t.sent_service_pid = a.sent_pid AND t.returned_service_pid = a.returned_pid
      WHERE t.sent_service_pid IS NULL`,
    count("person_pid_alias"),
  ];
}
