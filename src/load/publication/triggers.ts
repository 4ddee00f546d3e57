import { quoteIdentifier, quoteLiteral, quoteQualified, type SchemaNames } from "../db/names.ts";
import { type PublishableTable, sourceText, stateText, tagOf } from "./names.ts";

/** Trigger function that marks changed keys of a table; its argument is the destination. */
function functionText(names: SchemaNames, table: PublishableTable): string {
  return quoteQualified([names.state, `mark_${table.name}`]);
}

const triggerKinds = ["insert", "update", "delete", "key", "truncate"] as const;

function triggerName(destination: string, kind: (typeof triggerKinds)[number]): string {
  return quoteIdentifier(`publish_${tagOf(destination)}_${kind}`);
}

/**
 * Creates the triggers that queue each change of a table for a destination, in the transaction of the change. Creating
 * them waits for writers in progress. The destination is a constant of the trigger, so that writers with an older
 * snapshot also mark their keys. A TRUNCATE, even of a child, marks the whole table.
 */
export function createTriggers(
  names: SchemaNames,
  table: PublishableTable,
  destination: string,
): readonly string[] {
  const isRoot = table.root === table.name;
  const on = `ON ${sourceText(names, table)}`;
  const call = `EXECUTE FUNCTION ${functionText(names, table)}(${quoteLiteral(destination)})`;
  const create = (kind: (typeof triggerKinds)[number], event: string, level: string) =>
    `CREATE TRIGGER ${triggerName(destination, kind)} AFTER ${event} ${on} ${level} ${call}`;
  const keyColumns = table.rootKey.map(quoteIdentifier);
  return [
    createFunction(names, table, isRoot),
    ...dropTriggers(names, table, destination),
    create("truncate", "TRUNCATE", "FOR EACH STATEMENT"),
    ...(isRoot
      ? [
          create("insert", "INSERT", "REFERENCING NEW TABLE AS changed FOR EACH STATEMENT"),
          create("update", "UPDATE", "REFERENCING NEW TABLE AS changed FOR EACH STATEMENT"),
          create("delete", "DELETE", "REFERENCING OLD TABLE AS changed FOR EACH STATEMENT"),
        ]
      : []),
    // A key change must also mark the old key. Runs only for statements that set a key column.
    ...(isRoot && keyColumns.length > 0
      ? [
          create(
            "key",
            `UPDATE OF ${keyColumns.join(", ")}`,
            `FOR EACH ROW WHEN ((${keyColumns.map((c) => `OLD.${c}`).join(", ")}) IS DISTINCT FROM (${keyColumns.map((c) => `NEW.${c}`).join(", ")}))`,
          ),
        ]
      : []),
  ];
}

/** Drops the triggers of a destination on a table. */
export function dropTriggers(
  names: SchemaNames,
  table: Pick<PublishableTable, "name">,
  destination: string,
): readonly string[] {
  return triggerKinds.map(
    (kind) => `DROP TRIGGER IF EXISTS ${triggerName(destination, kind)} ON ${sourceText(names, table)}`,
  );
}

/** Runs with its owner's privileges: writers of the table need no privilege on the queue. */
function createFunction(names: SchemaNames, table: PublishableTable, isRoot: boolean): string {
  const queue = `INSERT INTO ${stateText(names, "dirty_key")} (destination, table_name, key)`;
  const name = quoteLiteral(table.name);
  const key = (row: string) =>
    `jsonb_build_array(${table.rootKey.map((column) => `${row}.${quoteIdentifier(column)}`).join(", ")})`;
  const marks = isRoot
    ? `ELSIF TG_LEVEL = 'ROW' THEN
    ${queue} VALUES (TG_ARGV[0], ${name}, ${key("OLD")});
  ELSE
    ${queue} SELECT TG_ARGV[0], ${name}, ${key("c")} FROM changed AS c;
  END IF;`
    : "END IF;";
  return `CREATE OR REPLACE FUNCTION ${functionText(names, table)}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $mark$
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    ${queue} VALUES (TG_ARGV[0], ${name}, NULL);
  ${marks}
  RETURN NULL;
END $mark$`;
}
