/** Example query. */
export interface ExampleQuery {
  readonly title: string;
  /** Lines of the query. */
  readonly sql: readonly string[];
}

/** Three example queries. */
export function exampleQueries(schema: string): readonly ExampleQuery[] {
  const at = (table: string) => `${identifier(schema)}.${table}`;
  return [
    {
      title: "Your rows with the people they match",
      sql: [
        "SELECT source_key, full_name, linkedin_title, estimated_income_range",
        `FROM ${at("identity_link")} JOIN ${at("person")} USING (service_pid)`,
        "LIMIT 10;",
      ],
    },
    {
      title: "Match rate of each job",
      sql: [
        "SELECT job, source, count(*) AS answered, count(*) FILTER (WHERE is_match) AS matched",
        `FROM ${at("enrichment")} GROUP BY job, source;`,
      ],
    },
    {
      title: "Where people work now",
      sql: [
        `SELECT work_company_name, count(*) AS people FROM ${at("person_work_experience")}`,
        "WHERE work_status = 'current' GROUP BY work_company_name ORDER BY people DESC LIMIT 10;",
      ],
    },
  ];
}

/** Quotes an SQL identifier if necessary. */
export function identifier(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}
