import { quoteLiteral, type SchemaNames, tableText } from "../src/load/db/names.ts";

/** Adds the fingerprints of input rows, also to work tables of runs that have not been loaded completely. */
export function addFingerprints(names: SchemaNames): readonly string[] {
  return [
    `ALTER TABLE ${tableText(names, "lookup_state")} ADD COLUMN IF NOT EXISTS fingerprint bytea`,
    `DO $$
      DECLARE work regclass;
      BEGIN
        FOR work IN SELECT c.oid::regclass FROM pg_catalog.pg_class AS c
          JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
          WHERE n.nspname = ${quoteLiteral(names.state)} AND c.relkind = 'r' AND starts_with(c.relname, 'lookup_row_')
        LOOP
          EXECUTE format('ALTER TABLE %s ADD COLUMN IF NOT EXISTS fingerprint bytea', work);
        END LOOP;
      END $$`,
  ];
}
