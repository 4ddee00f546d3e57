import type { ConfigAnswers } from "../config/template.ts";
import { UsageError } from "./failure.ts";

/** Flags of `init`; on a terminal, missing ones are asked for. */
export interface InitFlags {
  readonly baseUrl?: string;
  readonly apiKeyEnv?: string;
  readonly warehouseUrlEnv?: string;
  readonly table?: string;
  readonly input?: string;
  readonly key?: string;
  readonly cursor?: string;
  readonly field?: readonly string[];
  readonly force?: boolean;
}

/** True if nothing must be asked. */
export function isComplete(flags: InitFlags): boolean {
  return flags.table !== undefined && (flags.field ?? []).length > 0;
}

/** Answers from flags only. */
export function answersOf(flags: InitFlags): ConfigAnswers {
  if (flags.table === undefined || (flags.field ?? []).length === 0) {
    throw new UsageError(
      "Without a terminal, init requires at least --table and one --field, such as " +
        "--table crm.customers --key id --field first_name=first_name --field last_name=last_name --field emails=email.",
    );
  }
  const baseUrl = flags.baseUrl ?? "sandbox";
  return {
    baseUrl,
    apiKey: baseUrl === "sandbox" ? null : `\${${flags.apiKeyEnv ?? "PERSON_SERVICE_API_KEY"}}`,
    warehouseUrl: flags.warehouseUrlEnv === undefined ? "embedded" : `\${${flags.warehouseUrlEnv}}`,
    input: flags.input ?? inputNameOf(flags.table),
    table: flags.table,
    key: listOf(flags.key ?? "id"),
    cursor: flags.cursor ?? null,
    fields: fieldsOf(flags.field ?? []),
  };
}

/** `crm.Customers` → `customers`. */
export function inputNameOf(table: string): string {
  const last = table.split(".").at(-1) ?? "";
  const name = last
    .toLowerCase()
    .replaceAll(/[^a-z0-9_]+/g, "_")
    .replaceAll(/^[_0-9]+|_+$/g, "");
  return name === "" ? "input" : name;
}

/** Splits a comma-separated list. */
export function listOf(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

function fieldsOf(flags: readonly string[]): ConfigAnswers["fields"] {
  const entries = flags.map((flag) => {
    const [field = "", columns] = flag.split("=", 2);
    if (columns === undefined || listOf(columns).length === 0) {
      throw new UsageError(
        `--field ${flag}: write the field and its column(s), such as emails=email,work_email.`,
      );
    }
    return [field.trim(), listOf(columns)] as const;
  });
  // Unknown fields are reported when the file is validated.
  return Object.fromEntries(entries);
}
