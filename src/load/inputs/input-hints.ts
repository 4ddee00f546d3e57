import type { InputSource } from "./input-source.ts";

/** The setting that says where an input's rows are. */
export function settingOf({ relation }: InputSource): "table" | "sql" {
  return "table" in relation ? "table" : "sql";
}

/** Where to look when an input has all its columns and still can't be selected from: only at what it has. */
export function lookAt({ where, orderBy, fields, key }: InputSource): string {
  const types =
    Object.keys(fields).length > 0 ? "the types of the mapped columns" : `the type of ${key.join(", ")}`;
  const settings = [...(where === null ? [] : ["`where`"]), ...(orderBy === null ? [] : ["`order_by`"])];
  return `Look at ${[...(settings.length > 0 ? [settings.join(", ")] : []), types].join(" and ")}.`;
}
