import { randomBytes } from "node:crypto";
import type { ColumnType } from "../../schemas/field.ts";
import type { PublishedTable } from "../destination.ts";
import type {
  IcebergField,
  IcebergSchema,
  ListType,
  LoadedTable,
  Long,
  Snapshot,
  TableMetadata,
  TableName,
  TableUpdate,
} from "./specification.ts";
import {
  ADDED,
  DELETED,
  EXISTING,
  type ManifestEntry,
  readEntries,
  readManifestList,
  writeManifest,
  writeManifestList,
} from "./manifests.ts";
import { isMissingFile, type Storage } from "../../object-store.ts";

const types: Readonly<Record<Exclude<ColumnType, "text[]">, string>> = {
  text: "string",
  integer: "long",
  position: "int",
  numeric: "decimal(38, 20)",
  boolean: "boolean",
  date: "date",
  timestamptz: "timestamptz",
  timestamp: "timestamp",
  // Version 2 of the format has no JSON.
  json: "string",
  uuid: "uuid",
  bytes: "binary",
};

/** Property of tables that this program created, with the name that it gave them. */
const OWN_PROPERTY = "person-etl.table";

/** True if this program created a table: all others are left alone, and copies under another name. */
export function isOwn({ name }: TableName, { properties }: TableMetadata): boolean {
  return properties?.[OWN_PROPERTY] === name;
}

export function propertiesOf(table: PublishedTable): Readonly<Record<string, string>> {
  const key = table.key.length > 0 ? ` Key: ${table.key.join(", ")}.` : "";
  return {
    comment: `${table.doc}${key}`,
    [OWN_PROPERTY]: table.name,
    "format-version": "2",
    // The files of former metadata, which the catalog writes.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
  };
}

/** Schema of a table. Columns that the table has keep their IDs, also those that are no longer declared. */
export function schemaOf(
  table: Pick<PublishedTable, "columns">,
  existing: TableMetadata | null,
): IcebergSchema {
  const fields = new Map(
    existing === null ? [] : currentSchema(existing).fields.map((field) => [field.name, field]),
  );
  let lastId = existing?.["last-column-id"] ?? 0;
  const nextId = () => (lastId += 1);
  for (const { name, type, doc, pii } of table.columns) {
    const known = fields.get(name);
    const id = known?.id ?? nextId();
    const list = (): ListType => ({
      type: "list",
      "element-id": nextId(),
      element: "string",
      "element-required": false,
    });
    const own = known?.type ?? (type === "text[]" ? list() : types[type]);
    fields.set(name, { id, name, required: false, type: own, doc: `${doc} pii: ${pii}` });
  }
  const all = [...fields.values()];
  return { type: "struct", "schema-id": existing?.["current-schema-id"] ?? 0, fields: all };
}

export function currentSchema(metadata: TableMetadata): IcebergSchema {
  const id = metadata["current-schema-id"];
  const found = metadata.schemas.find((schema) => schema["schema-id"] === id);
  if (!found) throw new Error(`the catalog returns a table without its schema ${id}`);
  // They become part of statements.
  if (!found.fields.flatMap(idsOf).every(Number.isSafeInteger)) {
    throw new Error("the catalog returns a table with an ID of a field that isn't an integer");
  }
  return found;
}

/** Changes of a table that lacks columns, or has other descriptions; none if it is as declared. */
export function schemaUpdates(table: PublishedTable, metadata: TableMetadata): TableUpdate["updates"] {
  const [before, after] = [currentSchema(metadata), schemaOf(table, metadata)];
  const updates: Readonly<Record<string, unknown>>[] = [];
  if (textOf(before.fields) !== textOf(after.fields)) {
    const lastColumnId = Math.max(metadata["last-column-id"], ...after.fields.flatMap(idsOf));
    const schema = {
      ...after,
      "schema-id": Math.max(...metadata.schemas.map((known) => known["schema-id"])) + 1,
    };
    updates.push(
      { action: "add-schema", schema, "last-column-id": lastColumnId },
      // The schema added last.
      { action: "set-current-schema", "schema-id": -1 },
    );
  }
  const { comment } = propertiesOf(table);
  if (metadata.properties?.["comment"] !== comment)
    updates.push({ action: "set-properties", updates: { comment } });
  return updates;
}

const idsOf = ({ id, type }: IcebergField) => (typeof type === "string" ? [id] : [id, type["element-id"]]);

function textOf(fields: readonly IcebergField[]): string {
  return JSON.stringify(fields.map(({ id, name, type, doc }) => [id, name, type, doc]));
}

/** Address of the folder of a table, without a slash at its end. */
export const folderOf = ({ location }: Pick<TableMetadata, "location">) => location.replace(/\/+$/u, "");

/** Current snapshot of a table; null without one. */
export function currentSnapshot(metadata: TableMetadata): Snapshot | null {
  const id = metadata["current-snapshot-id"] ?? -1;
  if (id === -1) return null;
  const found = metadata.snapshots?.find((snapshot) => snapshot["snapshot-id"] === id);
  if (!found) throw new Error("the catalog returns a table without its current snapshot");
  return found;
}

/** Requirement that nobody has changed the rows of a table since it was loaded. */
export function unchanged(metadata: TableMetadata): TableUpdate["requirements"] {
  return [
    { type: "assert-table-uuid", uuid: metadata["table-uuid"] },
    {
      type: "assert-ref-snapshot-id",
      ref: "main",
      "snapshot-id": currentSnapshot(metadata)?.["snapshot-id"] ?? null,
    },
  ];
}

/** Files of a snapshot. */
export interface SnapshotFiles {
  readonly entries: readonly ManifestEntry[];
  /** Addresses of its list and its manifests. */
  readonly manifests: readonly string[];
}

export async function readSnapshot(storage: Storage, snapshot: Snapshot | null): Promise<SnapshotFiles> {
  if (snapshot === null) return { entries: [], manifests: [] };
  const list = snapshot["manifest-list"];
  const entries: ManifestEntry[] = [];
  const manifests = [list];
  const listed = readManifestList(await storage.read(list));
  if (listed === null) throw new Error("the catalog returns a table without a manifest list");
  for (const manifest of listed.manifests) {
    manifests.push(manifest.manifest_path);
    entries.push(...readEntries(await storage.read(manifest.manifest_path), manifest));
  }
  return { entries, manifests };
}

/** Reads the files of a snapshot that is replaced as a whole or was before. If some of its manifests are missing, it counts as empty. */
export async function readReplaced(storage: Storage, snapshot: Snapshot | null): Promise<SnapshotFiles> {
  try {
    return await readSnapshot(storage, snapshot);
  } catch (error) {
    if (isMissingFile(error)) return { entries: [], manifests: [] };
    throw error;
  }
}

/** A file of rows that is to be added to a table. */
export interface NewFile {
  readonly address: string;
  readonly rows: number;
  readonly bytes: number;
}

/** Change of a table's files. */
interface FileChange {
  readonly table: TableName;
  readonly loaded: LoadedTable;
  readonly before: SnapshotFiles;
  /** Addresses of files that the table no longer has. */
  readonly removed: ReadonlySet<string>;
  readonly added: readonly NewFile[];
  /** Prefix of the names of new files. */
  readonly prefix: string;
}

/** Writes the manifest of a new snapshot. Returns the change that makes it the current one. */
export async function newSnapshot(storage: Storage, change: FileChange): Promise<TableUpdate> {
  const { table, loaded, before, removed, added, prefix } = change;
  const { metadata } = loaded;
  const parent = currentSnapshot(metadata);
  const snapshotId = Number(BigInt(`0x${randomBytes(6).toString("hex")}`)) + 1;
  const sequenceNumber = BigInt(metadata["last-sequence-number"]) + 1n;
  // Deletions of other writers end with the files that they are for.
  const [files, deletions] = [
    before.entries.filter(isOfRows),
    before.entries.filter((entry) => !isOfRows(entry)),
  ];
  const kept = files.map((entry) =>
    removed.has(entry.data_file.file_path)
      ? { ...entry, status: DELETED, snapshot_id: snapshotId }
      : { ...entry, status: EXISTING },
  );
  const entries = [...kept, ...added.map((file) => entryOf(file, snapshotId))];
  const specId = metadata["default-spec-id"];
  const folder = `${folderOf(metadata)}/metadata`;
  const path = `${folder}/${prefix}-manifest.avro`;
  const schema = currentSchema(metadata);
  const manifest = writeManifest(entries, {
    schema,
    specId,
    replaced: [...before.manifests, ...deletions.map(({ data_file: file }) => file.file_path)],
  });
  await storage.write(path, manifest);
  const ids = { snapshotId, parentId: parent?.["snapshot-id"] ?? null, sequenceNumber };
  const list = `${folder}/${prefix}-manifests.avro`;
  const manifests = entries.length === 0 ? [] : [{ path, length: manifest.length, specId, entries }];
  await storage.write(list, writeManifestList(manifests, ids));
  const snapshot = {
    "snapshot-id": snapshotId,
    ...(ids.parentId === null ? {} : { "parent-snapshot-id": ids.parentId }),
    "sequence-number": shortest(sequenceNumber),
    // Never back in time, which readers refuse.
    "timestamp-ms": Math.max(Date.now(), metadata["last-updated-ms"] ?? 0, parent?.["timestamp-ms"] ?? 0),
    "manifest-list": list,
    "schema-id": schema["schema-id"],
    summary: summaryOf(entries),
  } satisfies Snapshot;
  return {
    identifier: identifierOf(table),
    requirements: unchanged(metadata),
    updates: [
      { action: "add-snapshot", snapshot },
      { action: "set-snapshot-ref", "ref-name": "main", type: "branch", "snapshot-id": snapshotId },
    ],
  };
}

const isOfRows = ({ data_file: file }: ManifestEntry) => file.content === 0;

export const identifierOf = ({ namespace, name }: TableName) => ({ namespace: [namespace], name });

const shortest = (value: bigint): Long => (value <= Number.MAX_SAFE_INTEGER ? Number(value) : value);

function entryOf({ address, rows, bytes }: NewFile, snapshotId: Long): ManifestEntry {
  return {
    status: ADDED,
    snapshot_id: snapshotId,
    sequence_number: null,
    file_sequence_number: null,
    data_file: { content: 0, file_path: address, record_count: rows, file_size_in_bytes: bytes },
  };
}

function rowsOf(entries: readonly ManifestEntry[]): string {
  return entries.reduce((sum, { data_file: file }) => sum + BigInt(file.record_count), 0n).toString();
}

function summaryOf(entries: readonly ManifestEntry[]): Readonly<Record<string, string>> {
  const of = (...statuses: readonly number[]) => entries.filter(({ status }) => statuses.includes(status));
  const live = of(ADDED, EXISTING);
  return {
    operation: of(DELETED).length === 0 ? "append" : "overwrite",
    "added-data-files": `${of(ADDED).length}`,
    "added-records": rowsOf(of(ADDED)),
    "deleted-data-files": `${of(DELETED).length}`,
    "deleted-records": rowsOf(of(DELETED)),
    "total-data-files": `${live.length}`,
    "total-records": rowsOf(live),
    "total-delete-files": "0",
  };
}
