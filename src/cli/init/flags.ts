import { UsageError } from "../failure.ts";

/** Flags of `init`. */
export interface InitFlags {
  readonly baseUrl?: string;
  readonly apiKeyEnv?: string;
  readonly warehouseUrlEnv?: string;
  readonly addInput?: string;
  readonly connection?: string;
  readonly table?: string;
  readonly input?: string;
  readonly key?: string;
  readonly field?: readonly string[];
  readonly normalize?: boolean;
}

/** True if the flags leave nothing to propose, so that the database isn't needed. */
export function isComplete({ table, key, field }: InitFlags): boolean {
  return table !== undefined && key !== undefined && field !== undefined;
}

/** Splits a comma-separated list. */
export function listOf(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/** Reads `emails=email, work_email`; null if it isn't a field with columns. */
export function readMapping(text: string): readonly [field: string, columns: readonly string[]] | null {
  const at = text.indexOf("=");
  return at < 1 ? null : [text.slice(0, at).trim(), listOf(text.slice(at + 1))];
}

/** Mapping of all `--field` flags; unknown fields are reported when the file is validated. */
export function mappingOf(flags: readonly string[]): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(
    flags.map((flag) => {
      const mapping = readMapping(flag);
      if (mapping === null || mapping[1].length === 0) {
        throw new UsageError(
          `--field ${flag}: write the field and its column(s), such as emails=email,work_email.`,
        );
      }
      return mapping;
    }),
  );
}
