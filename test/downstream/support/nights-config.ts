/** Seed of the sandbox and of the customers. */
export const SEED = 3;
/** Size of the sandbox's population. */
export const PEOPLE = 20_000;
/** Segment of the service. */
export const VIP = "11111111-1111-4111-8111-111111111111";
/** Contact job of the service. */
export const CONTACT_JOB = {
  job_id: "22222222-2222-4222-8222-222222222222",
  job_type: "contact_prospect",
  titles: ["nurse"],
};
/** Names of the segments whose deaths are read. */
export const WATCHED: ReadonlySet<string> = new Set(["VIP customers", "Favorites"]);

/** Prices of the nights, per billed record. */
export const PRICES = { resolve: 0.01, validate_emails: 0.002, enrich: 0.1, unlock: 0.2 };

/** Configuration of every job, without `publish:`. */
export const nightsConfig = (baseUrl: string): string => `service:
  base_url: ${baseUrl}
  api_key: \${PERSON_SERVICE_API_KEY}
  user_api_key: \${PERSON_SERVICE_USER_KEY}
warehouse: { type: postgres, url: "\${WAREHOUSE_URL}" }
prices: { currency: USD, ${Object.entries(PRICES)
  .map(([name, price]) => `${name}: ${price}`)
  .join(", ")} }
privacy: { erasure_key: "\${PERSON_ETL_ERASURE_KEY}" }
inputs:
  customers:
    table: crm.customers
    key: id
    fields: { first_name: first_name, last_name: last_name, emails: [email, work_email], phones: [phone],
              linkedin_url: linkedin, address_line_1: street, city: city, state: state, zipcode: zip }
jobs:
  resolve_customers: { type: resolve, input: customers }
  validate_customers: { type: validate_emails, input: customers }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers, valid_emails_from: validate_customers }
  vip_members: { type: segment_members, segments: [{ id: ${VIP}, name: VIP }] }
  favorites_push: { type: segment_push, name: Favorites, mode: mirror, max_remove_ratio: 1, after: [vip_members, enrich_customers],
    sql: "select service_pid from person_data.segment_member where segment_id = '${VIP}' and is_member and service_pid like '%4'" }
  deaths: { type: death_signals, segments: [{ id: ${VIP} }, { job: favorites_push }] }
  searches: { type: search_usage }
  days: { type: endpoint_usage, bucketing_size: day, timezone: UTC, start_date: 2026-01-01 }
  weeks: { type: endpoint_usage, bucketing_size: week, timezone: Europe/Berlin, start_date: 2026-01-01 }
  prospects: { type: person_search, searches: { cfos: { query: CFOs in Texas, size: 50 } } }
  contacts: { type: contact_jobs, job_ids: [${CONTACT_JOB.job_id}], unlock: { max_billable: 1000 } }
  audiences: { type: audience_search, searches: { nurses: { query: registered nurses in Ohio, unlock: { max_billable: 100 } } } }
`;
