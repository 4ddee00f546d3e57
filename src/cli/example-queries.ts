/** A query that shows what is in the warehouse. */
export interface ExampleQuery {
  readonly title: string;
  /** Its lines. */
  readonly sql: readonly string[];
}

/** Three queries to start with. */
export function exampleQueries(schema: string): readonly ExampleQuery[] {
  const at = (table: string) => `${identifier(schema)}.${table}`;
  return [
    {
      title: "how many rows of each input have a match",
      sql: [
        "SELECT job, source, count(*) AS answered, count(*) FILTER (WHERE is_match) AS matched",
        `FROM ${at("enrichment")} GROUP BY job, source;`,
      ],
    },
    {
      title: "your rows and the people they stand for",
      sql: [
        "SELECT source, source_key, full_name, linkedin_title, estimated_income_range",
        `FROM ${at("identity_link")} JOIN ${at("person")} USING (service_pid) LIMIT 10;`,
      ],
    },
    {
      title: "where people work now",
      sql: [
        `SELECT work_company_name, count(*) AS people FROM ${at("person_work_experience")}`,
        "WHERE work_status = 'current' GROUP BY work_company_name ORDER BY people DESC LIMIT 10;",
      ],
    },
  ];
}

/** A name as SQL writes it: quoted only where it has to be. */
export function identifier(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}
