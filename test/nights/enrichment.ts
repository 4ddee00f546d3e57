import type { Script } from "./scripted-service.ts";

export const rows = "SELECT source_key, service_pid, is_match, is_present FROM enrichment";
export const linked = "SELECT source_key, service_pid FROM identity_link";
export const refreshing = { jobs: "{ enrich: { type: enrich, input: customers, refresh_after: 10d } }" };
export const noMatch: Script = {
  result: (usual) => ({
    record_id: usual["record_id"],
    is_match: false,
    service_pid: null,
    match_score: null,
  }),
};
