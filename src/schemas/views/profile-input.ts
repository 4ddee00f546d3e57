import { boolean, date, type Fields, numeric, short, text, timestamptz } from "../field.ts";
import { personFields } from "../person.ts";
import { columnsOf, withJoins } from "../table.ts";
import {
  columnsOfKey,
  isRelationName,
  type KeyColumn,
  keyColumnName,
  linkColumnName,
  linkView,
  matchColumns,
} from "./link-input.ts";
import { type Dialect, quoted, type View } from "./view.ts";

type Ref = (name: string) => string;

/** Columns with what is known about a person, at most one row each. */
interface Part {
  readonly reads: readonly string[];
  /** Query of these columns and `service_pid`; absent to read the only view. */
  readonly query?: (ref: Ref) => string;
  readonly fields: Fields;
}

const bounds = (kind: string, end: string) =>
  short(numeric("sensitive", `${end} end of the estimated ${kind}, in US dollars; null if open or unknown.`));

const parts: readonly Part[] = [
  {
    reads: ["person"],
    fields: {
      full_name: personFields.full_name,
      first_name: personFields.first_name,
      last_name: personFields.last_name,
      dob: personFields.dob,
      estimated_income_min: bounds("income", "Lower"),
      estimated_income_max: bounds("income", "Upper"),
      estimated_wealth_min: bounds("wealth", "Lower"),
      estimated_wealth_max: bounds("wealth", "Upper"),
    },
  },
  {
    reads: ["person_best_email"],
    fields: {
      email_address: text("direct", "Best e-mail address, as received (`person_best_email`)."),
      email_type: text("none", "`personal` or `professional`."),
      email_validation_status: text(
        "none",
        "`valid`, `invalid` or `unknown`; null if the address was not validated, or not known to the service.",
      ),
    },
  },
  {
    reads: ["person_best_phone"],
    fields: {
      phone_number: text("direct", "Best phone number, as received (`person_best_phone`)."),
      phone_type: text("none", "Kind of phone, such as mobile or landline, as received."),
    },
  },
  {
    reads: ["person_current_address"],
    fields: {
      address_line_1: text("direct", "Street and number of the current address (`person_current_address`)."),
      address_line_2: text("direct", "Apartment, unit or suite."),
      address_city: text("indirect", "City of the address."),
      address_state: text("indirect", "US state of the address, usually two letters."),
      address_zipcode: text("indirect", "Five-digit ZIP code, as text: leading zeros are kept."),
      address_zipcode4: text("indirect", "Last four digits of the ZIP+4 code."),
    },
  },
  {
    reads: ["person_current_job"],
    fields: {
      work_title: text("indirect", "Title of the current job, as received (`person_current_job`)."),
      work_company_name: text("indirect", "Name of the employer."),
      work_start_on: date("indirect", "Start of the job: first day of the year, month or day received."),
    },
  },
  {
    reads: ["deceased_customer"],
    query: (ref) =>
      `SELECT service_pid, true AS is_deceased, max(date_of_death) AS date_of_death FROM ${ref("deceased_customer")} GROUP BY service_pid`,
    fields: {
      is_deceased: boolean("sensitive", "True if a segment reports a death signal (`deceased_customer`)."),
      date_of_death: date(
        "sensitive",
        "Latest day of death of these signals; may be filled or corrected later.",
      ),
    },
  },
  {
    reads: ["enrichment"],
    query: (ref) =>
      `SELECT service_pid, max(last_matched_at) AS last_response_at FROM ${ref("enrichment")} GROUP BY service_pid`,
    fields: {
      last_response_at: timestamptz("none", "When the person was last enriched, for any input row."),
    },
  },
  {
    reads: ["person_history"],
    query: (ref) =>
      `SELECT service_pid, max(valid_to) AS last_changed_at FROM ${ref("person_history")} GROUP BY service_pid`,
    fields: {
      last_changed_at: timestamptz(
        "none",
        "When a response last changed what was known of the person (`person_history`); null if none did.",
      ),
    },
  },
];

const fields: Fields = {
  ...matchColumns,
  ...Object.fromEntries(parts.flatMap((part) => Object.entries(part.fields))),
};
const names = Object.keys(fields);

/** Joins the row of a part. In Postgres, a subquery per row: a join would let it compute the part of every person first. */
function joined(dialect: Dialect, ref: Ref, { reads: [view = ""], query }: Part, alias: string): string {
  const rows = query ? `(${query(ref)})` : ref(view);
  if (dialect !== "postgres") return `LEFT JOIN ${rows} AS ${alias} ON ${alias}.service_pid = l.service_pid`;
  return `LEFT JOIN LATERAL (SELECT * FROM ${rows} AS r WHERE r.service_pid = l.service_pid LIMIT 1) AS ${alias} ON true`;
}

/** Name of an input's profile; null if Postgres doesn't take it. */
export function profileName(input: string): string | null {
  const name = `profile_${input}`;
  return isRelationName(name) ? name : null;
}

/** Name of a key column of an input in its profile. */
export const profileKeyName = (column: string): string => keyColumnName(linkColumnName(column), names);

/** Declares the view with what is known about the match of each row of an input. @param linkKey key columns of its {@link linkView} */
export function profileView(input: string, linkKey: readonly KeyColumn[]): View {
  const key = linkKey.map((column) => ({ ...column, name: keyColumnName(column.name, names) }));
  const link = linkView(input, key);
  const view: View = {
    name: `profile_${input}`,
    schema: "data",
    doc: `Everything known about the match of each row of the input ${input}, in one row with the input's own key: the person, the best e-mail address and phone, the current address and job. Rows without a match are not included.`,
    columns: [...columnsOfKey(input, key), ...columnsOf(fields)],
    reads: [...link.reads, ...parts.flatMap(({ reads }) => reads)],
    select: (dialect, ref) => {
      const ofParts = parts.flatMap((part, i) =>
        Object.keys(part.fields).map((name) =>
          name === "is_deceased" ? `coalesce(p${i}.is_deceased, false) AS is_deceased` : `p${i}.${name}`,
        ),
      );
      const ofLink = [...key.map(({ name }) => quoted(dialect, name)), ...Object.keys(matchColumns)];
      return `SELECT ${[...ofLink.map((name) => `l.${name}`), ...ofParts].join(", ")}
FROM (${link.select(dialect, ref)}) AS l
${parts.map((part, i) => joined(dialect, ref, part, `p${i}`)).join("\n")}`;
    },
  };
  return { ...view, columns: withJoins(view) };
}
