import type { Problems } from "../problems.ts";
import { isLoopback } from "../schema/addresses.ts";
import { DEFAULT_OPS_SCHEMA, DEFAULT_SCHEMA, DEFAULT_STATE_SCHEMA } from "../schema/warehouse.ts";
import type { WrittenFile } from "../written-file.ts";

/** Checks that the service has a key and an encrypted connection. */
export function checkService({ service }: WrittenFile, problems: Problems): void {
  if (!service?.base_url || service.base_url === "sandbox") return;
  if (service.api_key === undefined) {
    problems.add(["service", "api_key"], {
      message: "is missing",
      hint: "${PERSON_SERVICE_API_KEY} or file:PATH; only the sandbox needs no key",
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

/** Checks that pages reachable from other machines have a token. */
export function checkHttp({ http }: WrittenFile, problems: Problems): void {
  const bind = http?.bind;
  if (bind === undefined || http?.token !== undefined) return;
  const host = bind.includes(":") ? `[${bind}]` : bind;
  if (URL.canParse(`http://${host}/`) && isLoopback(new URL(`http://${host}/`))) return;
  problems.add(["http", "token"], {
    message: "is missing: http.bind lets other machines read the pages",
    hint: "${PERSON_ETL_HTTP_TOKEN} or file:PATH; or bind to 127.0.0.1",
  });
}

/** Checks that the three schemas differ, so that privileges can be granted separately. */
export function checkWarehouse({ warehouse }: WrittenFile, problems: Problems): void {
  const schemas = [
    ["schema", warehouse?.schema ?? DEFAULT_SCHEMA],
    ["ops_schema", warehouse?.ops_schema ?? DEFAULT_OPS_SCHEMA],
    ["state_schema", warehouse?.state_schema ?? DEFAULT_STATE_SCHEMA],
  ] as const;
  for (const [at, [key, name]] of schemas.entries()) {
    const same = schemas.slice(0, at).find(([, other]) => other === name);
    if (!same) continue;
    problems.add(["warehouse", key], {
      message: `must differ from warehouse.${same[0]}`,
      hint: "use different names, such as person_data, person_data_ops and person_data_state: each has other readers",
    });
  }
}

const PUBLISH_FORM = `warehouse: { url: embedded } (or \${WAREHOUSE_URL}) with publish: { analytics: { type: bigquery, project: my-project, location: EU, dataset: person_data, ops_dataset: person_data_ops } }`;

/** Rejects a warehouse other than Postgres. Returns the tree without its settings, to avoid more complaints about them. */
export function refuseOtherWarehouses(tree: object, { warehouse }: WrittenFile, problems: Problems): object {
  if (warehouse?.type === undefined || warehouse.type === "postgres") return tree;
  problems.add(["warehouse", "type"], {
    message: "must be postgres: other engines get a published copy",
    hint: `use ${PUBLISH_FORM}`,
  });
  return { ...tree, warehouse: { url: "embedded" } };
}
