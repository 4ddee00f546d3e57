import type { Dialect } from "./view.ts";

/** UTC day of an instant. */
export const utcDay = (dialect: Dialect, instant: string) =>
  dialect === "bigquery" ? `date(${instant}, 'UTC')` : `CAST(${instant} AT TIME ZONE 'UTC' AS date)`;

/** Path of an endpoint without the method and the leading slash. */
export const pathOf = (dialect: Dialect) =>
  dialect === "bigquery"
    ? "regexp_replace(endpoint, r'^[A-Z]+ /?', '')"
    : "regexp_replace(endpoint, '^[A-Z]+ /?', '')";

/** A sum of integers as an integer. */
export const whole = (dialect: Dialect, sum: string) =>
  dialect === "bigquery" ? sum : `CAST(${sum} AS bigint)`;
