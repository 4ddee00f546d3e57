import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { catalogOf, type Destination, type Position } from "../../src/publish/destination.ts";
import type { ColumnType } from "../../src/schemas/field.ts";
import { hashOf } from "./row-hash.ts";
import {
  batchAfter,
  type FileRow,
  publishRows,
  stageAll,
  tableIn,
  valuesByType,
  writeFiles,
} from "./staged-files.ts";

/** An empty destination of a test, and reads as a user of it would make them. */
export interface DestinationContext {
  readonly destination: Destination;
  /** Opens it again, like the next process. */
  reopen(): Promise<Destination>;
  /**
   * Reads all rows of a table in the form of the files: instants and wall times with six fractional digits (`…+00:00` for instants),
   * numeric as plain decimals without trailing zeros, json as compact text, bytes as base64. Sorted by the text of the row.
   */
  rows(destination: Destination, table: string): Promise<readonly FileRow[]>;
  close(): Promise<void>;
}

const AT = "2026-11-21T04:00:00.000001+00:00";

/** Part of a row of `person`. */
const personRow = (pid: string, fullName: string): FileRow => ({
  service_pid: pid,
  full_name: fullName,
  _record_synced_at: AT,
  _synced_at: AT,
  _run_id: "r1",
});

/** A row of `person_email`. */
const emailRow = (pid: string, position: number, address: string): FileRow => ({
  service_pid: pid,
  email_type: "personal",
  position,
  email_address: address,
  _synced_at: AT,
  _run_id: "r1",
});

/**
 * Texts that engines and their file formats are known to change: byte order mark, zero-width space, what NUL and lone surrogates are
 * replaced by, four bytes, line ends, separators, quotes, escapes, blanks at both ends.
 */
export const hardTexts: readonly string[] = [
  "\uFEFFbom",
  "bom \uFEFF inside\uFEFF",
  "\u200Bzero\u200B",
  "\uFFFDreplaced\uFFFD",
  "𝒜🎉\u{10FFFF}",
  "cr\rlf\ncrlf\r\n",
  "\ttab\t",
  "\"double\" 'single' `back`",
  "\\N",
  "\\.",
  "\\",
  "  blanks  ",
  "\u00A0no-break\u3000",
  "",
];

/** Tests of the behavior of every destination. */
export function describeDestination(name: string, open: () => Promise<DestinationContext>): void {
  describe(`the ${name} destination`, () => {
    const catalog = catalogOf(null);
    let context: DestinationContext;
    let destination: Destination;
    let last: Position | null = null;

    const names = async (table: string, column: string) =>
      (await context.rows(destination, table)).map((row) => row[column]);
    const textsPublished = async () => {
      const [people, emails] = [
        await context.rows(destination, "person"),
        await names("person_email", "email_address"),
      ];
      const values = people.map((row) => [
        row["service_pid"],
        row["full_name"],
        JSON.parse(String(row["_extra"])).text,
      ]);
      return [new Set(values), new Set(emails)];
    };
    const publish = async (...changed: Parameters<typeof publishRows>[3][number][]) => {
      const batch = batchAfter(last);
      expect(await publishRows(destination, catalog, batch, changed)).toBe("committed");
      last = batch;
      return batch;
    };

    beforeAll(async () => {
      context = await open();
      ({ destination } = context);
    });
    afterAll(() => context.close());

    test("passes its check on an empty destination", async () => {
      expect((await destination.check(catalog)).filter(({ ok }) => !ok)).toEqual([]);
    });

    test("is at no batch before the first one, and measures missing tables as empty", async () => {
      expect(await destination.position()).toBeNull();
      expect(await destination.measure([tableIn(catalog, "person")])).toEqual([
        { table: "person", rows: 0n, hash: "0" },
      ]);
      await destination.migrate(catalog);
      expect(await destination.position()).toBeNull();
    });

    test("creates every declared table, and does nothing the second time", async () => {
      await destination.migrate(catalog);
      const rows = await Promise.all(
        catalog.tables.map(({ name: table }) => context.rows(destination, table)),
      );
      expect(rows.flat()).toEqual([]);
    });

    test("applies a first batch and is at it", async () => {
      const batch = await publish(
        {
          table: "person",
          keys: [{ service_pid: "p1" }, { service_pid: "p2" }],
          rows: [personRow("p1", "Ada"), personRow("p2", "Bob")],
        },
        {
          table: "person_email",
          keys: [{ service_pid: "p1" }, { service_pid: "p2" }],
          rows: [
            emailRow("p1", 0, "ada@example.com"),
            emailRow("p1", 1, "ada@example.org"),
            emailRow("p2", 0, "bob@example.com"),
          ],
        },
      );
      expect(await destination.position()).toEqual({ number: 1, id: batch.id });
      expect(await names("person", "full_name")).toEqual(["Ada", "Bob"]);
      expect(await names("person_email", "email_address")).toEqual([
        "ada@example.com",
        "ada@example.org",
        "bob@example.com",
      ]);
    });

    test("replaces the rows of each table's keys and touches no others", async () => {
      const keys = [{ service_pid: "p1" }];
      await publish(
        { table: "person", keys, rows: [personRow("p1", "Ada L.")] },
        { table: "person_phone", keys },
      );
      const unchanged = ["ada@example.com", "ada@example.org", "bob@example.com"];
      expect(await names("person", "full_name")).toEqual(["Ada L.", "Bob"]);
      expect(await names("person_email", "email_address")).toEqual(unchanged);
      await publish(
        { table: "person", keys: [{ service_pid: "p2" }], rows: [personRow("p2", "Bob")] },
        { table: "person_email", keys, rows: [emailRow("p1", 0, "ada@example.net")] },
      );
      expect(await names("person", "full_name")).toEqual(["Ada L.", "Bob"]);
      expect(await names("person_email", "email_address")).toEqual(["ada@example.net", "bob@example.com"]);
    });

    test("deletes the rows of a key that has none left", async () => {
      const keys = [{ service_pid: "p1" }];
      await publish({ table: "person", keys }, { table: "person_email", keys });
      expect(await names("person", "full_name")).toEqual(["Bob"]);
      expect(await names("person_email", "email_address")).toEqual(["bob@example.com"]);
    });

    test("applies a repeated batch once", async () => {
      const batch = await publish({
        table: "person",
        keys: [{ service_pid: "p3" }],
        rows: [personRow("p3", "Cleo")],
      });
      const again = { ...batch, attempt: "again1" };
      const changed = [
        { table: "person", keys: [{ service_pid: "p3" }], rows: [personRow("p3", "Another")] },
      ];
      expect(await publishRows(destination, catalog, again, changed)).toBe("present");
      expect(await names("person", "full_name")).toEqual(["Bob", "Cleo"]);
    });

    test("refuses a batch of a stale publisher, and one of equal number from another history", async () => {
      const changed = [{ table: "person", keys: [{ service_pid: "p3" }], rows: [personRow("p3", "Erased")] }];
      const stale = { ...batchAfter(null), number: 2 };
      expect(await publishRows(destination, catalog, stale, changed)).toBe("refused");
      const restored = { ...batchAfter(null), number: last?.number ?? 0 };
      expect(await publishRows(destination, catalog, restored, changed)).toBe("refused");
      expect(await names("person", "full_name")).toEqual(["Bob", "Cleo"]);
      expect(await destination.position()).toEqual({ number: last?.number, id: last?.id });
    });

    test("ignores what an attempt staged that ended before its commit", async () => {
      const batch = batchAfter(last);
      const changed = [{ table: "person", keys: [{ service_pid: "p4" }], rows: [personRow("p4", "Dora")] }];
      await stageAll(destination, catalog, batch, changed);
      await destination.close();
      destination = await context.reopen();
      const repeated = { ...batch, attempt: "second1" };
      expect(await publishRows(destination, catalog, repeated, changed)).toBe("committed");
      last = batch;
      expect(await names("person", "full_name")).toEqual(["Bob", "Cleo", "Dora"]);
    });

    test("replaces a whole table from several files and parts", async () => {
      const batch = batchAfter(last);
      const table = tableIn(catalog, "person");
      const many = Array.from({ length: 250 }, (_, index) => personRow(`n${index}`, `Name ${index}`));
      const first = await writeFiles(destination, table, "rows", many.slice(0, 200), 3, "all");
      const second = {
        ...(await writeFiles(destination, table, "rows", many.slice(200), 1, "all")),
        part: 1,
      };
      await destination.stage(batch, first);
      await destination.stage(batch, second);
      // A repeated call adds nothing.
      await destination.stage(batch, second);
      const changes = [{ table, replaces: "all" as const, hasRows: true }];
      expect(await destination.commit({ ...batch, changes, erases: false })).toBe("committed");
      last = batch;
      const found = await names("person", "full_name");
      expect(found.length).toBe(250);
      expect(found).toContain("Name 249");
      expect(found).not.toContain("Bob");
    });

    test("keeps every value of every type exactly", async () => {
      const rows: readonly FileRow[] = [
        {
          service_pid: "v1",
          full_name: 'Zoë "Q" O\'Neil\\ \t\n\u0001 漢字 🎉',
          dob: "0001-01-01",
          age: 9_007_199_254_740_991,
          is_retired: true,
          _record_synced_at: "9999-12-31T23:59:59.999999+00:00",
          _extra: '{"a":[1,{"b":null}],"c":"\\u0001 \\" é"}',
          _synced_at: "0001-01-01T00:00:00.000000+00:00",
          _run_id: "",
        },
        {
          service_pid: "v2",
          dob: "9999-12-31",
          age: -1,
          is_retired: false,
          _record_synced_at: AT,
          _synced_at: AT,
          _run_id: "r",
        },
      ];
      const address = (position: number, price: string): FileRow => ({
        service_pid: "v1",
        position,
        purchase_price: price,
        _synced_at: AT,
        _run_id: "r",
      });
      const prices = ["123456789012345678.12345678901234567891", "-0.00000000000000000001", "0"];
      const subject = {
        erasure_id: "00000000-0000-4000-8000-000000000001",
        kind: "pid",
        subject_hash: "AAECA/7/",
      };
      await publish(
        { table: "person", rows, replaces: "all" },
        {
          table: "person_address",
          rows: prices.map((price, index) => address(index, price)),
          replaces: "all",
        },
        {
          table: "erasure_subject",
          keys: [subject],
          rows: [
            { ...subject, key_id: "k1", requested_at: AT, rows_removed: 3, _synced_at: AT, _run_id: "r" },
          ],
        },
      );
      for (const [index, found] of (await context.rows(destination, "person")).entries()) {
        expect(found).toMatchObject(rows[index] ?? {});
      }
      expect(await names("person_address", "purchase_price")).toEqual(prices);
      expect((await context.rows(destination, "erasure_subject"))[0]).toMatchObject(subject);
    });

    test("keeps every text in keys and values, and finds the rows of such keys", async () => {
      const keys = hardTexts.map((service_pid) => ({ service_pid }));
      const rows = hardTexts.map((text) => ({ ...personRow(text, text), _extra: JSON.stringify({ text }) }));
      const children = hardTexts.map((text) => emailRow(text, 0, text));
      const expected = [new Set(hardTexts.map((text) => [text, text, text])), new Set(hardTexts)];
      // As the first row of a file, too: some readers take a byte order mark there for their own.
      await publish(
        { table: "person", rows: [], replaces: "all" },
        { table: "person_email", rows: [], replaces: "all" },
      );
      await publish({ table: "person", keys, rows }, { table: "person_email", keys, rows: children });
      expect(await textsPublished()).toEqual(expected);
      await publish(
        { table: "person", rows, replaces: "all" },
        { table: "person_email", rows: children, replaces: "all" },
      );
      expect(await textsPublished()).toEqual(expected);
      await publish({ table: "person", keys }, { table: "person_email", keys });
      expect(await textsPublished()).toEqual([new Set(), new Set()]);
    });

    test("counts rows and hashes their contents, of every type", async () => {
      const others: Partial<Record<ColumnType, unknown>> = { "text[]": [], numeric: "100" };
      const seen = new Set<ColumnType>();
      for (const table of catalog.tables) {
        const entries = table.columns.map(
          (c) => [c.name, c.isShort ? "-12.5" : valuesByType[c.type]] as const,
        );
        const rows: FileRow[] = [
          Object.fromEntries(entries),
          Object.fromEntries(
            entries.map(([column, value], index) => [
              column,
              table.columns[index]?.required ? value : (others[table.columns[index]?.type ?? "text"] ?? null),
            ]),
          ),
        ];
        if (table.columns.every(({ type }) => seen.has(type))) continue;
        for (const { type } of table.columns) seen.add(type);
        await publish({ table: table.name, rows, replaces: "all" });
        const hash = hashOf(table, rows, destination.fileFormat);
        expect(await destination.measure([table])).toEqual([{ table: table.name, rows: 2n, hash }]);
      }
      expect(seen).toEqual(new Set(Object.keys(valuesByType)));
    });

    test("drops a table that it no longer holds", async () => {
      const tables = catalog.tables.filter((table) => table.name !== "segment");
      await destination.migrate({ ...catalog, tables, dropped: [tableIn(catalog, "segment")] });
      const [measure] = await destination.measure([tableIn(catalog, "segment")]);
      expect(measure).toEqual({ table: "segment", rows: 0n, hash: "0" });
      await destination.migrate(catalog);
      expect(await context.rows(destination, "segment")).toEqual([]);
    });

    test("grows a table by a new column", async () => {
      const grown = {
        ...catalog,
        tables: catalog.tables.map((table) =>
          table.name === "person"
            ? {
                ...table,
                columns: [
                  ...table.columns,
                  { name: "shoe_size", type: "numeric" as const, pii: "indirect" as const, doc: "Size." },
                ],
              }
            : table,
        ),
      };
      await destination.migrate(grown);
      const batch = batchAfter(last);
      const changed = [
        {
          table: "person",
          keys: [{ service_pid: "m1" }],
          rows: [{ ...personRow("m1", "One"), shoe_size: "44.5" }],
        },
      ];
      expect(await publishRows(destination, grown, batch, changed)).toBe("committed");
      last = batch;
      expect(await names("person", "shoe_size")).toEqual(["44.5", null, null]);
    });
  });
}
