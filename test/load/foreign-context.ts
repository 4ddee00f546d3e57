import type { Client } from "pg";
import { describe } from "vitest";
import type { InputConnection } from "../../src/load/inputs/input.ts";
import type { Warehouse } from "../support/bound-load.ts";
import { openPostgresContext, useContext } from "./postgres-context.ts";
import type { Context, TextRow } from "./suite/context.ts";
import { describeInputs, describeNormalize } from "./suite/inputs.ts";

/** Another database with the tests' tables `crm.…`. */
export interface OtherDatabase {
  readonly connection: InputConnection;
  sql(text: string, params?: readonly unknown[]): Promise<readonly TextRow[]>;
  /** Makes rows written by `sql` visible to readers. */
  readonly flush?: () => Promise<void>;
}

/**
 * Database in which tests write through Postgres, and whose readers see a copy.
 * @param copy copies the tables `crm.…`; called before a reading if something was written
 */
export function copiedFrom(
  postgres: Client,
  copy: () => Promise<void>,
): Required<Omit<OtherDatabase, "connection">> {
  let isDirty = true;
  let flushing: Promise<void> = Promise.resolve();
  const copyChanges = async () => {
    if (!isDirty) return;
    isDirty = false;
    await copy();
  };
  return {
    async sql(text, params) {
      if (!/^\s*SELECT/iu.test(text)) isDirty = true;
      const result: unknown = await postgres.query(text, params ? [...params] : undefined);
      // For several statements the driver returns a list of results, which its types omit.
      return ((Array.isArray(result) ? result.at(-1) : result) as { readonly rows: readonly TextRow[] }).rows;
    },
    flush() {
      flushing = flushing.then(copyChanges);
      return flushing;
    },
  };
}

/** Runs the shared tests of inputs on another database. */
export function describeForeignInputs(
  where: string,
  open: () => Promise<OtherDatabase & { close(): Promise<void> }>,
): void {
  describe(`inputs in ${where}`, () => {
    const context = useContext<Context>(async () => {
      const postgres = await openPostgresContext();
      const there = await open();
      return {
        ...withForeignInputs(postgres, there),
        async close() {
          await postgres.close();
          await there.close();
        },
      };
    });
    describeInputs(context);
    describeNormalize(context);
  });
}

/** A warehouse with all inputs in another database. */
export function withForeignInputs(context: Context, there: OtherDatabase): Context {
  const { connection } = there;
  const elsewhere = (argument: unknown): unknown => {
    if (typeof argument !== "object" || argument === null) return argument;
    if (Array.isArray(argument)) return argument.map(elsewhere);
    if ("relation" in argument) return { ...argument, connection };
    if ("source" in argument && typeof argument.source === "object") {
      return { ...argument, source: elsewhere(argument.source) };
    }
    if ("input" in argument) return { ...argument, input: elsewhere(argument.input) };
    return argument;
  };
  const warehouse = new Proxy(context.warehouse, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function" || name === "preparePerson") return member;
      return async (...args: readonly unknown[]): Promise<unknown> => {
        await there.flush?.();
        return Reflect.apply(member, target, args.map(elsewhere)) as unknown;
      };
    },
  }) satisfies Warehouse;
  return {
    ...context,
    warehouse,
    async sql(text, params) {
      // `clear` covers both databases.
      const parts = text.split(/;\s+(?=DROP SCHEMA)/);
      const [first = "", ...rest] = parts;
      if (rest.length > 0) {
        await there.sql(rest.join("; "));
        return context.sql(first);
      }
      return text.includes("crm.") ? there.sql(text, params) : context.sql(text, params);
    },
  };
}
