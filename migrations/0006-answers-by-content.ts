import { createTable } from "../src/load/db/ddl.ts";
import { quoteLiteral, quoteQualified, type SchemaNames, tableText } from "../src/load/db/names.ts";
import { lookupAnswer, lookupDue, lookupJob, lookupRow } from "../src/schemas/state.ts";

/** Indexes by which contents and responses are found. */
export function lookupIndexes(names: SchemaNames): readonly string[] {
  return [
    `CREATE INDEX IF NOT EXISTS lookup_row_by_content ON ${tableText(names, "lookup_row")} (content) WHERE content IS NOT NULL`,
    `CREATE INDEX IF NOT EXISTS api_call_by_request ON ${tableText(names, "api_call")} (api_request_id)`,
    `CREATE INDEX IF NOT EXISTS lookup_answer_by_time ON ${tableText(names, "lookup_answer")} (answered_at)`,
  ];
}

/**
 * Keeps answers by the content that was sent, no longer by input row. Fingerprints aren't taken over: the first run reads every
 * row once, and sends none that was answered.
 */
export function keepAnswersByContent(names: SchemaNames): readonly string[] {
  const create = [lookupRow, lookupAnswer, lookupDue, lookupJob].map((table) =>
    createTable(table, names).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"),
  );
  return [...create, ...lookupIndexes(names), fromStates(names)];
}

/** Prefix of the kinds of taken over answers, until the first run of their job. */
export const LEGACY_KIND = "v2:";

/** Order in which the newest answer to a content comes first. */
const newest = (content: string): string =>
  `ORDER BY s.parameters_hash, ${content}, s.call_number DESC NULLS LAST`;

function fromStates(names: SchemaNames): string {
  const at = (name: string) => tableText(names, name);
  const old = (name: string) => quoteQualified([names.state, name]);
  const answer = at("lookup_answer");
  const columns =
    "kind, content, outcome, sent_service_pid, answered_at, call_number, call_id, is_first, _run_id";
  const state = (content: string) =>
    `'${LEGACY_KIND}' || s.parameters_hash, ${content}, s.outcome, s.sent_service_pid, coalesce(s.answered_at, s._synced_at),
        coalesce(s.call_number, 0), s.call_id, s.attempts = 1, s._run_id`;
  const isAddress = "s.job IN (SELECT job FROM v2_address_job)";
  const result = "service_pid, match_score, validation_errors, _extra, api_request_id, request_completed_at";
  // A literal: names of schemas may contain any dollar quotes.
  return `DO ${quoteLiteral(`
    DECLARE work regclass;
    BEGIN
      IF to_regclass(${quoteLiteral(old("lookup_state"))}) IS NULL THEN RETURN; END IF;
      CREATE TEMP TABLE v2_address_job ON COMMIT DROP AS
        SELECT DISTINCT job FROM ${at("sync_run")} WHERE job_type = 'validate_emails';

      INSERT INTO ${answer} (${columns}, service_pid, match_score, validation_errors, extra, api_request_id, request_completed_at,
        is_resolvable_record)
      SELECT DISTINCT ON (s.parameters_hash, s.sent_hash) ${state("s.sent_hash")}, a.*
      FROM ${old("lookup_state")} AS s JOIN LATERAL (
        SELECT ${result}, is_resolvable_record FROM ${at("resolution")} AS r
          WHERE (r.job, r.source, r.source_key) = (s.job, s.source, s.source_key)
        UNION ALL SELECT ${result}, NULL FROM ${at("enrichment")} AS e
          WHERE (e.job, e.source, e.source_key) = (s.job, s.source, s.source_key)) AS a ON true
      WHERE s.outcome <> 'rejected' AND s.sent_hash IS NOT NULL AND NOT ${isAddress} ${newest("s.sent_hash")};

      INSERT INTO ${answer} (${columns})
      SELECT DISTINCT ON (s.parameters_hash, s.source_key) ${state("convert_to(s.source_key, 'UTF8')")}
      FROM ${old("lookup_state")} AS s WHERE s.outcome <> 'rejected' AND ${isAddress} ${newest("s.source_key")};

      INSERT INTO ${answer} (${columns}, reject)
      SELECT DISTINCT ON (1, 2) ${state(`CASE WHEN ${isAddress} THEN convert_to(s.source_key, 'UTF8')
          ELSE coalesce(s.sent_hash, s.input_hash) END`)}, r.reject
      FROM ${old("lookup_state")} AS s JOIN LATERAL (
        SELECT jsonb_build_object('stage', stage, 'code', code, 'message', message, 'details', details) AS reject
        FROM ${at("reject")} AS r WHERE r.resolved_at IS NULL
          AND (r.job, r.source, r.source_key) = (s.job, s.source, s.source_key)
        ORDER BY r.created_at DESC LIMIT 1) AS r ON true
      WHERE s.outcome = 'rejected' AND coalesce(s.due_at > now(), true) ORDER BY 1, 2
      ON CONFLICT (kind, content) DO NOTHING;

      INSERT INTO ${at("lookup_row")} (job, source, source_key, content, _synced_at, _run_id)
      SELECT s.job, s.source, s.source_key, coalesce(s.sent_hash, s.input_hash), now(), ''
      FROM ${old("lookup_state")} AS s WHERE NOT ${isAddress};

      INSERT INTO ${at("lookup_job")} (job, source, kind, mapping, input_definition, resend_below, _synced_at, _run_id)
      SELECT DISTINCT p.job, s.source, '${LEGACY_KIND}' || p.parameters_hash, '', '', p.resend_before, now(), ''
      FROM ${old("job_parameters")} AS p JOIN ${old("lookup_state")} AS s ON s.job = p.job;

      IF (SELECT a.attcollation FROM pg_catalog.pg_attribute AS a
          WHERE a.attrelid = ${quoteLiteral(at("enrichment"))}::regclass AND a.attname = 'source_key') = (SELECT oid FROM pg_catalog.pg_collation WHERE collname = 'default') THEN
        -- Columns that are joined must have one collation, or their indexes aren't used.
        ALTER TABLE ${at("lookup_row")} ALTER job TYPE text COLLATE "default", ALTER source TYPE text COLLATE "default",
          ALTER source_key TYPE text COLLATE "default";
      END IF;
      FOR work IN SELECT c.oid::regclass FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = ${quoteLiteral(names.state)} AND c.relkind = 'r' AND c.relname ~ '^lookup_(work|row)_[0-9a-f]{24}$'
      LOOP
        EXECUTE format('DROP TABLE %s', work);
      END LOOP;
      DROP TABLE ${old("lookup_state")}, ${old("email_state")}, ${old("missing_input_row")}, ${old("job_parameters")};
    END`)}`;
}
