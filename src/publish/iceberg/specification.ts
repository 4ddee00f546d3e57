// The parts of Iceberg's specification that this program uses.

/** A number of 64 bits; a bigint if JavaScript's numbers can't hold it. */
export type Long = number | bigint;

export interface IcebergField {
  readonly id: number;
  readonly name: string;
  readonly required: boolean;
  readonly type: string | ListType;
  readonly doc?: string;
}

export interface ListType {
  readonly type: "list";
  readonly "element-id": number;
  readonly element: string;
  readonly "element-required": boolean;
}

export interface IcebergSchema {
  readonly type: "struct";
  readonly "schema-id": number;
  readonly fields: readonly IcebergField[];
}

export interface Snapshot {
  readonly "snapshot-id": Long;
  readonly "parent-snapshot-id"?: Long;
  readonly "sequence-number": Long;
  readonly "timestamp-ms": number;
  readonly "manifest-list": string;
  readonly summary: Readonly<Record<string, string>>;
  readonly "schema-id": number;
}

export interface StatisticsFile {
  readonly "snapshot-id": Long;
  readonly "statistics-path": string;
}

export interface TableMetadata {
  readonly "format-version": number;
  readonly "table-uuid": string;
  readonly location: string;
  readonly "last-updated-ms"?: number;
  readonly "last-sequence-number": Long;
  readonly "last-column-id": number;
  readonly "current-schema-id": number;
  readonly schemas: readonly IcebergSchema[];
  readonly "default-spec-id": number;
  readonly "partition-specs": readonly { readonly "spec-id": number; readonly fields: readonly unknown[] }[];
  /** Absent, null or -1 without a snapshot. */
  readonly "current-snapshot-id"?: Long | null;
  readonly snapshots?: readonly Snapshot[];
  /** Branches and tags by name. */
  readonly refs?: Readonly<Record<string, { readonly "snapshot-id": Long }>>;
  /** Files with sketches of columns, which other engines write. */
  readonly statistics?: readonly StatisticsFile[];
  readonly "partition-statistics"?: readonly StatisticsFile[];
  readonly properties?: Readonly<Record<string, string>>;
}

export interface LoadedTable {
  readonly metadata: TableMetadata;
  /** Settings for clients, with credentials for the table's files where the catalog grants them. */
  readonly config: Readonly<Record<string, string>>;
}

/** One definition of a view. */
interface ViewVersion {
  readonly "version-id": number;
  readonly "timestamp-ms": number;
  readonly "schema-id": number;
  readonly summary: Readonly<Record<string, string>>;
  readonly "default-namespace": readonly string[];
  readonly representations: readonly {
    readonly type: string;
    readonly sql: string;
    readonly dialect: string;
  }[];
}

/** View as this program declares it. */
export interface ViewDefinition {
  readonly schema: IcebergSchema;
  readonly version: ViewVersion;
  readonly properties: Readonly<Record<string, string>>;
}

export interface LoadedView {
  readonly metadata: {
    readonly "current-version-id": number;
    readonly versions: readonly ViewVersion[];
    readonly schemas: readonly IcebergSchema[];
    readonly properties?: Readonly<Record<string, string>>;
  };
}

export interface TableName {
  readonly namespace: string;
  readonly name: string;
}

/** Changes of a table, and what must hold for them. */
export interface TableUpdate {
  readonly identifier: { readonly namespace: readonly string[]; readonly name: string };
  readonly requirements: readonly Readonly<Record<string, unknown>>[];
  readonly updates: readonly Readonly<Record<string, unknown>>[];
}
