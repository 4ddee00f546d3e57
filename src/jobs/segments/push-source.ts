import type { Config } from "../../config/config.ts";
import type { ReadSource } from "../job-type.ts";
import { connectionOf } from "../lookup/lookup-spec.ts";
import { namesOurSchemas } from "../read-source.ts";
import type { SegmentPushJobConfig } from "./settings.ts";
import type { InputSource } from "../../load/inputs/input-source.ts";

/** Builds an input from the query of a push job, with the PID as key. Reads the connection's address. */
export async function pushSourceOf({ name, sql, connection }: SegmentPushJobConfig): Promise<InputSource> {
  return {
    name,
    connection: connection && (await connectionOf(connection)),
    relation: { sql },
    where: null,
    orderBy: null,
    key: ["service_pid"],
    cursor: null,
    fields: {},
  };
}

/** Builds the source that `check` verifies. */
export function pushReadSource(job: SegmentPushJobConfig, config: Config): ReadSource {
  return {
    subject: `query of ${job.name}`,
    path: `jobs.${job.name}`,
    isTable: false,
    isPush: true,
    isOverOurTables: job.connection === null && namesOurSchemas(config, job.sql),
    connection: job.connection?.name ?? null,
    open: () => pushSourceOf(job),
  };
}
