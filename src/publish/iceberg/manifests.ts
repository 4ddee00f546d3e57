import avro from "avsc";
import { randomBytes } from "node:crypto";
import { inflateRawSync } from "node:zlib";
import { jsonOf } from "./catalog.ts";
import type { IcebergSchema, Long } from "./specification.ts";

/** Avro's `long`: a number, or a bigint where a number would be rounded. */
const long = avro.types.LongType["__with"]({
  fromBuffer: (bytes: Buffer) => shortened(bytes.readBigInt64LE()),
  toBuffer: (value: Long) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(value));
    return bytes;
  },
  fromJSON: BigInt,
  toJSON: Number,
  isValid: (value: unknown) => typeof value === "bigint" || Number.isSafeInteger(value),
  compare: (a: Long, b: Long) => (a === b ? 0 : a < b ? -1 : 1),
});

function shortened(value: bigint): Long {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

const optional = (id: number, name: string, type: unknown) => ({
  name,
  type: ["null", type],
  default: null,
  "field-id": id,
});
const required = (id: number, name: string, type: unknown) => ({ name, type, "field-id": id });

const ENTRY = {
  type: "record",
  name: "manifest_entry",
  fields: [
    required(0, "status", "int"),
    optional(1, "snapshot_id", "long"),
    optional(3, "sequence_number", "long"),
    optional(4, "file_sequence_number", "long"),
    required(2, "data_file", {
      type: "record",
      name: "r2",
      fields: [
        required(134, "content", "int"),
        required(100, "file_path", "string"),
        required(101, "file_format", "string"),
        required(102, "partition", { type: "record", name: "r102", fields: [] }),
        required(103, "record_count", "long"),
        required(104, "file_size_in_bytes", "long"),
      ],
    }),
  ],
};

const MANIFEST_FILE = {
  type: "record",
  name: "manifest_file",
  fields: [
    required(500, "manifest_path", "string"),
    required(501, "manifest_length", "long"),
    required(502, "partition_spec_id", "int"),
    required(517, "content", "int"),
    required(515, "sequence_number", "long"),
    required(516, "min_sequence_number", "long"),
    required(503, "added_snapshot_id", "long"),
    required(504, "added_files_count", "int"),
    required(505, "existing_files_count", "int"),
    required(506, "deleted_files_count", "int"),
    required(512, "added_rows_count", "long"),
    required(513, "existing_rows_count", "long"),
    required(514, "deleted_rows_count", "long"),
  ],
};

/** Status of a file in a manifest. */
export const EXISTING = 0;
export const ADDED = 1;
export const DELETED = 2;

export interface DataFile {
  /** 0 for rows; others hold deletions. */
  readonly content: number;
  readonly file_path: string;
  readonly record_count: Long;
  readonly file_size_in_bytes: Long;
}

export interface ManifestEntry {
  readonly status: number;
  /** Null in a file means that of the manifest's snapshot; `readEntries` replaces it. */
  readonly snapshot_id: Long | null;
  readonly sequence_number: Long | null;
  readonly file_sequence_number: Long | null;
  readonly data_file: DataFile;
}

interface ManifestFile {
  readonly manifest_path: string;
  readonly sequence_number: Long;
  readonly added_snapshot_id: Long;
}

/** List of the manifests of a snapshot. IDs are in decimal digits. */
export interface ManifestList {
  readonly snapshotId: string;
  /** `null` without a parent. */
  readonly parentId: string;
  readonly manifests: readonly ManifestFile[];
}

/** Reads a manifest list; null if the file is a manifest. */
export function readManifestList(content: Buffer): ManifestList | null {
  const { fields, metadata, rows } = readContainer(content);
  if (!fields.includes("manifest_path")) return null;
  return {
    snapshotId: metadata["snapshot-id"]?.toString() ?? "",
    parentId: metadata["parent-snapshot-id"]?.toString() ?? "null",
    manifests: rows as readonly ManifestFile[], // as the specification defines the file
  };
}

/** Reads the entries of a manifest; without the deleted ones. */
export function readEntries(content: Buffer, manifest: ManifestFile): readonly ManifestEntry[] {
  const entries = readContainer(content).rows as readonly ManifestEntry[]; // as the specification defines the file
  return entries
    .filter(({ status }) => status !== DELETED)
    .map((entry) => ({
      ...entry,
      snapshot_id: entry.snapshot_id ?? manifest.added_snapshot_id,
      sequence_number: entry.sequence_number ?? manifest.sequence_number,
      file_sequence_number: entry.file_sequence_number ?? manifest.sequence_number,
    }));
}

/** Property of a manifest with the addresses of the metadata that its snapshot replaces. */
const REPLACED = "person-etl.replaced";

/** Reads the addresses of the files that a manifest removed from its table; none in a manifest list. */
export function readRemoved(content: Buffer): readonly string[] {
  const { rows, metadata } = readContainer(content);
  const entries = rows as readonly ManifestEntry[]; // as the specification defines the file
  const removed = entries.filter(({ status }) => status === DELETED);
  const replaced = JSON.parse(metadata[REPLACED]?.toString() ?? "[]") as readonly string[]; // as written below
  return [...removed.map(({ data_file: file }) => file.file_path), ...replaced];
}

interface ManifestOf {
  readonly schema: IcebergSchema;
  readonly specId: number;
  /** Addresses of the metadata that its snapshot replaces. */
  readonly replaced: readonly string[];
}

/** Writes a manifest of data files of a table without partitions. It has no bounds of columns: they are values of rows, which may be erased. */
export function writeManifest(
  entries: readonly ManifestEntry[],
  { schema, specId, replaced }: ManifestOf,
): Buffer {
  const rows = entries.map((entry) => ({
    ...entry,
    data_file: { file_format: "PARQUET", ...entry.data_file, partition: {} },
  }));
  return writeContainer(ENTRY, rows, {
    schema: jsonOf(schema),
    "schema-id": `${schema["schema-id"]}`,
    "partition-spec": "[]",
    "partition-spec-id": `${specId}`,
    "format-version": "2",
    content: "data",
    [REPLACED]: JSON.stringify(replaced),
  });
}

interface ListedManifest {
  readonly path: string;
  readonly length: number;
  readonly specId: number;
  readonly entries: readonly ManifestEntry[];
}

interface ListOf {
  readonly snapshotId: Long;
  readonly parentId: Long | null;
  readonly sequenceNumber: Long;
}

/** Writes the list of a snapshot's manifests, all of which are new. */
export function writeManifestList(
  manifests: readonly ListedManifest[],
  { snapshotId, parentId, sequenceNumber }: ListOf,
): Buffer {
  const rows = manifests.map(({ path, length, specId, entries }) => {
    const of = (status: number) => entries.filter((entry) => entry.status === status);
    const rowsOf = (status: number) =>
      of(status).reduce((sum, { data_file: file }) => sum + BigInt(file.record_count), 0n);
    const sequences = entries
      .filter(({ status }) => status !== DELETED)
      .map((entry) => BigInt(entry.sequence_number ?? sequenceNumber));
    return {
      manifest_path: path,
      manifest_length: length,
      partition_spec_id: specId,
      content: 0,
      sequence_number: sequenceNumber,
      min_sequence_number: sequences.reduce((a, b) => (a < b ? a : b), BigInt(sequenceNumber)),
      added_snapshot_id: snapshotId,
      added_files_count: of(ADDED).length,
      existing_files_count: of(EXISTING).length,
      deleted_files_count: of(DELETED).length,
      added_rows_count: rowsOf(ADDED),
      existing_rows_count: rowsOf(EXISTING),
      deleted_rows_count: rowsOf(DELETED),
    };
  });
  return writeContainer(MANIFEST_FILE, rows, {
    "snapshot-id": `${snapshotId}`,
    "parent-snapshot-id": `${parentId ?? "null"}`,
    "sequence-number": `${sequenceNumber}`,
    "format-version": "2",
  });
}

const MAGIC = Buffer.from("Obj\u0001", "latin1");
const SYNC_BYTES = 16;
const metadataType = avro.Type.forSchema({ type: "map", values: "bytes" });
const blockType = avro.Type.forSchema({
  type: "record",
  name: "Block",
  fields: [
    { name: "count", type: "long" },
    { name: "data", type: "bytes" },
  ],
});

const typeOf = (schema: unknown) =>
  avro.Type.forSchema(schema as avro.Schema, { registry: { long }, wrapUnions: false }); // checked by avsc

/**
 * Writes an Avro file. avsc's own writer leaves the IDs of fields out of the schema in the file's head, or can't write numbers of 64 bits.
 */
function writeContainer(
  schema: unknown,
  rows: readonly unknown[],
  metadata: Readonly<Record<string, string>>,
): Buffer {
  const type = typeOf(schema);
  const head = { "avro.schema": JSON.stringify(schema), "avro.codec": "null", ...metadata };
  const values = Object.entries(head).map(([key, value]) => [key, Buffer.from(value)]);
  const sync = randomBytes(SYNC_BYTES);
  const data = Buffer.concat(rows.map((row) => type.toBuffer(row)));
  const block = rows.length === 0 ? [] : [blockType.toBuffer({ count: rows.length, data }), sync];
  return Buffer.concat([MAGIC, metadataType.toBuffer(Object.fromEntries(values)), sync, ...block]);
}

interface Container {
  /** Names of the fields of each row. */
  readonly fields: readonly string[];
  readonly metadata: Readonly<Record<string, Buffer>>;
  readonly rows: readonly unknown[];
}

/** Reads an Avro file of any writer: uncompressed or deflated. */
function readContainer(content: Buffer): Container {
  if (!content.subarray(0, MAGIC.length).equals(MAGIC)) throw new Error("no Avro file");
  const head = metadataType.decode(content, MAGIC.length);
  const metadata = head.value as Readonly<Record<string, Buffer>>; // by its type
  const codec = metadata["avro.codec"]?.toString() ?? "null";
  if (codec !== "null" && codec !== "deflate") throw new Error(`an Avro file is compressed by ${codec}`);
  const schema = JSON.parse(metadata["avro.schema"]?.toString() ?? "null") as {
    readonly fields: readonly { readonly name: string }[];
  }; // a record, as the specification defines both kinds of files
  const type = typeOf(schema);
  const rows: unknown[] = [];
  for (let at = head.offset + SYNC_BYTES; at < content.length; ) {
    const block = blockType.decode(content, at);
    const { count, data } = block.value as { readonly count: number; readonly data: Buffer }; // by its type
    const bytes = codec === "deflate" ? inflateRawSync(data) : data;
    for (let row = 0, offset = 0; row < count; row += 1) {
      const read = type.decode(bytes, offset);
      rows.push(read.value);
      ({ offset } = read);
    }
    at = block.offset + SYNC_BYTES;
  }
  return { fields: schema.fields.map(({ name }) => name), metadata, rows };
}
