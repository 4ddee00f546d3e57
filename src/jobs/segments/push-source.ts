import type { SegmentPushJobConfig } from "../../config/config.ts";
import { connectionOf } from "../lookup/lookup-spec.ts";
import type { InputSource } from "../../load/lookup.ts";

/** The query of a push job as an input whose key is the PID. Reads the connection's address. */
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
