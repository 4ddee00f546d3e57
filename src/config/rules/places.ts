import type { Problems } from "../problems.ts";
import { isLoopback } from "../schema/addresses.ts";
import { DEFAULT_OPS_SCHEMA, DEFAULT_SCHEMA } from "../schema/warehouse.ts";
import type { Links } from "./links.ts";

/** The service can be called with a key that stays secret. */
export function checkService(links: Links, problems: Problems): void {
  const { service } = links;
  if (!service?.base_url || service.base_url === "sandbox") return;
  if (service.api_key === undefined) {
    problems.add(["service", "api_key"], {
      message: "is missing",
      hint: "${PERSON_SERVICE_API_KEY} or file:PATH; only the sandbox needs none",
    });
  }
  const url = URL.canParse(service.base_url) ? new URL(service.base_url) : null;
  if (url?.protocol === "http:" && !isLoopback(url) && !service.allow_insecure) {
    problems.add(["service", "base_url"], {
      message: "would send the key and people's data over the network unencrypted",
      hint: "use https://, or set service.allow_insecure: true",
    });
  }
}

/** Pages that others can reach want a token: they tell how much is sent, and what it costs. */
export function checkHttp(links: Links, problems: Problems): void {
  const bind = links.http?.bind;
  if (bind === undefined || links.http?.token !== undefined) return;
  const host = bind.includes(":") ? `[${bind}]` : bind;
  if (URL.canParse(`http://${host}/`) && isLoopback(new URL(`http://${host}/`))) return;
  problems.add(["http", "token"], {
    message: "is missing: http.bind lets other machines read the pages",
    hint: "${PERSON_ETL_HTTP_TOKEN} or file:PATH; or bind to 127.0.0.1",
  });
}

/** People and operations stand in schemas of their own, so that rights on them can differ. */
export function checkWarehouse(links: Links, problems: Problems): void {
  const { schema = DEFAULT_SCHEMA, ops_schema: opsSchema = DEFAULT_OPS_SCHEMA } = links.warehouse ?? {};
  if (schema === opsSchema) {
    problems.add(["warehouse", "ops_schema"], {
      message: "must differ from warehouse.schema",
      hint: "the ops schema holds no personal data, so that more people may read it",
    });
  }
}
